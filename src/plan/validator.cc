#include "src/plan/validator.h"

#include <algorithm>
#include <map>
#include <queue>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/units.h"
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
constexpr uint64_t kEndOfTime = ~uint64_t{0};

absl::Status Broken(const char* rule, std::string what) {
  return absl::InvalidArgumentError(fmt::format("plan breaks the rule \"{}\": {}", rule, what));
}

// Stays of slabs are played as blocks of this sequence.
constexpr std::string_view kSlabs = "slabs";

struct SlotRef {
  std::string_view sequence = "";
  size_t index = 0;
  const Slot* slot = nullptr;
};

std::string Name(const SlotRef& ref) {
  if (ref.sequence == kSlabs) {
    return fmt::format("slabs[{}] ({} bytes at {})", ref.index, ref.slot->bytes, ref.slot->offset);
  }
  return fmt::format("{}[{}] (site {:#x}, ordinal {}, {} bytes at {})", ref.sequence, ref.index,
                     ref.slot->site, ref.slot->ordinal, ref.slot->bytes, ref.slot->offset);
}

// A moment: so many launches have gone by, and so many events since.
struct Moment {
  uint64_t launches = 0;
  uint64_t since = 0;
  auto operator<=>(const Moment&) const = default;  // NOLINT(modernize-use-nullptr): its own 0
};
constexpr Moment kForever = {kEndOfTime, 0};

// A block in its place, [begin, end).
struct Stay {
  SlotRef ref;
  Moment begin, end;
};

class Validation {
 public:
  Validation(const profile::Profile& profile, const Plan& plan, const profile::Steps& steps)
      : profile_(profile),
        plan_(plan),
        steps_(steps),
        alloc_at_(profile.blocks.size(), kNever),
        free_at_(profile.blocks.size(), kNever) {
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
    if (auto status = CheckSlabTouches(prologue); !status.ok()) return status;
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
    for (size_t i = 0; i < slots.size(); ++i) {
      const auto& block = profile_.blocks[blocks[i]];
      const uint64_t launch = moments_[alloc_at_[blocks[i]]].launches - first_launch;
      if (slots[i].site != block.site || slots[i].bytes != block.bytes ||
          slots[i].launch != launch) {
        return Broken("sequence",
                      fmt::format("{} is not the recorded allocation (site {:#x}, {} bytes, after "
                                  "{} launches)",
                                  Name({name, i, &slots[i]}), block.site, block.bytes, launch));
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
    for (size_t i = 0; i < prologue.size(); ++i) {
      const SlotRef ref{"prologue", i, &plan_.prologue[i]};
      const uint64_t free_at = free_at_[prologue[i]];
      const bool across = free_at >= steps_.start_events[1];  // kNever too
      if (across != ref.slot->persistent) {
        return Broken("persistent", fmt::format("{} {} across steps", Name(ref),
                                                across ? "lives" : "does not live"));
      }
      if (ref.slot->tier == Tier::kNative) continue;
      Moment end = kForever;
      if (free_at < steps_.start_events[0]) {
        end = moments_[free_at];
      } else if (!across) {
        end = Played(free_at, 0, step, 0);
      }
      stays.push_back({ref, moments_[alloc_at_[prologue[i]]], end});
      if (auto status = CheckTouches(ref, prologue[i], step); !status.ok()) return status;
    }
    for (size_t i = 0; i < step_blocks.size(); ++i) {
      const SlotRef ref{"step", i, &plan_.step[i]};
      if (ref.slot->tier == Tier::kNative) continue;
      const uint64_t alloc_at = alloc_at_[step_blocks[i]], free_at = free_at_[step_blocks[i]];
      for (uint64_t repetition : {0, 1}) {
        const Moment begin = Played(alloc_at, step, step, repetition);
        const Moment end = free_at == kNever ? kForever : Played(free_at, step, step, repetition);
        if (free_at == kNever || end > Played(alloc_at, step, step, repetition + 1)) {
          return Broken("lifetime",
                        fmt::format("{} still lives when the next step makes it anew", Name(ref)));
        }
        stays.push_back({ref, begin, end});
      }
      if (auto status = CheckTouches(ref, step_blocks[i], step); !status.ok()) return status;
    }
    AddSlabStays(step, stays);
    if (auto status = CheckOverlap(std::move(stays)); !status.ok()) return status;
    return CheckBudget();
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

  // How many of the last steps touch each block in a slab at each launch.
  using Touched = std::map<std::pair<uint32_t, uint64_t>, uint64_t>;  // block, launch -> steps
  Touched StepsThatTouch(const std::vector<bool>& in_slab, uint64_t asked) const {
    Touched touched, seen_last;
    for (uint64_t step = steps_.steps - asked; step < steps_.steps; ++step) {
      for (uint64_t at = steps_.start_events[step]; at < steps_.start_events[step + 1]; ++at) {
        const uint64_t launch = moments_[at].launches - steps_.first_launch - step * steps_.period;
        for (uint32_t block : profile_.events[at].touched) {
          if (block >= in_slab.size() || !in_slab[block]) continue;
          uint64_t& seen = seen_last[{block, launch}];
          touched[{block, launch}] += seen != step + 1;
          seen = step + 1;
        }
      }
    }
    return touched;
  }

  absl::Status CheckSlabTouches(const std::vector<uint32_t>& prologue) const {
    const uint64_t end = plan_.warm_bytes + plan_.slabs.size() * plan_.slab_bytes;
    std::vector<size_t> slot_of(profile_.blocks.size(), 0);
    std::vector<bool> in_slab(profile_.blocks.size(), false);
    for (size_t i = 0; i < prologue.size(); ++i) {
      const Slot& slot = plan_.prologue[i];
      if (slot.tier != Tier::kCold || slot.offset >= end) continue;
      slot_of[prologue[i]] = i;
      in_slab[prologue[i]] = true;
    }
    const uint64_t asked = std::min(steps_.steps, kAskedSteps);
    for (const auto& [touch, steps] : StepsThatTouch(in_slab, asked)) {
      if (steps < asked) continue;
      const size_t slot = slot_of[touch.first];
      if (auto status = CheckSlabTouch({"prologue", slot, &plan_.prologue[slot]}, touch.second);
          !status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
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

  // Plays the stays in time; those at the same moment end before others begin.
  static absl::Status CheckOverlap(std::vector<Stay> stays) {
    std::stable_sort(stays.begin(), stays.end(),
                     [](const Stay& a, const Stay& b) { return a.begin < b.begin; });
    using End = std::pair<Moment, size_t>;
    std::priority_queue<End, std::vector<End>, std::greater<>> ends;
    std::map<uint64_t, size_t> present;  // by offset
    for (size_t i = 0; i < stays.size(); ++i) {
      const Stay& stay = stays[i];
      while (!ends.empty() && ends.top().first <= stay.begin) {
        present.erase(stays[ends.top().second].ref.slot->offset);
        ends.pop();
      }
      if (stay.end <= stay.begin) continue;
      const Slot& slot = *stay.ref.slot;
      auto next = present.lower_bound(slot.offset);
      const Stay* other = nullptr;
      if (next != present.end() && next->first < slot.offset + slot.bytes) {
        other = &stays[next->second];
      }
      if (other == nullptr && next != present.begin()) {
        const Stay& below = stays[std::prev(next)->second];
        if (below.ref.slot->offset + below.ref.slot->bytes > slot.offset) other = &below;
      }
      if (other != nullptr) {
        return Broken("overlap",
                      fmt::format("{} and {} share bytes after {} launches", Name(other->ref),
                                  Name(stay.ref), stay.begin.launches));
      }
      present.emplace(slot.offset, i);
      ends.emplace(stay.end, i);
    }
    return absl::OkStatus();
  }

  absl::Status CheckTouches(const SlotRef& ref, uint32_t block, uint64_t step) const {
    const Slot& slot = *ref.slot;
    if (slot.tier != Tier::kCold || slot.use != ColdUse::kPrefetch) return absl::OkStatus();
    const uint64_t first = steps_.first_launch + step * steps_.period;
    for (uint64_t at = steps_.start_events[step]; at < steps_.start_events[step + 1]; ++at) {
      const auto& touched = profile_.events[at].touched;
      if (std::find(touched.begin(), touched.end(), block) == touched.end()) continue;
      const auto launch = int64_t(moments_[at].launches - first);
      if (slot.fetch_launch == -1 || slot.fetch_launch > launch || slot.evict_launch < launch) {
        return Broken("touch",
                      fmt::format("{} is touched at launch {}, but is on the device from "
                                  "launch {} to {} only",
                                  Name(ref), launch, slot.fetch_launch, slot.evict_launch));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckBudget() const {
    std::vector<int64_t> change(plan_.step_launches + 1, 0);
    for (const auto* slots : {&plan_.prologue, &plan_.step}) {
      for (const Slot& slot : *slots) {
        if (slot.tier != Tier::kCold || slot.fetch_launch < 0) continue;
        const auto bytes = int64_t(AlignUp(slot.bytes, kBlockAlignment));
        change[slot.fetch_launch] += bytes;
        change[slot.evict_launch + 1] -= bytes;
      }
    }
    uint64_t device = plan_.warm_bytes;
    for (size_t launch = 0; launch < change.size(); ++launch) {
      device += uint64_t(change[launch]);
      if (device > plan_.planned_peak_bytes) {
        return Broken("budget", fmt::format("{} bytes on the device at launch {}, but the planned "
                                            "peak is {}",
                                            device, launch, plan_.planned_peak_bytes));
      }
      if (plan_.budget > 0 && device + plan_.overhead_bytes > plan_.budget) {
        return Broken("budget", fmt::format("{} bytes and {} of overhead on the device at launch "
                                            "{}, but the budget is {}",
                                            device, plan_.overhead_bytes, launch, plan_.budget));
      }
    }
    return absl::OkStatus();
  }

  const profile::Profile& profile_;
  const Plan& plan_;
  const profile::Steps& steps_;
  std::vector<Moment> moments_;         // of each event
  std::vector<uint64_t> launch_since_;  // of each launch: events since the launch before it
  std::vector<uint64_t> alloc_at_, free_at_;
  std::vector<Slot> slab_slots_;  // a slab's stay as a block
  absl::Status failed_ = absl::OkStatus();
};

}  // namespace

absl::Status ValidatePlan(const profile::Profile& profile, const Plan& plan) {
  if (auto status = CheckPlan(plan); !status.ok()) return status;
  if (plan.uneven) return ValidateUnevenPlan(profile, plan);
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
