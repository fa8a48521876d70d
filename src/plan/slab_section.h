// The part of the cold region that can be swapped: which blocks lie in it, cut into which slabs,
// and when those stay on the device.
#ifndef EBBTIDE_SRC_PLAN_SLAB_SECTION_H_
#define EBBTIDE_SRC_PLAN_SLAB_SECTION_H_

#include <cstdint>
#include <vector>

#include "src/plan/hotness.h"
#include "src/plan/plan.h"
#include "src/plan/predictor.h"
#include "src/plan/timeline.h"

namespace ebt::plan {

// A persistent block that is in use for more of a step than the rest of this is not moved: it
// would have its place on the device most of the time.
inline constexpr double kIdleEnough = 0.8;
inline constexpr uint64_t kSmallestSlab = uint64_t{2} << 20;
inline constexpr uint64_t kLargestSlab = uint64_t{32} << 20;

struct SlabSection {
  uint64_t slab_bytes = 0;          // 0: nothing can be swapped
  std::vector<uint32_t> lives;      // blocks in the section, indices into Timeline::lives
  std::vector<uint64_t> offsets;    // of each, from the section's begin
  std::vector<Slab> slabs;          // stay_offset is set by the layout
  std::vector<Item> stays;          // of each slab, for the packer
  std::vector<uint32_t> to_device;  // cold blocks that had better stay on the device: see below
  double stall_ms = 0;              // of a step, waiting for copies of slabs

  uint64_t bytes() const { return slabs.size() * slab_bytes; }
};

// Of the cold blocks in `tiers`, the persistent optimizer state that is idle for most of the
// step, in the order in which the optimizer takes it (colocation.h). The stays keep within the most
// bytes that the hot and warm blocks have live at once, however much the copies then hold up the
// step. Two kinds of blocks are left out: where not even the slabs in use at one launch find room,
// some of them are used in place for good; and a slab for which there is room in the whole step is
// not moved, its blocks are in to_device. Of the room `keep_free` bytes are not filled, so that a
// packer can move in it.
SlabSection MakeSlabSection(const profile::Profile& profile, const Timeline& timeline,
                            const Behaviour& behaviour, const std::vector<Tier>& tiers,
                            const StepClock& clock, const DeviceModel& device, uint64_t keep_free);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_SLAB_SECTION_H_
