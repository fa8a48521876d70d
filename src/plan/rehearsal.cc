#include "src/plan/rehearsal.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/units.h"
#include "src/plan/baseline_ranges.h"
#include "src/plan/matcher.h"
#include "src/plan/recorded_lives.h"

namespace ebt::plan {
namespace {

using profile::Event;
using profile::EventKind;

// Plays the events one by one.
class Player {
 public:
  Player(const profile::Profile& profile, const Plan& plan)
      : profile_(profile),
        plan_(plan),
        matcher_(plan, [this] { return site_; }),
        homes_(profile.blocks.size()),
        warm_(plan.warm_bytes),
        cold_(plan.cold_bytes),
        dynamic_(0) {}

  Rehearsal Play(uint64_t from) {
    for (uint64_t at = 0; at < profile_.events.size(); ++at) {
      if (at == from) result_ = {.native_bytes = native_};
      const Event& event = profile_.events[at];
      if (event.block >= homes_.size()) continue;
      if (event.kind == EventKind::kAlloc) Alloc(event.block);
      if (event.kind == EventKind::kFree) Free(event.block);
    }
    result_.dynamic_bytes = dynamic_.size() + warm_.size() - plan_.warm_bytes;
    return result_;
  }

 private:
  enum class Part : uint8_t { kNone, kWarm, kCold, kDynamic, kNative };
  struct Home {
    Part part = Part::kNone;
    uint64_t offset = 0;
  };

  uint64_t BytesOf(uint32_t block) const {
    return AlignUp(profile_.blocks[block].bytes, kBlockAlignment);
  }

  void Alloc(uint32_t id) {
    const profile::Block& block = profile_.blocks[id];
    if (!Servable(block.kind) || block.bytes == 0) return;
    site_ = block.site;
    const Slot* slot = matcher_.Next(block.bytes, block.fingerprint);
    const uint64_t bytes = BytesOf(id);
    Home& home = homes_[id];
    if (slot != nullptr && slot->tier != Tier::kNative && TakePlace(*slot, bytes, home)) {
      ++result_.placed;
      return;
    }
    ++(slot == nullptr ? result_.unknown : result_.displaced);
    const bool native =
        slot != nullptr ? slot->tier == Tier::kNative : block.kind == profile::AllocKind::kLinear;
    if (native) {
      home.part = Part::kNative;
      native_ += bytes;
      result_.native_bytes = std::max(result_.native_bytes, native_);
    } else {
      TakeAnyPlace(bytes, home);
    }
  }

  bool TakePlace(const Slot& slot, uint64_t bytes, Home& home) {
    if (slot.dynamic) {
      TakeAnyPlace(bytes, home);
      return true;
    }
    if (slot.variable()) {
      const auto at = warm_.TakeLowest(bytes, slot.offset, slot.offset + slot.room_bytes);
      if (at) home = {Part::kWarm, *at};
      return at.has_value();
    }
    if (slot.tier == Tier::kCold) {
      home = {Part::kCold, slot.offset - plan_.warm_bytes};
      return cold_.TakeAt(home.offset, bytes);
    }
    home = {Part::kWarm, slot.offset};
    return warm_.TakeAt(slot.offset, bytes);
  }

  void TakeAnyPlace(uint64_t bytes, Home& home) {
    FreeRanges& part = plan_.uneven ? warm_ : dynamic_;
    std::optional<uint64_t> at = part.TakeBestFit(bytes);
    if (!at) {
      part.Grow(bytes - part.free_at_end());
      at = part.TakeBestFit(bytes);
    }
    home = {plan_.uneven ? Part::kWarm : Part::kDynamic, *at};
  }

  void Free(uint32_t id) {
    const uint64_t bytes = BytesOf(id);
    const Home home = std::exchange(homes_[id], {});
    switch (home.part) {
      case Part::kNone:
        break;
      case Part::kWarm:
        warm_.Give(home.offset, bytes);
        break;
      case Part::kCold:
        cold_.Give(home.offset, bytes);
        break;
      case Part::kDynamic:
        dynamic_.Give(home.offset, bytes);
        break;
      case Part::kNative:
        native_ -= bytes;
        break;
    }
  }

  const profile::Profile& profile_;
  const Plan& plan_;
  uint64_t site_ = 0;  // of the allocation that is asked for
  Matcher matcher_;
  std::vector<Home> homes_;  // by block
  FreeRanges warm_;          // with the dynamic part behind it where steps differ
  FreeRanges cold_, dynamic_;
  uint64_t native_ = 0;
  Rehearsal result_;
};

}  // namespace

Rehearsal Rehearse(const profile::Profile& profile, const Plan& plan, uint64_t from) {
  return Player(profile, plan).Play(from);
}

}  // namespace ebt::plan
