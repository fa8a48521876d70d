#include "src/plan/rehearsal.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "src/base/units.h"
#include "src/plan/matcher.h"
#include "src/plan/recorded_lives.h"

namespace ebt::plan {
namespace {

using profile::Event;
using profile::EventKind;

// More than any device has, and twice of it is no overflow.
constexpr uint64_t kEndless = uint64_t{1} << 50;

// Plays the events one by one.
class Player {
 public:
  Player(const profile::Profile& profile, const Plan& plan)
      : profile_(profile),
        plan_(plan),
        matcher_(plan, [this] { return site_; }),
        homes_(profile.blocks.size()),
        warm_(plan.warm_bytes),
        cold_(plan.warm_bytes + plan.cold_bytes),
        dynamic_(kEndless) {
    if (plan.warm_bytes > 0) cold_.TakeAt(0, plan.warm_bytes);
  }

  Rehearsal Play(uint64_t from) {
    for (uint64_t at = 0; at < profile_.events.size(); ++at) {
      if (at == from) Restart();
      const Event& event = profile_.events[at];
      if (event.block >= homes_.size()) continue;
      if (event.kind == EventKind::kAlloc) Alloc(event.block);
      if (event.kind == EventKind::kFree) Free(event.block);
    }
    return result_;
  }

 private:
  enum class Part : uint8_t { kNone, kWarm, kCold, kDynamic, kNative };
  struct Home {
    Part part = Part::kNone;
    uint64_t offset = 0;
  };

  void Restart() {
    result_ = {};
    result_.native_bytes = native_;
    for (const auto& [end, blocks] : dynamic_ends_) result_.dynamic_bytes = end;
  }

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
    if (slot.variable()) {
      const auto at = warm_.TakeLowest(bytes, slot.offset, slot.offset + slot.room_bytes);
      if (at) home = {Part::kWarm, *at};
      return at.has_value();
    }
    const bool cold = slot.tier == Tier::kCold;
    if (!(cold ? cold_ : warm_).TakeAt(slot.offset, bytes)) return false;
    home = {cold ? Part::kCold : Part::kWarm, slot.offset};
    return true;
  }

  void TakeAnyPlace(uint64_t bytes, Home& home) {
    std::optional<uint64_t> at = dynamic_.TakeLowest(bytes, 0, plan_.dynamic_bytes);
    if (!at && plan_.uneven) {
      at = warm_.TakeBestFit(bytes);
      if (at) {
        home = {Part::kWarm, *at};
        return;
      }
    }
    if (!at) at = dynamic_.TakeLowest(bytes, 0, kEndless);
    home = {Part::kDynamic, *at};
    ++dynamic_ends_[*at + bytes];
    result_.dynamic_bytes = std::max(result_.dynamic_bytes, *at + bytes);
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
        if (--dynamic_ends_[home.offset + bytes] == 0) dynamic_ends_.erase(home.offset + bytes);
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
  FreePlaces warm_, cold_, dynamic_;
  std::map<uint64_t, uint64_t> dynamic_ends_;  // of live blocks
  uint64_t native_ = 0;
  Rehearsal result_;
};

}  // namespace

void FreePlaces::Take(Free::iterator from, uint64_t offset, uint64_t bytes) {
  const uint64_t begin = from->first, end = begin + from->second;
  if (begin < offset) {
    from->second = offset - begin;
  } else {
    free_.erase(from);
  }
  if (offset + bytes < end) free_[offset + bytes] = end - offset - bytes;
}

bool FreePlaces::TakeAt(uint64_t offset, uint64_t bytes) {
  auto from = free_.upper_bound(offset);
  if (from == free_.begin()) return false;
  --from;
  if (offset + bytes > from->first + from->second) return false;
  Take(from, offset, bytes);
  return true;
}

std::optional<uint64_t> FreePlaces::TakeLowest(uint64_t bytes, uint64_t begin, uint64_t end) {
  auto from = free_.upper_bound(begin);
  if (from != free_.begin()) --from;
  for (; from != free_.end() && from->first < end; ++from) {
    const uint64_t at = std::max(begin, from->first);
    const uint64_t until = std::min(end, from->first + from->second);
    if (until < at || until - at < bytes) continue;
    Take(from, at, bytes);
    return at;
  }
  return std::nullopt;
}

std::optional<uint64_t> FreePlaces::TakeBestFit(uint64_t bytes) {
  auto best = free_.end();
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    if (at->second >= bytes && (best == free_.end() || at->second < best->second)) best = at;
  }
  if (best == free_.end()) return std::nullopt;
  const uint64_t offset = best->first;
  Take(best, offset, bytes);
  return offset;
}

void FreePlaces::Give(uint64_t offset, uint64_t bytes) {
  auto after = free_.lower_bound(offset);
  if (after != free_.end() && after->first == offset + bytes) {
    bytes += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

Rehearsal Rehearse(const profile::Profile& profile, const Plan& plan, uint64_t from) {
  return Player(profile, plan).Play(from);
}

}  // namespace ebt::plan
