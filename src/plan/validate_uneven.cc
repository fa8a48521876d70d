// Whether a plan for steps that differ fits its recording. Which block takes which place is known
// only when it happens (rooms, the dynamic part), so what is checked is what holds whatever that
// is: the prologue block by block, and that there is memory for everything that was ever live.
#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "fmt/format.h"
#include "src/base/units.h"
#include "src/plan/validator.h"

namespace ebt::plan {
namespace {

using profile::AllocKind;
using profile::Event;
using profile::EventKind;

absl::Status Broken(const char* rule, std::string what) {
  return absl::InvalidArgumentError(fmt::format("plan breaks the rule \"{}\": {}", rule, what));
}

std::string Name(const Plan& plan, const Slot& slot) {
  return fmt::format("prologue[{}] (site {:#x}, ordinal {}, {} bytes at {})",
                     &slot - plan.prologue.data(), slot.site, slot.ordinal, slot.bytes,
                     slot.offset);
}

class UnevenValidation {
 public:
  UnevenValidation(const profile::Profile& profile, const Plan& plan)
      : profile_(profile), plan_(plan), slot_of_(profile.blocks.size(), nullptr) {}

  absl::Status Run() {
    for (uint64_t at = 0; at < profile_.events.size(); ++at) {
      const Event& event = profile_.events[at];
      if (event.block >= profile_.blocks.size()) continue;
      if (event.kind == EventKind::kFree) Free(event.block);
      if (event.kind != EventKind::kAlloc || !Serves(event.block)) continue;
      if (auto status = Alloc(event.block); !status.ok()) return status;
    }
    if (next_ != plan_.prologue.size()) {
      return Broken("sequence", fmt::format("prologue has {} slots, but {} allocations were "
                                            "recorded",
                                            plan_.prologue.size(), next_));
    }
    return CheckBudget();
  }

 private:
  bool Serves(uint32_t block) const {
    const AllocKind kind = profile_.blocks[block].kind;
    return kind == AllocKind::kLinear || kind == AllocKind::kAsync || kind == AllocKind::kPool;
  }
  uint64_t Rounded(uint32_t block) const {
    return AlignUp(profile_.blocks[block].bytes, kBlockAlignment);
  }
  // Blocks of the prologue that lie elsewhere than on the device by this plan take nothing of it.
  bool OnDevice(const Slot* slot) const {
    return slot == nullptr || slot->tier == Tier::kHot || slot->tier == Tier::kWarm;
  }

  absl::Status Alloc(uint32_t id) {
    if (next_ < plan_.prologue.size()) {
      const Slot& slot = plan_.prologue[next_++];
      const auto& block = profile_.blocks[id];
      if (slot.site != block.site || slot.bytes != block.bytes) {
        return Broken("sequence",
                      fmt::format("{} is not the recorded allocation (site {:#x}, {} bytes)",
                                  Name(plan_, slot), block.site, block.bytes));
      }
      slot_of_[id] = &slot;
      if (auto status = Take(slot); !status.ok()) return status;
    } else if (!KnownOnDevice(profile_.blocks[id].site)) {
      return absl::OkStatus();
    }
    if (!OnDevice(slot_of_[id])) return absl::OkStatus();
    counted_[id] = Rounded(id);
    live_ += Rounded(id);
    if (live_ <= plan_.warm_bytes + plan_.dynamic_bytes) return absl::OkStatus();
    return Broken("dynamic", fmt::format("{} bytes were live, but the warm region has {} and the "
                                         "dynamic part {}",
                                         live_, plan_.warm_bytes, plan_.dynamic_bytes));
  }

  // Whether every slot of the step that this site has lies on the device.
  bool KnownOnDevice(uint64_t site) {
    if (sites_.empty()) {
      for (const Slot& slot : plan_.step) {
        auto [at, is_new] = sites_.emplace(slot.site, true);
        at->second &= OnDevice(&slot);
      }
    }
    const auto found = sites_.find(site);
    return found != sites_.end() && found->second;
  }

  absl::Status Take(const Slot& slot) {
    if (slot.tier == Tier::kNative) return absl::OkStatus();
    const auto next = present_.lower_bound(slot.offset);
    const Slot* other = nullptr;
    if (next != present_.end() && next->first < slot.offset + slot.bytes) other = next->second;
    if (next != present_.begin()) {
      const Slot& below = *std::prev(next)->second;
      if (below.offset + below.bytes > slot.offset) other = &below;
    }
    if (other != nullptr) {
      return Broken("overlap",
                    fmt::format("{} and {} share bytes", Name(plan_, *other), Name(plan_, slot)));
    }
    present_[slot.offset] = &slot;
    return absl::OkStatus();
  }

  void Free(uint32_t id) {
    if (const auto counted = counted_.find(id); counted != counted_.end()) {
      live_ -= counted->second;
      counted_.erase(counted);
    }
    if (slot_of_[id] != nullptr && slot_of_[id]->tier != Tier::kNative) {
      present_.erase(slot_of_[id]->offset);
    }
  }

  absl::Status CheckBudget() const {
    const uint64_t device = plan_.warm_bytes + plan_.dynamic_bytes;
    if (device > plan_.planned_peak_bytes) {
      return Broken("budget", fmt::format("{} bytes on the device, but the planned peak is {}",
                                          device, plan_.planned_peak_bytes));
    }
    if (plan_.budget > 0 && device + plan_.overhead_bytes > plan_.budget) {
      return Broken("budget", fmt::format("{} bytes and {} of overhead on the device, but the "
                                          "budget is {}",
                                          device, plan_.overhead_bytes, plan_.budget));
    }
    return absl::OkStatus();
  }

  const profile::Profile& profile_;
  const Plan& plan_;
  std::vector<const Slot*> slot_of_;         // by block; nullptr: none of the prologue's
  std::map<uint64_t, const Slot*> present_;  // live blocks of the prologue, by offset
  std::map<uint32_t, uint64_t> counted_;     // live blocks on the device
  std::map<uint64_t, bool> sites_;           // of the step: all on the device
  size_t next_ = 0;                          // index into Plan::prologue
  uint64_t live_ = 0;
};

}  // namespace

absl::Status ValidateUnevenPlan(const profile::Profile& profile, const Plan& plan) {
  return UnevenValidation(profile, plan).Run();
}

}  // namespace ebt::plan
