#include "src/plan/uneven_touches.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace ebt::plan {
namespace {

using profile::Event;
using profile::kNever;
using profile::Profile;

// Steps that are asked where a persistent block is touched: the last so many.
constexpr uint64_t kJudgedSpans = 16;

constexpr uint32_t kNoLife = ~uint32_t{0};

std::vector<uint32_t> LivesOf(const Profile& profile, const Timeline& timeline,
                              bool persistent_only) {
  std::vector<uint32_t> life_of(profile.blocks.size(), kNoLife);
  for (uint32_t i = 0; i < timeline.lives.size(); ++i) {
    const Lived& life = timeline.lives[i];
    if (life.span == Span::kPersistent || (life.in_step && !persistent_only)) {
      life_of[life.block] = i;
    }
  }
  return life_of;
}

void CollectTouches(const Profile& profile, uint64_t begin, uint64_t end, Timeline& timeline) {
  const std::vector<uint32_t> life_of = LivesOf(profile, timeline, false);
  uint32_t launch = 0;
  for (uint64_t at = begin; at < end; ++at) {
    const Event& event = profile.events[at];
    if (launch >= timeline.step_launches) break;  // a copy behind the last launch
    for (uint32_t block : event.touched) {
      if (block >= life_of.size() || life_of[block] == kNoLife) continue;
      timeline.lives[life_of[block]].touches.push_back({launch, !IsLaunch(event)});
    }
    launch += IsLaunch(event);
  }
}

// What does the touching: a launch's function, or a copy.
uint64_t SymbolOf(const Event& event) { return IsLaunch(event) ? uint64_t{event.function} * 2 : 1; }

// In how many steps a persistent block (by life) is touched by a symbol.
class Votes {
 public:
  Votes(const Profile& profile, const std::vector<uint64_t>& starts, const Timeline& timeline)
      : judged_(std::min<uint64_t>(starts.size() - 1, kJudgedSpans)) {
    const std::vector<uint32_t> life_of = LivesOf(profile, timeline, true);
    for (size_t step = starts.size() - 1 - judged_; step + 1 < starts.size(); ++step) {
      for (uint64_t at = starts[step]; at < starts[step + 1]; ++at) {
        const Event& event = profile.events[at];
        for (uint32_t block : event.touched) {
          if (block >= life_of.size() || life_of[block] == kNoLife) continue;
          Count& count = counts_[{life_of[block], SymbolOf(event)}];
          if (std::exchange(count.last, step) != step) ++count.steps;
        }
      }
    }
  }
  uint64_t judged() const { return judged_; }
  bool MostHave(uint32_t life, uint64_t symbol) const {
    const auto count = counts_.find({life, symbol});
    return count != counts_.end() && count->second.steps * 2 > judged_;
  }

 private:
  struct Count {
    uint64_t steps = 0, last = kNever;
  };
  uint64_t judged_;
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, Count> counts_;
};

}  // namespace

void CollectUnevenTouches(const Profile& profile, const std::vector<uint64_t>& starts, size_t model,
                          Timeline& timeline) {
  CollectTouches(profile, starts[model], starts[model + 1], timeline);
  const Votes votes(profile, starts, timeline);
  if (votes.judged() < 3) return;
  std::vector<uint64_t> symbols;  // of the model's launches
  for (uint64_t at = starts[model]; at < starts[model + 1]; ++at) {
    if (IsLaunch(profile.events[at])) symbols.push_back(SymbolOf(profile.events[at]));
  }
  for (uint32_t i = 0; i < timeline.lives.size(); ++i) {
    Lived& life = timeline.lives[i];
    if (life.span != Span::kPersistent) continue;
    std::erase_if(life.touches, [&](const Touch& touch) {
      return !votes.MostHave(i, touch.copy ? 1 : symbols[touch.launch]);
    });
  }
}

}  // namespace ebt::plan
