#include "src/plan/validator.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "src/base/units.h"
#include "src/plan/stays.h"
#include "src/plan/uneven_check.h"
#include "src/profile/step_spans.h"
#include "src/profile/steps.h"

namespace ebt::plan {
namespace {

using profile::EventKind;
using profile::kNever;

// Steps that say where a slab is touched: the last so many. What not all of them have may be a
// word of a kernel's parameters that happened to read as an address.
constexpr uint64_t kAskedSteps = 16;
// Recorded steps that are tried when several have the planned allocations.
constexpr int kMostTries = 4;

// "edit". Blocks of the warm-up may share the place of one of another site.
absl::Status CheckEdits(const Plan& plan) {
  absl::flat_hash_map<uint64_t, const Site*> edited;
  for (const Site& site : plan.sites) {
    if (site.pin || site.exclude) edited[site.id] = &site;
  }
  for (const auto* slots : {&plan.prologue, &plan.step}) {
    for (size_t i = 0; i < slots->size() && !edited.empty(); ++i) {
      const Slot& slot = (*slots)[i];
      const auto found = edited.find(slot.site);
      if (found == edited.end() || slot.tier == Tier::kNative) continue;
      if (!slot.persistent && slots == &plan.prologue) continue;
      if (found->second->pin == slot.tier) continue;
      const char* const sequence = slots == &plan.step ? "step" : "prologue";
      return Broken("edit", fmt::format("{} does not lie where its site is pinned to, or is "
                                        "excluded",
                                        Name({sequence, i, &slot})));
    }
  }
  return absl::OkStatus();
}

// Bytes of the warm region and the dynamic part, and of what is fetched at one launch.
absl::Status CheckBudget(const Plan& plan, uint64_t native_bytes) {
  std::vector<int64_t> change(plan.step_launches + 1, 0);
  for (const auto* slots : {&plan.prologue, &plan.step}) {
    for (const Slot& slot : *slots) {
      if (slot.tier != Tier::kCold || slot.fetch_launch < 0) continue;
      const auto bytes = int64_t(AlignUp(slot.bytes, kBlockAlignment));
      change[slot.fetch_launch] += bytes;
      change[slot.evict_launch + 1] -= bytes;
    }
  }
  uint64_t device = plan.warm_bytes + plan.dynamic_bytes;
  for (size_t launch = 0; launch < change.size(); ++launch) {
    device += uint64_t(change[launch]);
    if (device > plan.planned_peak_bytes) {
      return Broken("budget", fmt::format("{} bytes on the device at launch {}, but the planned "
                                          "peak is {}",
                                          device, launch, plan.planned_peak_bytes));
    }
    if (plan.budget > 0 && device + native_bytes + plan.overhead_bytes > plan.budget) {
      return Broken("budget",
                    fmt::format("{} bytes, {} of the driver's and {} of overhead are on "
                                "the device at launch {}, but the budget is {}",
                                device, native_bytes, plan.overhead_bytes, launch, plan.budget));
    }
  }
  return absl::OkStatus();
}

// Which launch a step is at is not known where steps differ: places, streams and sums are checked.
absl::Status ValidateUneven(const profile::Profile& profile, const Plan& plan) {
  if (auto status = CheckEdits(plan); !status.ok()) return status;
  if (auto status = CheckBudget(plan, 0); !status.ok()) return status;
  return CheckUnevenPlay(profile, plan);
}

class Validation {
 public:
  Validation(const profile::Profile& profile, const Plan& plan, const profile::Steps& steps)
      : profile_(profile),
        plan_(plan),
        steps_(steps),
        alloc_at_(profile.blocks.size(), kNever),
        free_at_(profile.blocks.size(), kNever),
        touched_(profile.blocks.size(), false) {
    for (const Slab& slab : plan.slabs) {
      slab_slots_.push_back({.bytes = plan.slab_bytes, .offset = slab.stay_offset});
    }
    uint64_t launches = 0, since = 0;
    for (uint64_t at = 0; at < profile.events.size(); ++at) {
      const auto& event = profile.events[at];
      moments_.push_back({launches, since++});
      if (IsLaunch(event)) {
        launch_since_.push_back(since - 1);
        ++launches, since = 0;
      }
      for (uint32_t block : event.touched) {
        if (block < touched_.size()) touched_[block] = true;
      }
      if (event.block >= profile.blocks.size()) continue;
      if (event.kind == EventKind::kAlloc) alloc_at_[event.block] = at;
      if (event.kind == EventKind::kFree) free_at_[event.block] = at;
    }
  }

  absl::Status Run() {
    std::vector<uint32_t> prologue = Allocations(0, steps_.start_events[0]);
    if (auto status = Compare("prologue", plan_.prologue, prologue, 0); !status.ok()) {
      return status;
    }
    if (auto status = CheckEdits(plan_); !status.ok()) return status;
    if (auto status = CheckPersistentTouches(prologue); !status.ok()) return status;
    absl::Status last = absl::OkStatus();
    int tries = 0;
    for (uint64_t step = steps_.steps; step-- > 0 && tries < kMostTries;) {
      const auto blocks = Allocations(steps_.start_events[step], steps_.start_events[step + 1]);
      last = Compare("step", plan_.step, blocks, steps_.first_launch + step * steps_.period);
      if (!last.ok()) continue;
      ++tries;
      last = Play(prologue, blocks, step);
      if (last.ok()) return last;
      failed_ = last;
    }
    return failed_.ok() ? last : failed_;
  }

 private:
  std::vector<uint32_t> Allocations(uint64_t begin, uint64_t end) const {
    using profile::AllocKind;
    std::vector<uint32_t> blocks;
    for (uint64_t at = begin; at < end; ++at) {
      const auto& event = profile_.events[at];
      if (event.kind != EventKind::kAlloc || event.block >= profile_.blocks.size()) continue;
      const AllocKind kind = profile_.blocks[event.block].kind;
      if (kind == AllocKind::kLinear || kind == AllocKind::kAsync || kind == AllocKind::kPool) {
        blocks.push_back(event.block);
      }
    }
    return blocks;
  }

  absl::Status Compare(const char* name, const std::vector<Slot>& slots,
                       const std::vector<uint32_t>& blocks, uint64_t first_launch) const {
    if (slots.size() != blocks.size()) {
      return Broken("sequence", fmt::format("{} has {} slots, but {} allocations were recorded",
                                            name, slots.size(), blocks.size()));
    }
    absl::flat_hash_map<uint64_t, uint32_t> of_site;
    for (size_t i = 0; i < slots.size(); ++i) {
      const Slot& slot = slots[i];
      const auto& block = profile_.blocks[blocks[i]];
      const uint64_t launch = moments_[alloc_at_[blocks[i]]].launches - first_launch;
      const uint32_t ordinal = of_site[block.site]++;
      if (slot.site != block.site || slot.bytes != block.bytes || slot.launch != launch ||
          slot.ordinal != ordinal || slot.stream != block.stream ||
          slot.fingerprint != block.fingerprint) {
        return Broken("sequence",
                      fmt::format("{} is not the recorded allocation (site {:#x}, ordinal {}, {} "
                                  "bytes, stream {}, fingerprint {:#x}, after {} launches)",
                                  Name({name, i, &slot}), block.site, ordinal, block.bytes,
                                  block.stream, block.fingerprint, launch));
      }
    }
    return absl::OkStatus();
  }

  // When what was freed at event `at`, in launches that follow those of recorded step `step`,
  // is freed in the played repetition `repetition` of step `model`.
  Moment Played(uint64_t at, uint64_t step, uint64_t model, uint64_t repetition) const {
    Moment moment = moments_[at];
    const uint64_t into = moment.launches - steps_.first_launch - step * steps_.period;
    const uint64_t place = into % steps_.period;
    const uint64_t longest = launch_since_[steps_.first_launch + model * steps_.period + place];
    return {steps_.first_launch + repetition * steps_.period + into,
            std::min(moment.since, longest)};
  }

  absl::Status Play(const std::vector<uint32_t>& prologue, const std::vector<uint32_t>& step_blocks,
                    uint64_t step) const {
    std::vector<Stay> stays;
    if (auto status = AddPrologue(prologue, step, stays); !status.ok()) return status;
    if (auto status = AddStep(step_blocks, step, stays); !status.ok()) return status;
    const auto planned = std::stable_partition(stays.begin(), stays.end(), IsNative);
    const std::vector<Stay> native(stays.begin(), planned);
    stays.erase(stays.begin(), planned);
    const uint64_t native_bytes = stays.empty() ? 0 : NativeBytes(native, stays.front());
    AddSlabStays(step, stays);
    if (auto status = CheckOverlap(stays); !status.ok()) return status;
    if (auto status = CheckStreamOrder(std::move(stays)); !status.ok()) return status;
    return CheckBudget(plan_, native_bytes);
  }

  absl::Status AddPrologue(const std::vector<uint32_t>& prologue, uint64_t step,
                           std::vector<Stay>& stays) const {
    for (size_t i = 0; i < prologue.size(); ++i) {
      const SlotRef ref{"prologue", i, &plan_.prologue[i]};
      const uint64_t free_at = free_at_[prologue[i]];
      const bool across = free_at >= steps_.start_events[1];  // kNever too
      if (across != ref.slot->persistent) {
        return Broken("persistent", fmt::format("{} {} across steps", Name(ref),
                                                across ? "lives" : "does not live"));
      }
      Moment end = kForever;
      if (free_at < steps_.start_events[0]) {
        end = moments_[free_at];
      } else if (!across) {
        end = Played(free_at, 0, step, 0);
      }
      stays.push_back({ref, moments_[alloc_at_[prologue[i]]], end, &profile_.blocks[prologue[i]]});
    }
    return absl::OkStatus();
  }

  absl::Status AddStep(const std::vector<uint32_t>& blocks, uint64_t step,
                       std::vector<Stay>& stays) const {
    for (size_t i = 0; i < blocks.size(); ++i) {
      const SlotRef ref{"step", i, &plan_.step[i]};
      const uint64_t alloc_at = alloc_at_[blocks[i]], free_at = free_at_[blocks[i]];
      for (uint64_t repetition : {0, 1}) {
        const Moment begin = Played(alloc_at, step, step, repetition);
        const Moment next = Played(alloc_at, step, step, repetition + 1);
        Moment end = free_at == kNever ? kForever : Played(free_at, step, step, repetition);
        if (end > next && ref.slot->tier != Tier::kNative) {
          return Broken("lifetime",
                        fmt::format("{} still lives when the next step makes it anew", Name(ref)));
        }
        end = std::min(end, next);
        stays.push_back({ref, begin, end, &profile_.blocks[blocks[i]]});
      }
    }
    return CheckStepTouches(blocks, step);
  }

  static bool IsNative(const Stay& stay) { return stay.ref.slot->tier == Tier::kNative; }

  // Most bytes at once that are left to the driver on the device of `planned`. What nothing ever
  // touches may be a probe: it was asked for to learn whether it is to be had.
  uint64_t NativeBytes(const std::vector<Stay>& native, const Stay& planned) const {
    std::vector<std::pair<Moment, int64_t>> changes;
    for (const Stay& stay : native) {
      if (stay.block->device != planned.block->device || !touched_[stay.block->id]) continue;
      const auto bytes = int64_t(AlignUp(stay.block->bytes, kBlockAlignment));
      changes.emplace_back(stay.begin, bytes);
      changes.emplace_back(std::max(stay.begin, stay.end), -bytes);
    }
    std::sort(changes.begin(), changes.end());
    int64_t live = 0, most = 0;
    for (const auto& [moment, bytes] : changes) most = std::max(most, live += bytes);
    return uint64_t(most);
  }

  // Before a launch of recorded step `model` in its played repetition.
  Moment Before(uint64_t launch, uint64_t model, uint64_t repetition) const {
    return {steps_.first_launch + repetition * steps_.period + launch,
            launch_since_[steps_.first_launch + model * steps_.period + launch]};
  }

  // The first steady step finds no slab of a step before it on the device.
  void AddSlabStays(uint64_t step, std::vector<Stay>& stays) const {
    for (size_t i = 0; i < plan_.slabs.size(); ++i) {
      const Slab& slab = plan_.slabs[i];
      const bool next_step = slab.gone_launch <= slab.fetch_launch;
      for (uint64_t repetition : {0, 1}) {
        stays.push_back({{kSlabs, i, &slab_slots_[i]},
                         Before(slab.fetch_launch, step, repetition),
                         Before(slab.gone_launch, step, repetition + next_step)});
      }
    }
  }

  // What a block is touched by: a launch of the step, or a copy before it.
  using TouchKey = std::pair<uint32_t, uint64_t>;  // block, launch

  // The touches of blocks in `asked_of` that every one of the last `asked` steps has, in order.
  std::vector<TouchKey> CommonTouches(const std::vector<bool>& asked_of, uint64_t asked) const {
    struct Seen {
      uint64_t steps = 0, last = 0;
    };
    absl::flat_hash_map<TouchKey, Seen> touches;
    for (uint64_t step = steps_.steps - asked; step < steps_.steps; ++step) {
      for (uint64_t at = steps_.start_events[step]; at < steps_.start_events[step + 1]; ++at) {
        const uint64_t launch = moments_[at].launches - steps_.first_launch - step * steps_.period;
        for (uint32_t block : profile_.events[at].touched) {
          if (block >= asked_of.size() || !asked_of[block]) continue;
          Seen& seen = touches[{block, launch}];
          seen.steps += seen.last != step + 1;
          seen.last = step + 1;
        }
      }
    }
    std::vector<TouchKey> common;
    for (const auto& [touch, seen] : touches) {
      if (seen.steps == asked) common.push_back(touch);
    }
    std::sort(common.begin(), common.end());
    return common;
  }

  absl::Status CheckPersistentTouches(const std::vector<uint32_t>& prologue) const {
    const uint64_t slabs_end = plan_.warm_bytes + plan_.slabs.size() * plan_.slab_bytes;
    std::vector<size_t> slot_of(profile_.blocks.size(), 0);
    std::vector<bool> moves(profile_.blocks.size(), false);
    for (size_t i = 0; i < prologue.size(); ++i) {
      const Slot& slot = plan_.prologue[i];
      slot_of[prologue[i]] = i;
      moves[prologue[i]] =
          slot.tier == Tier::kCold && (slot.offset < slabs_end || slot.use == ColdUse::kPrefetch);
    }
    const uint64_t asked = std::min(steps_.steps, kAskedSteps);
    for (const auto& [block, launch] : CommonTouches(moves, asked)) {
      const size_t i = slot_of[block];
      const SlotRef ref{"prologue", i, &plan_.prologue[i]};
      if (ref.slot->offset < slabs_end) {
        if (auto status = CheckSlabTouch(ref, launch); !status.ok()) return status;
      }
      if (auto status = CheckWindow(ref, int64_t(launch)); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // A block that is made anew in each step has no others to agree with.
  absl::Status CheckStepTouches(const std::vector<uint32_t>& blocks, uint64_t step) const {
    absl::flat_hash_map<uint32_t, size_t> fetched;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (plan_.step[i].use == ColdUse::kPrefetch) fetched[blocks[i]] = i;
    }
    if (fetched.empty()) return absl::OkStatus();
    const uint64_t first = steps_.first_launch + step * steps_.period;
    for (uint64_t at = steps_.start_events[step]; at < steps_.start_events[step + 1]; ++at) {
      for (uint32_t block : profile_.events[at].touched) {
        const auto found = fetched.find(block);
        if (found == fetched.end()) continue;
        const SlotRef ref{"step", found->second, &plan_.step[found->second]};
        const auto launch = int64_t(moments_[at].launches - first);
        if (auto status = CheckWindow(ref, launch); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  static absl::Status CheckWindow(const SlotRef& ref, int64_t launch) {
    const Slot& slot = *ref.slot;
    if (slot.tier != Tier::kCold || slot.use != ColdUse::kPrefetch) return absl::OkStatus();
    if (slot.fetch_launch != -1 && slot.fetch_launch <= launch && launch <= slot.evict_launch) {
      return absl::OkStatus();
    }
    return Broken("touch", fmt::format("{} is touched at launch {}, but is on the device from "
                                       "launch {} to {} only",
                                       Name(ref), launch, slot.fetch_launch, slot.evict_launch));
  }

  absl::Status CheckSlabTouch(const SlotRef& ref, uint64_t launch) const {
    const uint64_t begin = ref.slot->offset - plan_.warm_bytes;
    const uint64_t last = (begin + ref.slot->bytes - 1) / plan_.slab_bytes;
    for (uint64_t i = begin / plan_.slab_bytes; i <= last && i < plan_.slabs.size(); ++i) {
      const Slab& slab = plan_.slabs[i];
      const uint64_t behind_fetch = (launch + steps_.period - slab.fetch_launch) % steps_.period;
      const uint64_t until =
          (slab.evict_launch + steps_.period - slab.fetch_launch) % steps_.period;
      if (behind_fetch <= until) continue;
      return Broken("touch",
                    fmt::format("{} is touched at launch {}, but slabs[{}] is on the "
                                "device from launch {} to {} only",
                                Name(ref), launch, i, slab.fetch_launch, slab.evict_launch));
    }
    return absl::OkStatus();
  }

  const profile::Profile& profile_;
  const Plan& plan_;
  const profile::Steps& steps_;
  std::vector<Moment> moments_;               // of each event
  std::vector<uint64_t> launch_since_;        // of each launch: events since the launch before it
  std::vector<uint64_t> alloc_at_, free_at_;  // of each block
  std::vector<bool> touched_;
  std::vector<Slot> slab_slots_;  // a slab's stay as a block
  absl::Status failed_ = absl::OkStatus();
};

}  // namespace

absl::Status ValidatePlan(const profile::Profile& profile, const Plan& plan) {
  if (auto status = CheckPlan(plan); !status.ok()) return status;
  if (plan.uneven) return ValidateUneven(profile, plan);
  std::vector<profile::StepSpan> spans;
  const auto steps = profile::FindSteadySteps(profile, &spans);
  if (!steps) return Broken("sequence", "no step repeats in the profile");
  if (steps->period != plan.step_launches) {
    return Broken("sequence", fmt::format("the recorded step has {} launches, the planned one {}",
                                          steps->period, plan.step_launches));
  }
  return Validation(profile, plan, *steps).Run();
}

}  // namespace ebt::plan
