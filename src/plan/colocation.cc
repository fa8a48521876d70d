#include "src/plan/colocation.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "absl/container/flat_hash_set.h"

namespace ebt::plan {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

bool Persistent(const Lived& life) { return life.span == Span::kPersistent; }

// Touches are in order of launch.
bool ShareALaunch(const std::vector<Touch>& a, const std::vector<Touch>& b, const Window& except) {
  auto i = a.begin(), j = b.begin();
  while (i != a.end() && j != b.end()) {
    if (i->launch == j->launch) {
      if (!except.Contains(i->launch)) return true;
      ++i;
    } else {
      ++(i->launch < j->launch ? i : j);
    }
  }
  return false;
}

class Colocation {
 public:
  Colocation(const profile::Profile& profile, const Timeline& timeline, Behaviour& behaviour)
      : profile_(profile), timeline_(timeline), traits_(behaviour.traits), behaviour_(behaviour) {}

  void Run() {
    FindModules();
    FindTaken();
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < traits_.size(); ++i) {
      if (Persistent(timeline_.lives[i])) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return RankOf(a) < RankOf(b); });
    for (uint32_t place = 0; place < order.size(); ++place) traits_[order[place]].place = place;
  }

 private:
  bool IsState(uint32_t i) const { return traits_[i].block_class == BlockClass::kOptimizerState; }
  bool Touched(uint32_t i) const { return !timeline_.lives[i].touches.empty(); }

  // Whether `b`, made behind `a` with nothing of the kind in between, belongs to the same module.
  bool UsedTogether(uint32_t a, uint32_t b) const {
    const uint32_t low = std::min(traits_[a].first, traits_[b].first);
    const uint32_t high = std::max(traits_[a].first, traits_[b].first);
    return high - low <= 1 || ShareALaunch(timeline_.lives[a].touches, timeline_.lives[b].touches,
                                           behaviour_.optimizer);
  }

  void FindModules() {
    uint32_t before = kNone;
    for (uint32_t i = 0; i < traits_.size(); ++i) {
      if (!Persistent(timeline_.lives[i])) continue;
      traits_[i].module = uint32_t(first_touch_.size());
      if (IsState(i) || !Touched(i)) {
        first_touch_.push_back(traits_[i].first);
        continue;
      }
      if (before != kNone && UsedTogether(before, i)) {
        traits_[i].module = traits_[before].module;
        uint32_t& first = first_touch_[traits_[i].module];
        first = std::min(first, traits_[i].first);
      } else {
        first_touch_.push_back(traits_[i].first);
      }
      before = i;
    }
  }

  // Numbers the first touches of persistent blocks as the step's launches name them.
  void FindTaken() {
    taken_.assign(traits_.size(), kNone);
    std::vector<uint32_t> life_of(profile_.blocks.size(), kNone);
    for (uint32_t i = 0; i < traits_.size(); ++i) {
      if (Persistent(timeline_.lives[i]) && Touched(i)) life_of[timeline_.lives[i].block] = i;
    }
    const auto& starts = timeline_.steps.start_events;
    if (timeline_.representative + 1 >= starts.size()) return;
    uint32_t launch = 0, taken = 0;
    for (uint64_t at = starts[timeline_.representative]; at < starts[timeline_.representative + 1];
         ++at) {
      for (uint32_t block : profile_.events[at].touched) {
        if (block >= life_of.size() || life_of[block] == kNone) continue;
        const uint32_t life = life_of[block];
        if (taken_[life] == kNone && traits_[life].first == launch) taken_[life] = taken++;
      }
      launch += IsLaunch(profile_.events[at]);
    }
  }

  std::tuple<bool, bool, uint32_t, uint32_t> RankOf(uint32_t i) const {
    if (IsState(i)) return {!Touched(i), true, taken_[i], i};
    return {!Touched(i), false, first_touch_[traits_[i].module], traits_[i].module};
  }

  const profile::Profile& profile_;
  const Timeline& timeline_;
  std::vector<Traits>& traits_;
  const Behaviour& behaviour_;
  std::vector<uint32_t> first_touch_;  // of each module
  std::vector<uint32_t> taken_;        // by life
};

}  // namespace

void Colocate(const profile::Profile& profile, const Timeline& timeline, Behaviour& behaviour) {
  Colocation(profile, timeline, behaviour).Run();
}

std::vector<uint32_t> StackingOrder(const Timeline& timeline, const Behaviour& behaviour,
                                    const std::vector<Tier>& tiers, std::vector<uint32_t> members) {
  absl::flat_hash_set<uint32_t> hot_modules;
  for (uint32_t i : members) {
    if (Persistent(timeline.lives[i]) && tiers[i] == Tier::kHot) {
      hot_modules.insert(behaviour.traits[i].module);
    }
  }
  const auto rank = [&](uint32_t i) {
    const Traits& traits = behaviour.traits[i];
    if (Persistent(timeline.lives[i])) {
      return std::tuple(false, !hot_modules.contains(traits.module), false, traits.place);
    }
    return std::tuple(true, tiers[i] != Tier::kHot, timeline.lives[i].touches.empty(),
                      traits.first);
  };
  std::stable_sort(members.begin(), members.end(),
                   [&](uint32_t a, uint32_t b) { return rank(a) < rank(b); });
  return members;
}

}  // namespace ebt::plan
