// When slabs (plan.h) come to the device and leave it: pure scheduling, no blocks.
#ifndef EBBTIDE_SRC_PLAN_SLABS_H_
#define EBBTIDE_SRC_PLAN_SLABS_H_

#include <cstdint>
#include <vector>

#include "src/plan/plan.h"
#include "src/plan/predictor.h"

namespace ebt::plan {

// The launches of a step that use a slab: it must be on the device from before `first` until
// `last` is through. Of a step of n launches first < n and first <= last < first + n: last - n is a
// launch of the next step where the use goes round the step's end.
struct SlabUse {
  uint32_t first = 0;
  uint32_t last = 0;
};

struct StayProblem {
  StepClock clock;    // step_ms 0: nothing is known of time
  double in_ms = 0;   // one slab's copy, nothing else on the link
  double out_ms = 0;  // the two directions do not share the link
  // Of each launch of the step: how many slabs fit beside everything else from before it until
  // before the next one (the last one's: until before the next step's first). Below 0 where the
  // limit is exceeded without any slab.
  std::vector<int64_t> room;
  std::vector<SlabUse> uses;
};

struct StaySchedule {
  std::vector<Slab> slabs;  // of each use; stay_offset is left to the layout
  // Of each slab: there is room and need for it all the time, so it is no use to move it; its
  // launches say nothing.
  std::vector<bool> always;
  int64_t raised = 0;    // slabs by which the limit had to be raised for the uses alone,
  uint32_t crowded = 0;  // at this launch; 0 where that was not so
  double stall_ms = 0;   // of a steady step, waiting for copies
};

// Copies go one behind the other in each direction. Out: in the order of the last uses, as soon
// as those are through; the place is gone when the copy is. In: as late as the first uses allow.
// Where the room does not suffice a fetch comes later, at most at the first use, and a place is
// to be gone earlier, at least one launch behind the last use; then the step waits for the copy.
// Without time a slab is fetched a sixteenth of the launches before its first use and is gone a
// quarter behind its last. Copies out have the first claim to room, then the earliest uses.
// Needs at least one launch, and as many room[] as clock.launch_ms.
StaySchedule ScheduleStays(const StayProblem& problem);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_SLABS_H_
