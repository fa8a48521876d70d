#include "src/plan/play.h"

#include <algorithm>
#include <vector>

#include "src/base/units.h"
#include "src/plan/baseline.h"
#include "src/plan/baseline_ranges.h"

namespace ebt::plan {
namespace {

using profile::AllocKind;
using profile::Event;
using profile::EventKind;

constexpr uint64_t kChunk = 32 * kMiB;  // of memory::MappedRange
// More than any device has: the dynamic part always has addresses left.
constexpr uint64_t kAddresses = uint64_t{1} << 44;

// An address range that gets device memory by the chunk; the last one may be shorter.
class Part {
 public:
  // `bytes` are there from the beginning, at most `most` ever.
  Part(uint64_t bytes, uint64_t most, uint64_t chunk)
      : free_(bytes), first_bytes_(bytes), most_(most), chunk_(chunk) {}

  bool TakeAt(uint64_t offset, uint64_t bytes) {
    if (!free_.TakeAt(offset, bytes)) return false;
    Back(offset, bytes);
    return true;
  }
  std::optional<uint64_t> TakeLowest(uint64_t bytes, uint64_t begin, uint64_t end) {
    const std::optional<uint64_t> offset = free_.TakeLowest(bytes, begin, end);
    if (offset) Back(*offset, bytes);
    return offset;
  }
  // The range grows where nothing free suffices.
  std::optional<uint64_t> Take(uint64_t bytes) {
    std::optional<uint64_t> offset = free_.TakeBestFit(bytes);
    if (!offset && bytes <= most_ - (free_.size() - free_.free_at_end())) {
      free_.Grow(bytes - free_.free_at_end());
      offset = free_.TakeBestFit(bytes);
    }
    if (offset) Back(*offset, bytes);
    return offset;
  }
  void Give(uint64_t offset, uint64_t bytes) { free_.Give(offset, bytes); }

  // Puts memory behind the chunks of a range.
  void Back(uint64_t offset, uint64_t bytes) {
    for (uint64_t chunk = offset / chunk_; chunk * chunk_ < offset + bytes; ++chunk) {
      if (backed_.size() <= chunk) backed_.resize(chunk + 1);
      if (backed_[chunk]) continue;
      backed_[chunk] = true;
      const uint64_t more = std::min(chunk_, most_ - chunk * chunk_);
      (chunk * chunk_ < first_bytes_ ? first_device_bytes_ : grown_device_bytes_) += more;
    }
  }
  // In chunks that begin in what was there from the beginning, and behind it.
  uint64_t first_device_bytes() const { return first_device_bytes_; }
  uint64_t grown_device_bytes() const { return grown_device_bytes_; }

 private:
  FreeRanges free_;
  const uint64_t first_bytes_, most_, chunk_;
  std::vector<bool> backed_;
  uint64_t first_device_bytes_ = 0, grown_device_bytes_ = 0;
};

class PlanPlayer {
 public:
  PlanPlayer(const profile::Profile& profile, const Plan& plan, const SlotFinder& find,
             const PlayOptions& options)
      : profile_(profile),
        plan_(plan),
        find_(find),
        options_(options),
        takers_(FindTakers(profile)),
        warm_(plan.warm_bytes, plan.uneven ? kAddresses : plan.warm_bytes,
              plan.uneven           ? kUnevenChunkBytes
              : plan.slab_bytes > 0 ? plan.slab_bytes
                                    : kChunk),
        cold_(plan.cold_bytes, plan.cold_bytes, kChunk),
        dynamic_(0, kAddresses, kChunk),
        homes_(profile.blocks.size()) {
    if (options.cold_on_device) return;
    for (const Slab& slab : plan.slabs) warm_.Back(slab.stay_offset, plan.slab_bytes);
  }

  PlayedPlan Play() {
    for (uint64_t at = 0; at < profile_.events.size(); ++at) {
      counting_ = at >= options_.from_event;
      const Event& event = profile_.events[at];
      const bool known = event.block < homes_.size();
      if (known && event.kind == EventKind::kAlloc) Allocate(profile_.blocks[event.block]);
      if (known && event.kind == EventKind::kFree) Free(profile_.blocks[event.block]);
      if (counting_) NotePeak();
    }
    result_.planned_bytes = PlannedBytes();
    result_.dynamic_bytes = DynamicBytes();
    return result_;
  }

 private:
  enum class Where : uint8_t { kNowhere, kHost, kWarm, kCold, kDynamic, kDriver };
  struct Home {
    Where where = Where::kNowhere;
    uint64_t offset = 0;
    bool dynamic = false;  // without a place of its own
  };

  static uint64_t Rounded(const profile::Block& block) {
    return AlignUp(block.bytes, kBlockAlignment);
  }
  static bool Servable(AllocKind kind) {
    return kind == AllocKind::kLinear || kind == AllocKind::kAsync || kind == AllocKind::kPool;
  }

  uint64_t PlannedBytes() const { return warm_.first_device_bytes() + cold_.first_device_bytes(); }
  uint64_t DynamicBytes() const {
    return warm_.grown_device_bytes() + dynamic_.grown_device_bytes();
  }

  void NotePeak() {
    const uint64_t now = PlannedBytes() + DynamicBytes() + driver_bytes_;
    result_.peak_bytes = std::max(result_.peak_bytes, now);
    result_.live_bytes = std::max(result_.live_bytes, live_bytes_);
    result_.dynamic_live_bytes = std::max(result_.dynamic_live_bytes, dynamic_live_bytes_);
  }

  void Count(uint64_t& figure) { figure += counting_; }

  void Allocate(const profile::Block& block) {
    if (takers_.of[block.id] == Taker::kElsewhere || block.bytes > kAddresses / 2) return;
    Home& home = homes_[block.id];
    home = Servable(block.kind) ? Serve(block) : Home{Where::kDriver};
    if (home.where != Where::kHost) live_bytes_ += Rounded(block);
    if (home.dynamic) dynamic_live_bytes_ += Rounded(block);
    if (home.where != Where::kDriver) return;
    driver_bytes_ += Rounded(block);
    Count(result_.native);
  }

  Home Serve(const profile::Block& block) {
    const Slot* slot = find_(block);
    const bool native = slot && slot->tier == Tier::kNative;
    if (slot && !native) {
      const Home home = Place(*slot, block);
      Count(home.where == Where::kNowhere ? result_.occupied : result_.planned);
      if (home.where != Where::kNowhere) return home;
    }
    if (!slot) Count(result_.unknown);
    if (native || block.kind == AllocKind::kLinear) return {Where::kDriver};
    const Where where = plan_.uneven ? Where::kWarm : Where::kDynamic;
    const std::optional<uint64_t> offset = (plan_.uneven ? warm_ : dynamic_).Take(Rounded(block));
    return offset ? Home{where, *offset, true} : Home{Where::kDriver};
  }

  Home Place(const Slot& slot, const profile::Block& block) {
    if (slot.dynamic) {
      const std::optional<uint64_t> offset = warm_.Take(Rounded(block));
      return offset ? Home{Where::kWarm, *offset, true} : Home{};
    }
    if (slot.variable()) {
      const std::optional<uint64_t> offset =
          warm_.TakeLowest(Rounded(block), slot.offset, slot.offset + slot.room_bytes);
      return offset ? Home{Where::kWarm, *offset} : Home{};
    }
    if (slot.tier != Tier::kCold)
      return warm_.TakeAt(slot.offset, Rounded(block)) ? Home{Where::kWarm, slot.offset} : Home{};
    if (!options_.cold_on_device) return {Where::kHost};
    const uint64_t offset = slot.offset - plan_.warm_bytes;
    return cold_.TakeAt(offset, Rounded(block)) ? Home{Where::kCold, offset} : Home{};
  }

  void Free(const profile::Block& block) {
    Home& home = homes_[block.id];
    const uint64_t bytes = Rounded(block);
    if (home.where != Where::kNowhere && home.where != Where::kHost) live_bytes_ -= bytes;
    if (home.where == Where::kWarm) warm_.Give(home.offset, bytes);
    if (home.where == Where::kCold) cold_.Give(home.offset, bytes);
    if (home.where == Where::kDriver) driver_bytes_ -= bytes;
    if (home.where == Where::kDynamic) dynamic_.Give(home.offset, bytes);
    if (home.dynamic) dynamic_live_bytes_ -= bytes;
    home = {};
  }

  const profile::Profile& profile_;
  const Plan& plan_;
  const SlotFinder& find_;
  const PlayOptions options_;
  const Takers takers_;
  Part warm_, cold_, dynamic_;
  std::vector<Home> homes_;  // by block
  uint64_t driver_bytes_ = 0, live_bytes_ = 0, dynamic_live_bytes_ = 0;
  bool counting_ = true;
  PlayedPlan result_;
};

}  // namespace

PlayedPlan PlayPlan(const profile::Profile& profile, const Plan& plan, const SlotFinder& find,
                    const PlayOptions& options) {
  return PlanPlayer(profile, plan, find, options).Play();
}

}  // namespace ebt::plan
