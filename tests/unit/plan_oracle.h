// Says by plain counting which rules of validator.h a plan breaks: every pair is looked at, every
// launch is summed up anew. Slow, and no line of it is the validator's.
#ifndef EBBTIDE_TESTS_UNIT_PLAN_ORACLE_H_
#define EBBTIDE_TESTS_UNIT_PLAN_ORACLE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/plan/plan.h"
#include "src/profile/step_spans.h"
#include "src/profile/steps.h"
#include "src/profile/types.h"
#include "tests/unit/plan_rules.h"

namespace ebt::plan {

class PlanOracle {
 public:
  using Rules = PlanRules;
  // Bytes [begin, end) of the layout in which something may have changed since the plan was last
  // found to be whole.
  using Range = std::pair<uint64_t, uint64_t>;
  static constexpr Range kEverything = {0, ~uint64_t{0}};

  explicit PlanOracle(const profile::Profile& profile)
      : profile_(profile), steps_(StepsOf(profile)) {
    alloc_.assign(profile.blocks.size(), -1);
    free_.assign(profile.blocks.size(), -1);
    touched_.assign(profile.blocks.size(), false);
    int64_t launches = 0, since = 0;
    for (int64_t at = 0; at < int64_t(profile.events.size()); ++at) {
      const profile::Event& event = profile.events[at];
      launches_.push_back(launches);
      since_.push_back(since++);
      if (event.kind == profile::EventKind::kAlloc) alloc_[event.block] = at;
      if (event.kind == profile::EventKind::kFree) free_[event.block] = at;
      for (uint32_t block : event.touched) touched_[block] = true;
      if (!IsLaunch(event)) continue;
      gap_.push_back(since_[at]);
      ++launches;
      since = 0;
    }
    CollectCommonTouches();
  }

  // The first and the last launch at which each of the last steps touches the block of
  // prologue[i]; nothing without one.
  std::optional<std::pair<int64_t, int64_t>> TouchesOf(size_t i) const {
    const auto common = common_.find(Allocated(0, steps_.start_events[0])[i]);
    if (common == common_.end() || common->second.empty()) return std::nullopt;
    return std::pair(*common->second.begin(), *common->second.rbegin());
  }

  // Empty: the plan is whole.
  Rules Broken(const Plan& plan, const std::vector<Range>& dirty) const {
    Rules rules = RulesBrokenByItself(plan);
    if (!rules.empty()) return rules;
    if (plan.step_launches != steps_.period) return {"sequence"};
    const auto prologue = Allocated(0, steps_.start_events[0]);
    if (!Fits(plan.prologue, prologue, 0)) return {"sequence"};
    Edits(plan, rules);
    Touches(plan, prologue, rules);
    Rules of_all_steps;
    int tried = 0;
    for (size_t step = steps_.steps; step-- > 0 && tried < 4;) {
      const auto made = Allocated(steps_.start_events[step], steps_.start_events[step + 1]);
      if (!Fits(plan.step, made, steps_.first_launch + step * steps_.period)) continue;
      ++tried;
      const Rules played = Play(plan, prologue, made, step, dirty);
      if (played.empty()) return rules;
      of_all_steps.insert(played.begin(), played.end());
    }
    if (tried == 0) of_all_steps.insert("sequence");
    rules.insert(of_all_steps.begin(), of_all_steps.end());
    return rules;
  }

 private:
  static constexpr int64_t kNever = int64_t{1} << 62;

  static profile::Steps StepsOf(const profile::Profile& profile) {
    std::vector<profile::StepSpan> spans;
    return *profile::FindSteadySteps(profile, &spans);
  }

  struct Lying {  // a block or a slab in its place
    const Slot* slot = nullptr;
    const profile::Block* block = nullptr;
    uint64_t low = 0, high = 0;  // bytes, as asked for
    int64_t begin = 0, end = 0;  // in time
  };

  static uint64_t Rounded(uint64_t bytes) {
    return (bytes + kPlaceUnit - 1) / kPlaceUnit * kPlaceUnit;
  }

  std::vector<uint32_t> Allocated(uint64_t begin, uint64_t end) const {
    std::vector<uint32_t> blocks;
    for (uint64_t at = begin; at < end; ++at) {
      if (profile_.events[at].kind != profile::EventKind::kAlloc) continue;
      const uint32_t block = profile_.events[at].block;
      const profile::AllocKind kind = profile_.blocks[block].kind;
      if (kind == profile::AllocKind::kLinear || kind == profile::AllocKind::kAsync ||
          kind == profile::AllocKind::kPool) {
        blocks.push_back(block);
      }
    }
    return blocks;
  }

  bool Fits(const std::vector<Slot>& slots, const std::vector<uint32_t>& blocks,
            uint64_t first_launch) const {
    if (slots.size() != blocks.size()) return false;
    std::map<uint64_t, uint32_t> count;
    for (size_t i = 0; i < slots.size(); ++i) {
      const profile::Block& block = profile_.blocks[blocks[i]];
      if (slots[i].site != block.site || slots[i].fingerprint != block.fingerprint ||
          slots[i].bytes != block.bytes || slots[i].stream != block.stream ||
          slots[i].ordinal != count[block.site]++ ||
          slots[i].launch != uint64_t(launches_[alloc_[blocks[i]]]) - first_launch) {
        return false;
      }
    }
    return true;
  }

  static void Edits(const Plan& plan, Rules& rules) {
    for (const Site& site : plan.sites) {
      auto check = [&](const Slot& slot) {
        if (slot.site != site.id || slot.tier == Tier::kNative) return;
        if (site.exclude || (site.pin && *site.pin != slot.tier)) rules.insert("edit");
      };
      for (const Slot& slot : plan.prologue) {
        if (slot.persistent) check(slot);
      }
      for (const Slot& slot : plan.step) check(slot);
    }
  }

  // Of each block the launches at which each of the last steps, at most 16, touches it.
  void CollectCommonTouches() {
    const size_t asked = std::min<size_t>(steps_.steps, 16);
    for (size_t step = steps_.steps - asked; step < steps_.steps; ++step) {
      std::map<uint32_t, std::set<int64_t>> here;
      for (uint64_t at = steps_.start_events[step]; at < steps_.start_events[step + 1]; ++at) {
        for (uint32_t block : profile_.events[at].touched) here[block].insert(LaunchIn(at, step));
      }
      if (step + asked == steps_.steps) {
        common_ = std::move(here);
        continue;
      }
      for (auto& [block, launches] : common_) {
        std::erase_if(launches, [&](int64_t launch) { return !here[block].contains(launch); });
      }
    }
  }

  int64_t LaunchIn(uint64_t at, size_t step) const {
    return launches_[at] - int64_t(steps_.first_launch + step * steps_.period);
  }

  void Touches(const Plan& plan, const std::vector<uint32_t>& blocks, Rules& rules) const {
    for (size_t i = 0; i < blocks.size(); ++i) {
      const Slot& slot = plan.prologue[i];
      const auto common = common_.find(blocks[i]);
      if (slot.tier != Tier::kCold || common == common_.end()) continue;
      for (int64_t launch : common->second) {
        if (!InWindow(slot, launch)) rules.insert("touch");
        for (size_t slab = 0; slab < plan.slabs.size(); ++slab) {
          const uint64_t low = plan.warm_bytes + slab * plan.slab_bytes;
          const bool lies = slot.offset < low + plan.slab_bytes && low < slot.offset + slot.bytes;
          if (lies && !OnDevice(plan.slabs[slab], launch)) rules.insert("touch");
        }
      }
    }
  }

  static bool InWindow(const Slot& slot, int64_t launch) {
    return slot.tier != Tier::kCold || slot.use == ColdUse::kInPlace ||
           (slot.fetch_launch != -1 && slot.fetch_launch <= launch && launch <= slot.evict_launch);
  }

  static bool OnDevice(const Slab& slab, int64_t launch) {
    const bool behind_fetch = launch >= slab.fetch_launch,
               until_evict = launch <= slab.evict_launch;
    return slab.fetch_launch <= slab.evict_launch ? behind_fetch && until_evict
                                                  : behind_fetch || until_evict;
  }

  // Launches and events since as one number. Between two launches of the played step there are no
  // more events than there.
  int64_t Time(int64_t launches, int64_t since) const {
    return launches * (int64_t{1} << 32) + since;
  }
  int64_t TimeOf(int64_t at) const { return Time(launches_[at], since_[at]); }
  // Of an event of recorded step `from` or a later one, were `from` the played step number
  // `number`.
  int64_t Moved(int64_t at, size_t from, size_t model, int64_t number) const {
    const int64_t period = int64_t(steps_.period);
    const int64_t into = launches_[at] - int64_t(steps_.first_launch) - int64_t(from) * period;
    const int64_t same = int64_t(steps_.first_launch) + int64_t(model) * period + into % period;
    return Time(int64_t(steps_.first_launch) + number * period + into,
                std::min(since_[at], gap_[same]));
  }

  Rules Play(const Plan& plan, const std::vector<uint32_t>& prologue,
             const std::vector<uint32_t>& made, size_t step,
             const std::vector<Range>& dirty) const {
    Rules rules;
    std::vector<Lying> lying = LyingPrologue(plan, prologue, step, rules);
    for (size_t i = 0; i < made.size(); ++i) {
      const Slot& slot = plan.step[i];
      for (int64_t number : {0, 1}) {
        const int64_t next = Moved(alloc_[made[i]], step, step, number + 1);
        int64_t end = free_[made[i]] < 0 ? kNever : Moved(free_[made[i]], step, step, number);
        if (end > next && slot.tier != Tier::kNative) rules.insert("lifetime");
        lying.push_back({&slot, &profile_.blocks[made[i]], slot.offset, slot.offset + slot.bytes,
                         Moved(alloc_[made[i]], step, step, number), std::min(end, next)});
      }
      if (slot.use == ColdUse::kPrefetch && TouchedOutside(slot, made[i], step)) {
        rules.insert("touch");
      }
    }
    Budget(plan, lying, rules);
    std::erase_if(lying, [](const Lying& l) { return l.slot->tier == Tier::kNative; });
    const auto changed = [&](const Lying& l) {
      return std::any_of(dirty.begin(), dirty.end(), [&](const Range& range) {
        return l.low < range.second && range.first < l.low + Rounded(l.high - l.low);
      });
    };
    for (const Lying& one : lying) {
      if (changed(one) && !ComesAfterAll(one, lying)) rules.insert("stream");
    }
    std::erase_if(lying, [&](const Lying& l) { return !changed(l); });
    AddStays(plan, step, lying);
    Overlaps(lying, rules);
    return rules;
  }

  bool TouchedOutside(const Slot& slot, uint32_t block, size_t step) const {
    for (uint64_t at = steps_.start_events[step]; at < steps_.start_events[step + 1]; ++at) {
      const auto& touched = profile_.events[at].touched;
      const bool touches = std::find(touched.begin(), touched.end(), block) != touched.end();
      if (touches && !InWindow(slot, LaunchIn(at, step))) return true;
    }
    return false;
  }

  std::vector<Lying> LyingPrologue(const Plan& plan, const std::vector<uint32_t>& prologue,
                                   size_t step, Rules& rules) const {
    std::vector<Lying> lying;
    const int64_t steady = int64_t(steps_.start_events[0]);
    const int64_t second = int64_t(steps_.start_events[1]);
    for (size_t i = 0; i < prologue.size(); ++i) {
      const Slot& slot = plan.prologue[i];
      const int64_t freed = free_[prologue[i]];
      const bool across = freed < 0 || freed >= second;
      if (across != slot.persistent) rules.insert("persistent");
      const int64_t end = across           ? kNever
                          : freed < steady ? TimeOf(freed)
                                           : Moved(freed, 0, step, 0);
      lying.push_back({&slot, &profile_.blocks[prologue[i]], slot.offset, slot.offset + slot.bytes,
                       TimeOf(alloc_[prologue[i]]), end});
    }
    return lying;
  }

  void AddStays(const Plan& plan, size_t step, std::vector<Lying>& lying) const {
    const int64_t first = int64_t(steps_.first_launch), period = int64_t(steps_.period);
    const auto before = [&](int64_t launch, int64_t number) {
      return Time(first + number * period + launch, gap_[first + int64_t(step) * period + launch]);
    };
    for (const Slab& slab : plan.slabs) {
      for (int64_t number : {0, 1}) {
        const int64_t end = number + (slab.gone_launch <= slab.fetch_launch ? 1 : 0);
        lying.push_back({nullptr, nullptr, slab.stay_offset, slab.stay_offset + plan.slab_bytes,
                         before(slab.fetch_launch, number), before(slab.gone_launch, end)});
      }
    }
  }

  static void Overlaps(const std::vector<Lying>& lying, Rules& rules) {
    for (size_t i = 0; i < lying.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const Lying &a = lying[i], &b = lying[j];
        if (a.begin >= a.end || b.begin >= b.end) continue;
        if (a.begin < b.end && b.begin < a.end && a.low < b.high && b.low < a.high) {
          rules.insert("overlap");
        }
      }
    }
  }

  // Who had each of its bytes last, among those gone by its begin, is whom the block comes after.
  static bool ComesAfterAll(const Lying& one, const std::vector<Lying>& lying) {
    const uint64_t high = one.low + Rounded(one.high - one.low);
    std::vector<const Lying*> before;
    for (const Lying& other : lying) {
      const bool bytes = other.low < high && one.low < other.low + Rounded(other.high - other.low);
      if (bytes && other.end <= one.begin && &other != &one) before.push_back(&other);
    }
    std::stable_sort(before.begin(), before.end(),
                     [](const Lying* a, const Lying* b) { return a->end > b->end; });
    std::vector<Range> left = {{one.low, high}};
    const auto& after = one.slot->after;
    return std::all_of(before.begin(), before.end(), [&](const Lying* other) {
      if (!TakesAway(*other, left)) return true;
      const bool linear = one.block->kind == profile::AllocKind::kLinear;
      const uint16_t stream = other->block->free_stream;
      if (other->block->kind == profile::AllocKind::kLinear && stream == 0) return true;
      if (!linear && stream == one.block->stream) return true;
      return std::find(after.begin(), after.end(), stream) != after.end();
    });
  }

  // Whether some of `left` is the block's; takes that away.
  static bool TakesAway(const Lying& block, std::vector<Range>& left) {
    std::vector<Range> rest;
    bool some = false;
    const uint64_t high = block.low + Rounded(block.high - block.low);
    for (const auto& [low, end] : left) {
      if (high <= low || end <= block.low) {
        rest.emplace_back(low, end);
        continue;
      }
      some = true;
      if (low < block.low) rest.emplace_back(low, block.low);
      if (high < end) rest.emplace_back(high, end);
    }
    left = std::move(rest);
    return some;
  }

  void Budget(const Plan& plan, const std::vector<Lying>& lying, Rules& rules) const {
    uint64_t most = 0;
    for (uint32_t launch = 0; launch < std::max(1u, plan.step_launches); ++launch) {
      uint64_t fetched = 0;
      for (const auto* slots : {&plan.prologue, &plan.step}) {
        for (const Slot& slot : *slots) {
          if (slot.tier != Tier::kCold || slot.fetch_launch == -1) continue;
          const bool there = slot.fetch_launch <= launch && launch <= slot.evict_launch;
          fetched += there ? Rounded(slot.bytes) : 0;
        }
      }
      most = std::max(most, fetched);
    }
    if (plan.warm_bytes + most > plan.planned_peak_bytes) rules.insert("budget");
    if (plan.budget == 0) return;
    const uint64_t all = plan.warm_bytes + most + plan.overhead_bytes + NativeBytes(lying);
    if (all > plan.budget) rules.insert("budget");
  }

  // Most bytes of the driver's blocks on the planned device, of those that something touches.
  uint64_t NativeBytes(const std::vector<Lying>& lying) const {
    std::optional<uint16_t> device;
    for (const Lying& one : lying) {
      if (one.slot->tier != Tier::kNative && !device) device = one.block->device;
    }
    std::vector<const Lying*> native;
    for (const Lying& one : lying) {
      const bool counts = one.slot->tier == Tier::kNative && one.block->device == device &&
                          touched_[one.block->id] && one.begin < one.end;
      if (counts) native.push_back(&one);
    }
    uint64_t most = 0;
    for (const Lying* at : native) {
      uint64_t live = 0;
      for (const Lying* one : native) {
        const bool there = one->begin <= at->begin && at->begin < one->end;
        live += there ? Rounded(one->block->bytes) : 0;
      }
      most = std::max(most, live);
    }
    return most;
  }

  const profile::Profile& profile_;
  const profile::Steps steps_;
  std::vector<int64_t> alloc_, free_;  // event of each block; -1: none
  std::vector<bool> touched_;
  std::vector<int64_t> launches_, since_;  // of each event: launches before it, events since
  std::vector<int64_t> gap_;               // of each launch: events since the one before it
  std::map<uint32_t, std::set<int64_t>> common_;
};

}  // namespace ebt::plan

#endif  // EBBTIDE_TESTS_UNIT_PLAN_ORACLE_H_
