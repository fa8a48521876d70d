#include "src/plan/slabs.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace ebt::plan {
namespace {

// Without GPU time: parts of a step's launches.
constexpr uint64_t kFetchAheadPart = 16;
constexpr uint64_t kGoneBehindPart = 4;
// Played steps, of which the last is taken for all: what one step hands to the next has settled.
constexpr int kPlayedSteps = 4;

// Slabs for which copies out leave room to copies in: as many as are on their way at a time.
constexpr int64_t kSpared = 8;

using Order = std::vector<size_t>;

// Launches are counted from the begin of one step into the next: n + i is the next step's i.
class Scheduler {
 public:
  explicit Scheduler(const StayProblem& problem)
      : problem_(problem), n_(problem.room.size()), left_(problem.room) {
    by_first_ = Sorted([&](size_t i) { return problem_.uses[i].first; });
    by_last_ = Sorted([&](size_t i) { return problem_.uses[i].last % n_; });
  }

  StaySchedule Run() {
    ReserveUses();
    const std::vector<uint64_t> wanted_fetch = WantedFetch();
    std::vector<uint64_t> wanted_gone = WantedGone(), gone, fetch(problem_.uses.size());
    for (const SlabUse& use : problem_.uses) gone.push_back(use.last + 1);
    LeaveLater(wanted_gone, true, gone);
    for (size_t i : by_first_) {
      const uint64_t wanted = std::max(wanted_fetch[i], gone[i]);
      for (fetch[i] = NextFirst(i); fetch[i] > wanted && Take(fetch[i] - 1, 0);) --fetch[i];
    }
    for (size_t i = 0; i < gone.size(); ++i) wanted_gone[i] = std::min(wanted_gone[i], fetch[i]);
    LeaveLater(wanted_gone, false, gone);
    for (size_t i = 0; i < problem_.uses.size(); ++i) {
      out_.always.push_back(fetch[i] <= gone[i]);
      out_.slabs.push_back({.fetch_launch = uint32_t(fetch[i] % n_),
                            .evict_launch = uint32_t(problem_.uses[i].last % n_),
                            .gone_launch = uint32_t(gone[i] % n_)});
    }
    return std::move(out_);
  }

 private:
  template <typename Key>
  Order Sorted(Key key) const {
    Order order(problem_.uses.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return key(a) < key(b); });
    return order;
  }

  double TimeOf(uint64_t launch) const {
    const uint64_t steps = launch / n_;
    return double(steps) * problem_.clock.step_ms + problem_.clock.launch_ms[launch % n_];
  }
  uint64_t NextFirst(size_t i) const { return n_ + problem_.uses[i].first; }

  // While a slab is used it is there, whatever that takes.
  void ReserveUses() {
    std::vector<int64_t> change(n_ + 1, 0);
    for (const SlabUse& use : problem_.uses) {
      ++change[use.first], --change[std::min<uint64_t>(use.last + 1, n_)];
      if (use.last >= n_) ++change[0], --change[use.last + 1 - n_];
    }
    int64_t used = 0;
    for (uint64_t launch = 0; launch < n_; ++launch) {
      used += change[launch];
      left_[launch] -= used;
      if (used > 0 && -left_[launch] > out_.raised) {
        out_.raised = -left_[launch];
        out_.crowded = uint32_t(launch);
      }
    }
    for (int64_t& left : left_) left += out_.raised;
  }

  // Places that are gone as late as the copies out need, where there is room; as long as fetches
  // have not been given theirs, some is spared for them. A fetch that finds none would have to wait
  // for the copy out, the launch for the fetch, and nothing would go both ways at once.
  void LeaveLater(const std::vector<uint64_t>& wanted, bool spares, std::vector<uint64_t>& gone) {
    std::vector<int64_t> spare(n_, 0);
    for (uint64_t i = 0; spares && i < n_; ++i) spare[i] = std::min(kSpared, left_[i] / 2);
    for (size_t i : by_last_) {
      while (gone[i] < wanted[i] && Take(gone[i], spare[gone[i] % n_])) ++gone[i];
    }
  }

  bool Take(uint64_t launch, int64_t spare) {
    int64_t& left = left_[launch % n_];
    if (left <= spare) return false;
    --left;
    return true;
  }

  // The first launch at which a slab's copy out can be through, at most its next use.
  std::vector<uint64_t> WantedGone() const {
    std::vector<uint64_t> gone(problem_.uses.size());
    if (problem_.clock.step_ms <= 0) {
      for (size_t i = 0; i < gone.size(); ++i) {
        gone[i] = std::min(problem_.uses[i].last + 1 + n_ / kGoneBehindPart, NextFirst(i));
      }
      return gone;
    }
    double link_free = -std::numeric_limits<double>::infinity();
    for (int step = 0; step < 2; ++step) {  // the second finds what the first leaves on the link
      for (size_t i : by_last_) {
        // In the step in which the last use is; then back to where the use begins.
        const uint64_t last = problem_.uses[i].last % n_, round = problem_.uses[i].last - last;
        link_free = std::max(TimeOf(last + 1), link_free) + problem_.out_ms;
        gone[i] = round + FirstLaunch(last + 1, NextFirst(i) - round,
                                      [&](uint64_t launch) { return TimeOf(launch) >= link_free; });
      }
      link_free -= problem_.clock.step_ms;
    }
    return gone;
  }

  // The last launch at which a slab's copy in may begin, at least the one behind its use before.
  std::vector<uint64_t> WantedFetch() const {
    std::vector<uint64_t> fetch(problem_.uses.size());
    if (problem_.clock.step_ms <= 0) {
      const uint64_t ahead = std::max<uint64_t>(1, n_ / kFetchAheadPart);
      for (size_t i = 0; i < fetch.size(); ++i) {
        fetch[i] = std::max<uint64_t>(NextFirst(i) - ahead, problem_.uses[i].last + 1);
      }
      return fetch;
    }
    double link_taken = std::numeric_limits<double>::infinity();
    for (int step = 0; step < 2; ++step) {
      for (auto i = by_first_.rbegin(); i != by_first_.rend(); ++i) {
        link_taken = std::min(TimeOf(NextFirst(*i)), link_taken) - problem_.in_ms;
        const uint64_t behind =
            FirstLaunch(problem_.uses[*i].last + 1, NextFirst(*i) + 1,
                        [&](uint64_t launch) { return TimeOf(launch) > link_taken; });
        fetch[*i] = std::max<uint64_t>(behind - 1, problem_.uses[*i].last + 1);
      }
      link_taken += problem_.clock.step_ms;
    }
    return fetch;
  }

  // Of [begin, end) the first for which `holds`, which holds for all behind it too; else `end`.
  template <typename Holds>
  static uint64_t FirstLaunch(uint64_t begin, uint64_t end, Holds holds) {
    while (begin < end) {
      const uint64_t middle = begin + (end - begin) / 2;
      holds(middle) ? end = middle : begin = middle + 1;
    }
    return begin;
  }

  const StayProblem& problem_;
  uint64_t n_;
  std::vector<int64_t> left_;  // room that nobody has taken
  Order by_first_, by_last_;
  StaySchedule out_;
};

// Plays steps as the replay does: before a launch it waits for the places that are to be gone,
// begins the fetches, and waits for what the launch uses.
class Play {
 public:
  Play(const StayProblem& problem, const StaySchedule& schedule)
      : problem_(problem), points_(problem.room.size()), copies_(problem.uses.size()) {
    std::vector<uint32_t> moved;
    for (uint32_t i = 0; i < problem.uses.size(); ++i) {
      if (!schedule.always[i]) moved.push_back(i);
    }
    for (uint32_t i : moved) points_[schedule.slabs[i].gone_launch].gone.push_back(i);
    std::stable_sort(moved.begin(), moved.end(), [&](uint32_t a, uint32_t b) {
      return problem.uses[a].first < problem.uses[b].first;
    });
    for (uint32_t i : moved) {
      points_[schedule.slabs[i].fetch_launch].fetched.push_back(i);
      points_[problem.uses[i].first].first_used.push_back(i);
    }
    for (uint32_t i : moved) points_[schedule.slabs[i].evict_launch].last_used.push_back(i);
  }

  double StallMs() {
    double before = 0;
    for (int step = 0; step < kPlayedSteps; ++step) {
      before = late_;
      for (size_t launch = 0; launch < points_.size(); ++launch) PlayLaunch(step, launch);
    }
    return late_ - before;
  }

 private:
  struct Point {  // of one launch: slabs
    std::vector<uint32_t> gone, fetched, first_used, last_used;
  };
  struct Copies {  // of a slab: when its last ones ended
    double in = 0, out = 0;
  };

  void PlayLaunch(int step, size_t launch) {
    const StepClock& clock = problem_.clock;
    const Point& point = points_[launch];
    const double begin = step * clock.step_ms + clock.launch_ms[launch];
    const bool last = launch + 1 == points_.size();
    const double end = (step + last) * clock.step_ms + clock.launch_ms[last ? 0 : launch + 1];
    for (uint32_t i : point.gone) late_ = std::max(late_, copies_[i].out - begin);
    for (uint32_t i : point.fetched) {
      copies_[i].in = in_free_ = std::max(in_free_, begin + late_) + problem_.in_ms;
    }
    for (uint32_t i : point.first_used) late_ = std::max(late_, copies_[i].in - begin);
    for (uint32_t i : point.last_used) {
      copies_[i].out = out_free_ = std::max(out_free_, end + late_) + problem_.out_ms;
    }
  }

  const StayProblem& problem_;
  std::vector<Point> points_;
  std::vector<Copies> copies_;
  double late_ = 0;                    // behind the recorded clock
  double in_free_ = 0, out_free_ = 0;  // when the link is, in each direction
};

}  // namespace

StaySchedule ScheduleStays(const StayProblem& problem) {
  StaySchedule schedule = Scheduler(problem).Run();
  if (problem.clock.step_ms > 0) schedule.stall_ms = Play(problem, schedule).StallMs();
  return schedule;
}

}  // namespace ebt::plan
