#include "src/report/idle.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace ebt::report {
namespace {

using profile::Event;
using profile::EventKind;

constexpr uint64_t kJudgedSteps = 16;
constexpr uint64_t kLeastJudgedSteps = 3;

bool IsLaunch(const Event& event) {
  return event.kind == EventKind::kLaunch || event.kind == EventKind::kGraph;
}

class IdleSearch {
 public:
  IdleSearch(const profile::Profile& profile, const profile::Steps& steps, uint64_t at,
             const std::vector<uint32_t>& blocks)
      : profile_(profile), steps_(steps), blocks_(blocks), index_of_(profile.blocks.size(), kNone) {
    for (uint32_t i = 0; i < blocks.size(); ++i) index_of_[blocks[i]] = i;
    CountLaunches(at);
  }

  std::vector<bool> Find() {
    Vote();
    BeginStretches();
    for (uint64_t at = begin_event_; at < end_event_; ++at) {
      for (uint32_t block : profile_.events[at].touched) {
        const uint32_t i = index_of_[block];
        if (i != kNone && Counts(i, at)) Touch(i, at);
      }
    }
    std::vector<bool> idle;
    for (uint32_t i = 0; i < blocks_.size(); ++i) {
      const profile::Block& block = profile_.blocks[blocks_[i]];
      EndStretch(i, launches_before_[std::min(block.free_at, end_event_)]);
      idle.push_back(!block.kept && longest_[i] * 2 > steps_.period);
    }
    return idle;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  using Place = std::pair<uint32_t, uint64_t>;  // index of blocks_, place in the step

  void CountLaunches(uint64_t at) {
    const auto& events = profile_.events;
    launches_before_.reserve(events.size() + 1);
    std::vector<uint64_t> launch_at;
    for (uint64_t i = 0; i < events.size(); ++i) {
      launches_before_.push_back(launch_at.size());
      if (IsLaunch(events[i])) launch_at.push_back(i);
    }
    launches_before_.push_back(launch_at.size());
    const uint64_t middle = launches_before_[at];
    begin_event_ = middle > steps_.period ? launch_at[middle - steps_.period] : 0;
    const uint64_t end = middle + steps_.period;
    end_event_ = end < launch_at.size() ? launch_at[end] : events.size();
  }

  bool LivesThrough(const profile::Block& block, uint64_t begin, uint64_t end) const {
    return block.alloc_at < begin && block.free_at >= end;
  }

  Place PlaceOf(uint32_t i, uint64_t at) const {
    const uint64_t launch = (launches_before_[at] - steps_.first_launch) % steps_.period;
    return {i, launch * 2 + !IsLaunch(profile_.events[at])};
  }

  void Vote() {
    judged_ = std::min(steps_.steps, kJudgedSteps);
    if (judged_ < kLeastJudgedSteps) return;
    judged_begin_ = steps_.start_events[steps_.steps - judged_];
    judged_end_ = steps_.start_events[steps_.steps];
    for (uint64_t at = judged_begin_; at < judged_end_; ++at) {
      for (uint32_t block : profile_.events[at].touched) {
        if (index_of_[block] == kNone) continue;
        if (LivesThrough(profile_.blocks[block], judged_begin_, judged_end_))
          ++votes_[PlaceOf(index_of_[block], at)];
      }
    }
  }

  // Whether this touch is no word that names the block by chance.
  bool Counts(uint32_t i, uint64_t at) const {
    if (judged_ < kLeastJudgedSteps) return true;
    const bool steady = at >= steps_.start_events.front() && at < steps_.start_events.back();
    if (!steady || !LivesThrough(profile_.blocks[blocks_[i]], judged_begin_, judged_end_))
      return true;
    const auto votes = votes_.find(PlaceOf(i, at));
    return votes != votes_.end() && votes->second * 2 > judged_;
  }

  void BeginStretches() {
    longest_.assign(blocks_.size(), 0);
    for (uint32_t block : blocks_) {
      const uint64_t from = std::max(profile_.blocks[block].alloc_at, begin_event_);
      since_.push_back(launches_before_[from]);
    }
  }

  void EndStretch(uint32_t i, uint64_t launch) {
    if (launch > since_[i]) longest_[i] = std::max(longest_[i], launch - since_[i]);
  }

  void Touch(uint32_t i, uint64_t at) {
    const uint64_t launch = launches_before_[at];
    EndStretch(i, launch);
    since_[i] = launch + IsLaunch(profile_.events[at]);
  }

  const profile::Profile& profile_;
  const profile::Steps& steps_;
  const std::vector<uint32_t>& blocks_;
  std::vector<uint32_t> index_of_;         // of each block of the profile
  std::vector<uint64_t> launches_before_;  // of each event, and of the end
  uint64_t begin_event_ = 0, end_event_ = 0;
  uint64_t judged_ = 0, judged_begin_ = 0, judged_end_ = 0;
  absl::flat_hash_map<Place, uint64_t> votes_;
  std::vector<uint64_t> since_, longest_;  // in launches
};

}  // namespace

std::vector<bool> FindIdle(const profile::Profile& profile, const profile::Steps& steps,
                           uint64_t at, const std::vector<uint32_t>& blocks) {
  return IdleSearch(profile, steps, at, blocks).Find();
}

}  // namespace ebt::report
