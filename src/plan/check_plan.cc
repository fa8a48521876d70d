#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "src/base/units.h"
#include "src/plan/validator.h"

namespace ebt::plan {
namespace {

constexpr uint64_t kRegionUnit = 2 * kMiB;
// No machine has a region of this many bytes; sums of a few such numbers cannot overflow.
constexpr uint64_t kSaneBytes = uint64_t{1} << 44;
constexpr size_t kSaneSlots = size_t{1} << 24;
constexpr uint64_t kSmallestSlabBytes = 2 * kMiB, kLargestSlabBytes = 32 * kMiB;

absl::Status Broken(const char* rule, std::string what) {
  return absl::InvalidArgumentError(fmt::format("plan breaks the rule \"{}\": {}", rule, what));
}

absl::Status CheckRegions(const Plan& plan) {
  const std::pair<const char*, uint64_t> regions[] = {{"warm_bytes", plan.warm_bytes},
                                                      {"cold_bytes", plan.cold_bytes}};
  for (const auto& [name, bytes] : regions) {
    if (bytes % kRegionUnit != 0) {
      return Broken("region", fmt::format("{} = {} is not a multiple of 2 MiB", name, bytes));
    }
    if (bytes > kSaneBytes) {
      return Broken("region", fmt::format("{} = {} is more than any device has", name, bytes));
    }
  }
  const std::pair<const char*, uint64_t> figures[] = {
      {"budget", plan.budget},
      {"overhead_bytes", plan.overhead_bytes},
      {"max_live_bytes", plan.max_live_bytes},
      {"dynamic_bytes", plan.dynamic_bytes},
      {"planned_peak_bytes", plan.planned_peak_bytes}};
  for (const auto& [name, bytes] : figures) {
    if (bytes > kSaneBytes) {
      return Broken("region", fmt::format("{} = {} is more than any device has", name, bytes));
    }
  }
  for (double ms : {plan.native_step_ms, plan.predicted_step_ms}) {
    if (!std::isfinite(ms) || ms < 0) return Broken("region", "a step time is not a duration");
  }
  return absl::OkStatus();
}

absl::Status CheckSlab(const Plan& plan, size_t i) {
  const Slab& slab = plan.slabs[i];
  if (slab.stay_offset % plan.slab_bytes != 0) {
    return Broken("slabs", fmt::format("slabs[{}].stay_offset = {} is not a multiple of {}", i,
                                       slab.stay_offset, plan.slab_bytes));
  }
  if (slab.stay_offset >= plan.warm_bytes) {
    return Broken("slabs", fmt::format("slabs[{}].stay_offset = {} is not within the warm region "
                                       "[0, {})",
                                       i, slab.stay_offset, plan.warm_bytes));
  }
  const std::pair<const char*, uint32_t> launches[] = {{"fetch_launch", slab.fetch_launch},
                                                       {"evict_launch", slab.evict_launch},
                                                       {"gone_launch", slab.gone_launch}};
  for (const auto& [name, launch] : launches) {
    if (launch >= plan.step_launches) {
      return Broken("launch", fmt::format("slabs[{}].{} = {} in a step of {}", i, name, launch,
                                          plan.step_launches));
    }
  }
  // Launches behind the fetch; a place that is gone no sooner than the next fetch is never gone.
  const uint64_t step = plan.step_launches;
  const uint64_t evict = (slab.evict_launch + step - slab.fetch_launch) % step;
  const uint64_t gone = (slab.gone_launch + step - slab.fetch_launch) % step;
  if (gone <= evict) {
    return Broken("slabs", fmt::format("slabs[{}].gone_launch = {} does not come between "
                                       "evict_launch {} and the next fetch_launch {}",
                                       i, slab.gone_launch, slab.evict_launch, slab.fetch_launch));
  }
  return absl::OkStatus();
}

absl::Status CheckSlabs(const Plan& plan) {
  if (plan.slab_bytes == 0 && plan.slabs.empty()) return absl::OkStatus();
  if (!std::has_single_bit(plan.slab_bytes) || plan.slab_bytes < kSmallestSlabBytes ||
      plan.slab_bytes > kLargestSlabBytes) {
    return Broken("slabs", fmt::format("slab_bytes = {} is not a power of two from 2 to 32 MiB",
                                       plan.slab_bytes));
  }
  if (plan.slabs.empty()) {
    return Broken("slabs", fmt::format("slab_bytes = {}, but there are no slabs", plan.slab_bytes));
  }
  if (plan.warm_bytes % plan.slab_bytes != 0) {
    return Broken("slabs", fmt::format("warm_bytes = {} is not a multiple of slab_bytes = {}",
                                       plan.warm_bytes, plan.slab_bytes));
  }
  if (plan.slabs.size() > plan.cold_bytes / plan.slab_bytes) {
    return Broken("slabs", fmt::format("{} slabs of {} bytes are more than cold_bytes = {}",
                                       plan.slabs.size(), plan.slab_bytes, plan.cold_bytes));
  }
  for (size_t i = 0; i < plan.slabs.size(); ++i) {
    if (auto status = CheckSlab(plan, i); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckCleared(const Plan& plan) {
  for (size_t i = 0; i < plan.cleared.size(); ++i) {
    if (plan.cleared[i].driver_version < 0) {
      return Broken("cleared", fmt::format("cleared[{}].driver_version = {} is no version", i,
                                           plan.cleared[i].driver_version));
    }
  }
  return absl::OkStatus();
}

bool IsShare(double share) { return share >= 0 && share <= 1; }

absl::Status CheckHotness(const Plan& plan) {
  if (!plan.hotness) return absl::OkStatus();
  const HotnessRule& rule = *plan.hotness;
  for (double number :
       {rule.weights.forward, rule.weights.backward, rule.weights.coupling, rule.threshold}) {
    if (!std::isfinite(number)) return Broken("hotness", "a weight or the threshold is no number");
  }
  if (!IsShare(rule.hot_share) || !IsShare(rule.warm_share.value_or(0))) {
    return Broken("hotness", "the share of a tier is not within 0 and 1");
  }
  return absl::OkStatus();
}

absl::Status CheckSites(const Plan& plan) {
  absl::flat_hash_set<uint64_t> sites;
  for (const Site& site : plan.sites) {
    if (!sites.insert(site.id).second) {
      return Broken("duplicate", fmt::format("site {:#x} is listed twice", site.id));
    }
    if (site.pin == Tier::kNative) {
      return Broken("edit",
                    fmt::format("site {:#x} is pinned to the driver: exclude it instead", site.id));
    }
    if (site.pin && site.exclude) {
      return Broken("edit", fmt::format("site {:#x} is both pinned and excluded", site.id));
    }
  }
  return absl::OkStatus();
}

class SequenceCheck {
 public:
  SequenceCheck(const Plan& plan, const std::vector<Slot>& slots, const char* name)
      : plan_(plan), slots_(slots), name_(name), in_step_(&slots == &plan.step) {}

  absl::Status Run() const {
    if (slots_.size() > kSaneSlots) {
      return Broken("size", fmt::format("{} has {} slots", name_, slots_.size()));
    }
    absl::flat_hash_set<std::pair<uint64_t, uint32_t>> seen;
    seen.reserve(slots_.size());
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (auto status = CheckPlace(i); !status.ok()) return status;
      if (auto status = CheckTimes(i); !status.ok()) return status;
      if (!seen.insert({slots_[i].site, slots_[i].ordinal}).second) {
        return Broken("duplicate",
                      fmt::format("{} has the site and ordinal of an earlier slot", Name(i)));
      }
    }
    return absl::OkStatus();
  }

 private:
  std::string Name(size_t i) const {
    return fmt::format("{}[{}] (site {:#x}, ordinal {}, {} bytes at {})", name_, i, slots_[i].site,
                       slots_[i].ordinal, slots_[i].bytes, slots_[i].offset);
  }

  absl::Status CheckPlace(size_t i) const {
    const Slot& slot = slots_[i];
    if (slot.bytes > kSaneBytes) {
      return Broken("size", fmt::format("{} is larger than any device", Name(i)));
    }
    if (slot.tier == Tier::kNative) {
      if (!slot.variable()) return absl::OkStatus();
      return Broken("room", fmt::format("{} may vary, but is the driver's", Name(i)));
    }
    if (slot.bytes == 0) return Broken("size", fmt::format("{} has a place but no bytes", Name(i)));
    if (slot.offset % kBlockAlignment != 0) {
      return Broken("alignment", fmt::format("{} does not begin at a multiple of {} bytes", Name(i),
                                             kBlockAlignment));
    }
    const bool cold = slot.tier == Tier::kCold;
    const uint64_t begin = cold ? plan_.warm_bytes : 0;
    const uint64_t end = begin + (cold ? plan_.cold_bytes : plan_.warm_bytes);
    if (slot.dynamic) return CheckRoom(i, end);
    if (slot.offset < begin || slot.offset > end || slot.bytes > end - slot.offset) {
      return Broken("bounds", fmt::format("{} is not within the {} region [{}, {})", Name(i),
                                          cold ? "cold" : "warm", begin, end));
    }
    if (auto status = CheckRoom(i, end); !status.ok()) return status;
    const uint64_t slabs_end = plan_.warm_bytes + plan_.slabs.size() * plan_.slab_bytes;
    if (cold && slot.offset < slabs_end && !slot.persistent) {
      return Broken("slabs",
                    fmt::format("{} lies in a slab, but does not live across steps", Name(i)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckRoom(size_t i, uint64_t end) const {
    const Slot& slot = slots_[i];
    if (!slot.variable()) return absl::OkStatus();
    if (!in_step_ || slot.tier == Tier::kCold || !plan_.uneven) {
      return Broken("room",
                    fmt::format("{} may vary, but is no warm block of steps that differ", Name(i)));
    }
    if (slot.dynamic) {
      if (slot.offset == 0 && slot.room_bytes == 0) return absl::OkStatus();
      return Broken("room", fmt::format("{} is dynamic and has a place", Name(i)));
    }
    if (slot.room_bytes % kBlockAlignment != 0 || slot.room_bytes < slot.bytes ||
        slot.room_bytes > end - slot.offset) {
      return Broken("room", fmt::format("{} does not fit into its room of {} bytes, or that not "
                                        "into the warm region",
                                        Name(i), slot.room_bytes));
    }
    return absl::OkStatus();
  }

  absl::Status CheckTimes(size_t i) const {
    const Slot& slot = slots_[i];
    if (i > 0 && slot.launch < slots_[i - 1].launch) {
      return Broken("order", fmt::format("{} comes at launch {}, the slot before it at {}", Name(i),
                                         slot.launch, slots_[i - 1].launch));
    }
    if (in_step_ && slot.launch >= plan_.step_launches) {
      return Broken("launch", fmt::format("{} comes at launch {} of a step of {}", Name(i),
                                          slot.launch, plan_.step_launches));
    }
    if (in_step_ && slot.persistent) {
      return Broken("persistent", fmt::format("{} is made anew in every step", Name(i)));
    }
    if (std::adjacent_find(slot.after.begin(), slot.after.end(), std::greater_equal<>()) !=
        slot.after.end()) {
      return Broken("stream", fmt::format("{} names streams out of order", Name(i)));
    }
    return CheckPrefetch(i);
  }

  absl::Status CheckPrefetch(size_t i) const {
    const Slot& slot = slots_[i];
    const auto launches = int64_t(plan_.step_launches);
    if (slot.tier != Tier::kCold || slot.use != ColdUse::kPrefetch) {
      if (slot.tier == Tier::kCold && slot.fetch_launch == -1 && slot.evict_launch == -1) {
        return absl::OkStatus();
      }
      if (slot.fetch_launch != -1 || slot.evict_launch != -1 || slot.use != ColdUse::kInPlace) {
        return Broken("prefetch",
                      fmt::format("{} is fetched, but not a block to prefetch", Name(i)));
      }
      return absl::OkStatus();
    }
    for (int64_t launch : {slot.fetch_launch, slot.evict_launch}) {
      if (launch < -1 || launch >= launches) {
        return Broken("launch", fmt::format("{} is moved at launch {} of a step of {}", Name(i),
                                            launch, launches));
      }
    }
    if ((slot.fetch_launch == -1) != (slot.evict_launch == -1) ||
        slot.fetch_launch > slot.evict_launch) {
      return Broken("prefetch", fmt::format("{} is fetched at launch {} and sent back at {}",
                                            Name(i), slot.fetch_launch, slot.evict_launch));
    }
    return absl::OkStatus();
  }

  const Plan& plan_;
  const std::vector<Slot>& slots_;
  const char* name_;
  bool in_step_;
};

}  // namespace

absl::Status CheckPlan(const Plan& plan) {
  if (plan.schema != kSchemaVersion) {
    return Broken("schema", fmt::format("version {}, but this is for version {}: plan again",
                                        plan.schema, kSchemaVersion));
  }
  if (auto status = CheckRegions(plan); !status.ok()) return status;
  if (auto status = SequenceCheck(plan, plan.prologue, "prologue").Run(); !status.ok()) {
    return status;
  }
  if (auto status = SequenceCheck(plan, plan.step, "step").Run(); !status.ok()) return status;
  if (plan.uneven && !plan.slabs.empty()) {
    return Broken("slabs", "there are slabs, but steps differ: no launch says when to move them");
  }
  if (auto status = CheckSlabs(plan); !status.ok()) return status;
  if (auto status = CheckCleared(plan); !status.ok()) return status;
  if (auto status = CheckHotness(plan); !status.ok()) return status;
  return CheckSites(plan);
}

}  // namespace ebt::plan
