#include "src/plan/budget.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "src/base/units.h"
#include "src/plan/predictor.h"

namespace ebt::plan {
namespace {

// A block of the step's own is a candidate when it lives for at least that part of the step.
constexpr double kLongLife = 1.0 / 16;
// The step is looked at in so many parts.
constexpr size_t kMostBuckets = 1024;
// Below the room time weighs so much, to decide among gaps that lie there.
constexpr double kBelowRoom = 1e-3;

// Parts of the step, by launch: [begin, end).
using Part = std::pair<size_t, size_t>;

class Ordering {
 public:
  explicit Ordering(const CandidateRules& rules)
      : rules_(rules),
        launches_(rules.timeline.launch_times.size()),
        buckets_(std::clamp<size_t>(launches_, 1, kMostBuckets)),
        time_(TimeWeights(rules.clock)),
        above_(buckets_, -int64_t(rules.room)),
        ms_(buckets_, 0) {
    for (size_t i = 0; i < launches_; ++i) {
      int64_t& above = above_[BucketOf(i)];
      above = std::max(above, int64_t(rules.live[i]) - int64_t(rules.room));
      ms_[BucketOf(i)] += time_[i + 1] - time_[i];
    }
  }

  std::vector<Candidate> Run() {
    FindPersistent();
    FindStepLocal();
    SortByWorth(free_);
    for (Ranked& ranked : swapped_) ranked.worth = double(ranked.state) + TimeAbove(ranked.parts);
    SortByWorth(swapped_);
    Append(free_);
    for (const Ranked& ranked : swapped_) TakeAway(ranked);
    Append(swapped_);
    OrderInPlace(in_place_);
    OrderInPlace(kept_);
    return std::move(out_);
  }

 private:
  struct Ranked {
    Candidate candidate;
    uint64_t bytes = 0;  // of the steady step's block
    double cost_ms = 0;  // in place
    bool state = false;
    std::vector<Part> parts;  // buckets in all of which it is away
    double worth = 0;
  };
  static void SortByWorth(std::vector<Ranked>& list) {
    std::stable_sort(list.begin(), list.end(),
                     [](const Ranked& a, const Ranked& b) { return a.worth > b.worth; });
  }

  size_t BucketOf(size_t launch) const { return launch * buckets_ / launches_; }
  const profile::Block& BlockOf(uint32_t life) const {
    return rules_.profile.blocks[rules_.timeline.lives[life].block];
  }
  bool Kept(const Candidate& candidate) const {
    return std::any_of(candidate.lives.begin(), candidate.lives.end(),
                       [&](uint32_t life) { return BlockOf(life).kept; });
  }

  // Buckets that lie in launches [begin, end).
  void AddPart(size_t begin, size_t end, std::vector<Part>& parts) const {
    if (begin >= end || launches_ == 0) return;
    const Part part{(begin * buckets_ + launches_ - 1) / launches_, end * buckets_ / launches_};
    if (part.first < part.second) parts.push_back(part);
  }

  std::vector<Part> LifeParts(const Lived& life) const {
    const auto& times = rules_.timeline.launch_times;
    std::vector<Part> parts;
    for (const Interval& live : life.live) {
      if (live.empty()) continue;
      const auto begin = std::lower_bound(times.begin(), times.end(), live.begin);
      const auto end = std::lower_bound(times.begin(), times.end(), live.end);
      AddPart(size_t(begin - times.begin()), size_t(end - times.begin()), parts);
    }
    return parts;
  }

  std::vector<Part> GapParts(const SlabUse& use) const {
    std::vector<Part> parts;
    if (use.last < launches_) {
      AddPart(0, use.first, parts);
      AddPart(use.last + 1, launches_, parts);
    } else {
      AddPart(use.last + 1 - launches_, use.first, parts);
    }
    return parts;
  }

  double CostMs(uint32_t life) const {
    return InPlaceMs(rules_.device, BlockOf(life).bytes,
                     rules_.timeline.lives[life].touches.size());
  }

  void FindPersistent() {
    const Weights weights = WeightsAbove(rules_.clock, rules_.live, rules_.room);
    for (uint32_t i = 0; i < rules_.timeline.lives.size(); ++i) {
      const Lived& life = rules_.timeline.lives[i];
      if (life.span != Span::kPersistent || !rules_.movable[i]) continue;
      Ranked ranked{.candidate = {.lives = {i}},
                    .bytes = BlockOf(i).bytes,
                    .cost_ms = CostMs(i),
                    .state = rules_.state[i]};
      if (BlockOf(i).kept) {
        ranked.parts = LifeParts(life);
        kept_.push_back(std::move(ranked));
      } else if (life.touches.empty()) {
        ranked.worth = double(ranked.bytes);
        free_.push_back(std::move(ranked));
      } else if (rules_.slabs && Swappable(BlockOf(i), life, time_)) {
        ranked.candidate.swapped = true;
        ranked.parts = GapParts(UseAroundGap(NeededAt(life), weights));
        swapped_.push_back(std::move(ranked));
      } else {
        ranked.parts = LifeParts(life);
        in_place_.push_back(std::move(ranked));
      }
    }
  }

  // Blocks of the step and those that the warm-up made before them, of equal site and bytes: the
  // last of these belong to the last warm-up step, so they are counted from the end.
  void FindStepLocal() {
    using Key = std::pair<uint64_t, uint64_t>;  // site, bytes
    struct Group {
      std::vector<uint32_t> step, before;
    };
    std::map<Key, Group> groups;
    for (uint32_t i = 0; i < rules_.timeline.lives.size(); ++i) {
      const Lived& life = rules_.timeline.lives[i];
      if (life.span == Span::kPersistent || !rules_.movable[i]) continue;
      const uint32_t same = life.twin == kNoTwin ? i : life.twin;
      Group& group = groups[{BlockOf(same).site, BlockOf(i).bytes}];
      (life.in_step ? group.step : group.before).push_back(i);
    }
    for (auto& [key, group] : groups) {
      const size_t count = group.step.size();
      if (count == 0) continue;
      std::vector<Ranked> ranked(count);
      for (size_t i = 0; i < count; ++i) ranked[i].candidate.lives = {group.step[i]};
      for (size_t i = 0; i < group.before.size(); ++i) {
        const uint32_t life = group.before[group.before.size() - 1 - i];
        ranked[count - 1 - i % count].candidate.lives.push_back(life);
      }
      AddTwins(group.step, ranked);
      for (size_t i = 0; i < count; ++i) AddStepLocal(group.step[i], std::move(ranked[i]));
    }
  }

  // A block and its twin have one place, whatever the order says.
  void AddTwins(const std::vector<uint32_t>& step, std::vector<Ranked>& ranked) const {
    for (size_t i = 0; i < ranked.size(); ++i) {
      auto& lives = ranked[i].candidate.lives;
      for (size_t k = lives.size(); k-- > 1;) {
        const uint32_t twin = rules_.timeline.lives[lives[k]].twin;
        if (twin == kNoTwin || twin == step[i]) continue;
        const auto owner = std::lower_bound(step.begin(), step.end(), twin);
        if (owner == step.end() || *owner != twin) continue;
        ranked[size_t(owner - step.begin())].candidate.lives.push_back(lives[k]);
        lives.erase(lives.begin() + long(k));
      }
    }
  }

  void AddStepLocal(uint32_t life, Ranked ranked) {
    const Lived& lived = rules_.timeline.lives[life];
    const double step = double(rules_.timeline.end - rules_.timeline.prologue_end);
    double lives = 0;
    for (const Interval& part : lived.live)
      lives += part.empty() ? 0 : double(part.end - part.begin);
    if (lives < kLongLife * step) return;
    ranked.bytes = BlockOf(life).bytes;
    ranked.cost_ms = CostMs(life);
    ranked.parts = LifeParts(lived);
    (Kept(ranked.candidate) ? kept_ : in_place_).push_back(std::move(ranked));
  }

  double TimeAbove(const std::vector<Part>& parts) const {
    double ms = 0, all = 1e-9;
    for (size_t i = 0; i < buckets_; ++i) all += above_[i] > 0 ? ms_[i] : 0;
    for (const auto& [begin, end] : parts) {
      for (size_t i = begin; i < end; ++i) ms += above_[i] > 0 ? ms_[i] : 0;
    }
    return ms / all;
  }

  void TakeAway(const Ranked& ranked) {
    for (const auto& [begin, end] : ranked.parts) {
      for (size_t i = begin; i < end; ++i) above_[i] -= int64_t(ranked.bytes);
    }
  }

  // Bytes above the room that it takes away, over their time, for its cost.
  double Worth(const Ranked& ranked) const {
    double taken = 0;
    for (const auto& [begin, end] : ranked.parts) {
      for (size_t i = begin; i < end; ++i) {
        if (above_[i] <= 0) continue;
        taken += double(std::min(above_[i], int64_t(ranked.bytes))) * ms_[i];
      }
    }
    return taken / (ranked.cost_ms + 1e-6);
  }

  void Append(std::vector<Ranked>& list) {
    for (Ranked& ranked : list) out_.push_back(std::move(ranked.candidate));
    list.clear();
  }

  // What one takes makes others worth less, never more: a stale worth is looked at again.
  void OrderInPlace(std::vector<Ranked>& list) {
    using Entry = std::tuple<double, int64_t>;  // worth, minus the index: equal ones in order
    std::priority_queue<Entry> entries;
    for (size_t i = 0; i < list.size(); ++i) entries.push({Worth(list[i]), -int64_t(i)});
    std::vector<size_t> useless;
    while (!entries.empty()) {
      const auto [stale, index] = entries.top();
      entries.pop();
      Ranked& ranked = list[size_t(-index)];
      const double worth = Worth(ranked);
      if (worth <= 0) {
        useless.push_back(size_t(-index));
        continue;
      }
      if (!entries.empty() && std::tuple(worth, index) < entries.top()) {
        entries.push({worth, index});
        continue;
      }
      TakeAway(ranked);
      out_.push_back(std::move(ranked.candidate));
    }
    std::stable_sort(useless.begin(), useless.end(), [&](size_t a, size_t b) {
      return double(list[a].bytes) / (list[a].cost_ms + 1e-6) >
             double(list[b].bytes) / (list[b].cost_ms + 1e-6);
    });
    for (size_t i : useless) out_.push_back(std::move(list[i].candidate));
    list.clear();
  }

  const CandidateRules& rules_;
  size_t launches_, buckets_;
  Weights time_;
  std::vector<int64_t> above_;  // of each bucket: bytes above the room
  std::vector<double> ms_;      // of each bucket
  std::vector<Ranked> free_, swapped_, in_place_, kept_;
  std::vector<Candidate> out_;
};

}  // namespace

Weights WeightsAbove(const StepClock& clock, const std::vector<uint64_t>& live, uint64_t room) {
  const Weights time = TimeWeights(clock);
  Weights sums = {0};
  for (size_t i = 0; i + 1 < time.size(); ++i) {
    const double ms = time[i + 1] - time[i];
    sums.push_back(sums.back() + ms * (live[i] > room ? 1 : kBelowRoom));
  }
  return sums;
}

std::vector<Candidate> OrderCandidates(const CandidateRules& rules) {
  return Ordering(rules).Run();
}

}  // namespace ebt::plan
