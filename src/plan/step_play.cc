#include "src/plan/step_play.h"

#include <algorithm>
#include <utility>

#include "src/plan/link.h"

namespace ebt::plan {
namespace {

// What one step hands to the next settles within a few; where it does not, the last ones' mean is
// taken.
constexpr int kMostSteps = 24;
constexpr int kMeanOf = 8;
constexpr double kSettledMs = 1e-6;
// Host time of one launch and of one move (two stream waits, two event records, the arena's
// book-keeping), as a framework's eager loop and the swap engine need it: rough, and of weight
// only where the host is the bottleneck.
constexpr double kLaunchHostMs = 0.010;
constexpr double kMoveHostMs = 0.028;

class Play {
 public:
  explicit Play(const PlayedStep& step)
      : step_(step),
        link_(step.device),
        points_(step.clock.launch_ms.size()),
        jobs_(step.moves.size()) {
    for (uint32_t i = 0; i < step.moves.size(); ++i) {
      const Move& move = step.moves[i];
      points_[move.fetch].fetched.push_back(i);
      points_[move.first].first_used.push_back(i);
      points_[move.last].last_used.push_back(i);
      if (move.gone != kNobody) points_[move.gone].gone.push_back(i);
    }
  }

  Prediction Run() {
    std::vector<StallMs> steps;
    while (int(steps.size()) < kMostSteps) {
      stall_ = {}, bytes_in_ = bytes_out_ = 0;
      for (size_t launch = 0; launch < points_.size(); ++launch) PlayLaunch(launch);
      stall_.host = HostMs();
      steps.push_back(stall_);
      const size_t n = steps.size();
      // The first step finds everything on the host.
      if (n > 2 && std::abs(steps[n - 1].sum() - steps[n - 2].sum()) < kSettledMs) {
        return Result(steps.back());
      }
    }
    return Result(Mean(steps));
  }

 private:
  struct Point {  // of one launch: moves
    std::vector<uint32_t> gone, fetched, first_used, last_used;
  };
  struct Jobs {  // of a move: its last copies
    Link::Job in = Link::kNoJob, out = Link::kNoJob;
    bool present = false;
  };

  double LaunchMs(size_t launch) const {
    const StepClock& clock = step_.clock;
    const double end = launch + 1 < points_.size() ? clock.launch_ms[launch + 1]
                                                   : clock.step_ms + clock.launch_ms[0];
    return end - clock.launch_ms[launch];
  }

  // How long it takes until `job` is through.
  double Wait(Link::Job job) {
    const double begin = link_.now();
    link_.Await(job);
    return link_.now() - begin;
  }

  void PlayLaunch(size_t launch) {
    const Point& point = points_[launch];
    for (uint32_t i : point.gone) stall_.room += Wait(jobs_[i].out);
    for (uint32_t i : point.fetched) Fetch(i);
    for (uint32_t i : point.first_used) stall_.fetch += Wait(jobs_[i].in);
    NotePeak(launch);
    link_.AdvanceTo(link_.now() + LaunchMs(launch));
    UseInPlace(launch);
    for (uint32_t i : point.last_used) SendBack(i);
  }

  void Fetch(uint32_t i) {
    const Move& move = step_.moves[i];
    Jobs& jobs = jobs_[i];
    if (jobs.present && link_.Done(jobs.out)) Gone(i);
    // Its own copy out comes before its place is another's, and so before that one's.
    const Link::Job before = move.after == kNobody ? jobs.out : jobs_[move.after].out;
    jobs.in = link_.Copy(Link::Direction::kIn, move.bytes, move.managed,
                         link_.Done(jobs.out) ? before : jobs.out);
    bytes_in_ += move.bytes;
    moved_ += jobs.present ? 0 : move.bytes;
    jobs.present = true;
    jobs.out = Link::kNoJob;
  }

  void SendBack(uint32_t i) {
    const Move& move = step_.moves[i];
    Jobs& jobs = jobs_[i];
    if (!jobs.present) return;  // of the step before the first
    if (move.clean) {
      jobs.out = link_.Nothing();
      return Gone(i);
    }
    jobs.out = link_.Copy(Link::Direction::kOut, move.bytes, move.managed, jobs.in);
    bytes_out_ += move.bytes;
    leaving_.push_back(i);
  }

  void Gone(uint32_t i) {
    if (!std::exchange(jobs_[i].present, false)) return;
    moved_ -= step_.moves[i].bytes;
  }

  void NotePeak(size_t launch) {
    std::erase_if(leaving_, [&](uint32_t i) {
      if (jobs_[i].out == Link::kNoJob) return true;  // it has come back meanwhile
      if (!link_.Done(jobs_[i].out)) return false;
      Gone(i);
      return true;
    });
    const uint64_t resident = step_.resident_bytes.empty() ? 0 : step_.resident_bytes[launch];
    peak_ = std::max(peak_, resident + moved_);
  }

  void UseInPlace(size_t launch) {
    if (step_.in_place.empty()) return;
    const InPlaceUse& use = step_.in_place[launch];
    if (use.in + use.out == 0) return;
    const double begin = link_.now();
    link_.InPlace(use.in, use.out);
    stall_.in_place += link_.now() - begin;
    bytes_in_ += use.in, bytes_out_ += use.out;
  }

  double HostMs() const {
    const double device = step_.clock.step_ms + stall_.sum();
    if (step_.clock.step_ms <= 0) return 0;
    const double moves = 2 * double(step_.moves.size()) * kMoveHostMs;
    return std::max(0.0, std::min(moves, double(points_.size()) * kLaunchHostMs + moves - device));
  }

  static StallMs Mean(const std::vector<StallMs>& steps) {
    StallMs mean;
    for (auto step = steps.end() - kMeanOf; step != steps.end(); ++step) {
      mean.fetch += step->fetch / kMeanOf;
      mean.room += step->room / kMeanOf;
      mean.in_place += step->in_place / kMeanOf;
      mean.host += step->host / kMeanOf;
    }
    return mean;
  }

  Prediction Result(const StallMs& stall) const {
    return {.step_ms = step_.clock.step_ms + stall.sum(),
            .stall_ms = stall,
            .bytes_in = bytes_in_,
            .bytes_out = bytes_out_,
            .peak_device_bytes = peak_};
  }

  const PlayedStep& step_;
  Link link_;
  std::vector<Point> points_;
  std::vector<Jobs> jobs_;
  std::vector<uint32_t> leaving_;
  StallMs stall_;
  uint64_t bytes_in_ = 0, bytes_out_ = 0;  // of this step
  uint64_t moved_ = 0, peak_ = 0;
};

}  // namespace

Prediction PlayStep(const PlayedStep& step) { return Play(step).Run(); }

}  // namespace ebt::plan
