#include "src/plan/uneven_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "fmt/format.h"
#include "src/base/units.h"
#include "src/plan/matcher.h"
#include "src/plan/stays.h"

namespace ebt::plan {
namespace {

using profile::AllocKind;
using profile::EventKind;

class UnevenPlay {
 public:
  UnevenPlay(const profile::Profile& profile, const Plan& plan)
      : profile_(profile),
        plan_(plan),
        matcher_(plan, [this] { return site_; }),
        homes_(profile.blocks.size()) {}

  absl::Status Run() {
    if (auto status = CheckPrologue(); !status.ok()) return status;
    for (const profile::Event& event : profile_.events) {
      if (event.block >= homes_.size()) continue;
      if (event.kind == EventKind::kFree) Free(event.block);
      if (event.kind != EventKind::kAlloc) continue;
      if (auto status = Alloc(event.block); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  struct Home {
    const Slot* slot = nullptr;  // whose place it has; nullptr: somewhere in the dynamic part
    uint64_t offset = 0;
    uint64_t on_device = 0;  // bytes that count
  };

  // Its slots are the first allocations of the recording.
  absl::Status CheckPrologue() const {
    size_t next = 0;
    uint32_t launches = 0;
    for (const profile::Event& event : profile_.events) {
      if (next == plan_.prologue.size()) return absl::OkStatus();
      launches += IsLaunch(event);
      if (event.kind != EventKind::kAlloc || event.block >= profile_.blocks.size()) continue;
      const profile::Block& block = profile_.blocks[event.block];
      if (!OfServedKind(block)) continue;
      const Slot& slot = plan_.prologue[next];
      if (slot.site != block.site || slot.bytes != block.bytes || slot.launch != launches ||
          slot.stream != block.stream || slot.fingerprint != block.fingerprint) {
        return Broken("sequence", fmt::format("{} is not the recorded allocation (site {:#x}, {} "
                                              "bytes, after {} launches)",
                                              Name({"prologue", next, &slot}), block.site,
                                              block.bytes, launches));
      }
      ++next;
    }
    if (next == plan_.prologue.size()) return absl::OkStatus();
    return Broken("sequence", fmt::format("the prologue has {} slots, but {} allocations were "
                                          "recorded",
                                          plan_.prologue.size(), next));
  }

  uint64_t Rounded(uint32_t id) const {
    return AlignUp(profile_.blocks[id].bytes, kBlockAlignment);
  }

  static bool OfServedKind(const profile::Block& block) {
    return block.kind == AllocKind::kLinear || block.kind == AllocKind::kAsync ||
           block.kind == AllocKind::kPool;
  }

  SlotRef RefOf(const Slot* slot) const {
    const bool step = slot >= plan_.step.data() && slot < plan_.step.data() + plan_.step.size();
    return {step ? "step" : "prologue",
            size_t(slot - (step ? plan_.step.data() : plan_.prologue.data())), slot};
  }

  absl::Status Alloc(uint32_t id) {
    const profile::Block& block = profile_.blocks[id];
    if (!OfServedKind(block) || block.bytes == 0) return absl::OkStatus();
    site_ = block.site;
    const Slot* slot = matcher_.Next(block.bytes, block.fingerprint);
    const bool native =
        slot != nullptr ? slot->tier == Tier::kNative : block.kind == AllocKind::kLinear;
    if (native) return absl::OkStatus();
    Home& home = homes_[id];
    const bool has_place = slot != nullptr && !slot->dynamic;
    const auto offset = has_place ? PlaceOf(*slot, Rounded(id)) : std::nullopt;
    if (offset) {
      home = {slot, *offset};
      present_[*offset] = *offset + Rounded(id);
      if (auto status = CheckAfter(block, home); !status.ok()) return status;
    }
    if (!offset || slot->tier != Tier::kCold) home.on_device = Rounded(id);
    live_ += home.on_device;
    if (live_ <= plan_.warm_bytes + plan_.dynamic_bytes) return absl::OkStatus();
    return Broken("dynamic", fmt::format("{} bytes live on the device at the allocation of block "
                                         "{}, but there are {} and {} for what has no place",
                                         live_, id, plan_.warm_bytes, plan_.dynamic_bytes));
  }

  void Free(uint32_t id) {
    Home& home = homes_[id];
    live_ -= home.on_device;
    if (home.slot != nullptr) {
      const profile::Block& block = profile_.blocks[id];
      const bool idle = block.kind == AllocKind::kLinear && block.free_stream == 0;
      present_.erase(home.offset);
      freed_.Take(home.offset, home.offset + Rounded(id));
      if (!idle) freed_.Give(home.offset, home.offset + Rounded(id), block.free_stream);
    }
    home = {};
  }

  bool IsFree(uint64_t begin, uint64_t end) const {
    const auto next = present_.lower_bound(begin);
    if (next != present_.end() && next->first < end) return false;
    return next == present_.begin() || std::prev(next)->second <= begin;
  }

  // Where the block comes to lie, if its place is free and large enough.
  std::optional<uint64_t> PlaceOf(const Slot& slot, uint64_t bytes) const {
    if (!slot.variable()) {
      const bool fits = IsFree(slot.offset, slot.offset + bytes);
      return fits ? std::optional(slot.offset) : std::nullopt;
    }
    uint64_t at = slot.offset;
    auto next = present_.upper_bound(at);
    if (next != present_.begin()) at = std::max(at, std::prev(next)->second);
    for (; next != present_.end() && next->first < at + bytes; ++next) {
      at = std::max(at, next->second);
    }
    const bool fits = at + bytes <= slot.offset + slot.room_bytes;
    return fits ? std::optional(at) : std::nullopt;
  }

  absl::Status CheckAfter(const profile::Block& block, const Home& home) {
    const uint64_t end = home.offset + AlignUp(block.bytes, kBlockAlignment);
    return CheckComesAfter(RefOf(home.slot), block, freed_.Take(home.offset, end));
  }

  const profile::Profile& profile_;
  const Plan& plan_;
  uint64_t site_ = 0;  // of the allocation that is asked for
  Matcher matcher_;
  std::vector<Home> homes_;               // by block
  std::map<uint64_t, uint64_t> present_;  // begin -> end of blocks in their places
  FreedBytes freed_;
  uint64_t live_ = 0;  // on the device, outside of the cold part
};

}  // namespace

absl::Status CheckUnevenPlay(const profile::Profile& profile, const Plan& plan) {
  return UnevenPlay(profile, plan).Run();
}

}  // namespace ebt::plan
