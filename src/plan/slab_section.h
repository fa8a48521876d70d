// The part of the cold region that can be swapped: which blocks lie in it, cut into which slabs,
// and when those stay on the device.
#ifndef EBBTIDE_SRC_PLAN_SLAB_SECTION_H_
#define EBBTIDE_SRC_PLAN_SLAB_SECTION_H_

#include <cstdint>
#include <vector>

#include "src/plan/plan.h"
#include "src/plan/predictor.h"
#include "src/plan/slabs.h"
#include "src/plan/timeline.h"

namespace ebt::plan {

// A persistent block that is not idle for that part of a step in one piece is not moved: it would
// have its place on the device most of the time.
inline constexpr double kIdleEnough = 0.25;
inline constexpr uint64_t kSmallestSlab = uint64_t{2} << 20;
inline constexpr uint64_t kLargestSlab = uint64_t{32} << 20;

// Most bytes live in each stretch of the step from one launch to the next.
struct LiveProfile {
  std::vector<uint64_t> behind;  // launch i until launch i + 1; the last: until the next step's 0
  uint64_t step_peak = 0;
  uint64_t peak = 0;  // prologue included
};
LiveProfile ReadLive(const Timeline& timeline, const std::vector<Item>& items);

// How much it is worth that a block is away while a launch runs, as sums up to each launch: of the
// whole step, as many as launches and one more.
using Weights = std::vector<double>;
// Milliseconds, or launches where the clock knows none.
Weights TimeWeights(const StepClock& clock);

// The use of a block that leaves the device once a step, for the gap between two of its touches
// that weighs most. Needs a touch.
SlabUse UseAroundGap(const std::vector<uint32_t>& launches, const Weights& weights);
// The part of all weight that lies outside the use.
double PartOutside(const SlabUse& use, const Weights& weights);
// Launches that need a block, ascending: a copy comes before the launch with which it counts.
std::vector<uint32_t> NeededAt(const Lived& life);
// Whether a persistent block would be moved in a slab.
bool Swappable(const profile::Block& block, const Lived& life, const Weights& time);

// Of slabs beside so many bytes of other blocks on the device.
uint64_t SlabBytes(uint64_t live_bytes);

struct SlabWishes {
  Weights weights;         // empty: TimeWeights
  uint64_t limit = 0;      // bytes that all may have on the device; 0: as the others have at most
  uint64_t keep_free = 0;  // of them, so that a packer can move in it
  // Of each life, the order of blocks that are first used at one launch (Traits::place); empty: as
  // they were made.
  std::vector<uint32_t> places;
  uint64_t largest = kLargestSlab;
};

struct SlabSection {
  uint64_t slab_bytes = 0;          // 0: nothing can be swapped
  std::vector<uint32_t> lives;      // blocks in the section, indices into Timeline::lives
  std::vector<uint64_t> offsets;    // of each, from the section's begin
  std::vector<Slab> slabs;          // stay_offset is set by the layout
  std::vector<SlabUse> uses;        // of each slab
  std::vector<Item> stays;          // of each slab, for the packer
  std::vector<uint32_t> to_device;  // cold blocks that had better stay on the device: see below
  double stall_ms = 0;              // of a step, waiting for copies of slabs

  uint64_t bytes() const { return slabs.size() * slab_bytes; }
};

// Of the cold blocks in `tiers`, the persistent ones that are idle long enough, in order of first
// use. The stays keep within the limit, however much the copies then hold up the step. Two kinds of
// blocks are left out: where not even the slabs in use at one launch find room, some of them are
// used in place for good; and a slab for which there is room in the whole step is not moved, its
// blocks are in to_device.
SlabSection MakeSlabSection(const profile::Profile& profile, const Timeline& timeline,
                            const std::vector<Tier>& tiers, const StepClock& clock,
                            const DeviceModel& device, const SlabWishes& wishes);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_SLAB_SECTION_H_
