// A plan played on the events of a recording, as a run that keeps to it would serve them: what the
// plan costs on steps that it was not made from.
//
// As src/replay does it: an allocation that the plan knows gets its place, one of many sizes the
// lowest in its room; where there is none, or the plan does not know the allocation, it goes to the
// dynamic part, the smallest free range first. Of a plan whose steps differ that part begins with
// what is free of the warm region, and grows behind it. Linear memory that has no place is the
// driver's, as is what the plan leaves native. Both parts get device memory by the chunk when a
// chunk is first used, and keep it. Left out are which stream a range was freed in (it decides
// between ranges of the dynamic part), and moves: a slab's stay has its memory from the beginning,
// cold blocks lie on the host.
#ifndef EBBTIDE_SRC_PLAN_PLAY_H_
#define EBBTIDE_SRC_PLAN_PLAY_H_

#include <cstdint>
#include <functional>

#include "src/plan/plan.h"
#include "src/profile/types.h"

namespace ebt::plan {

// The slot of the plan that an allocation is, NULL where the plan does not know it. Asked once of
// each allocation that a run would look up, in their order.
using SlotFinder = std::function<const Slot*(const profile::Block&)>;

struct PlayOptions {
  bool cold_on_device = false;  // EBBTIDE_COLD=off
  // Counts begin with this event; what lives then has been played all the same.
  uint64_t from_event = 0;
};

struct PlayedPlan {
  // Device memory that stands behind the parts at the end, which is when it is most.
  uint64_t planned_bytes = 0;  // the planned one, with slabs' stays; cold blocks where they stay
  uint64_t dynamic_bytes = 0;  // behind it
  // With what the driver has given beside them, at most and from `from_event` on.
  uint64_t peak_bytes = 0;
  uint64_t live_bytes = 0;          // most in blocks on the device, from `from_event` on
  uint64_t dynamic_live_bytes = 0;  // most in blocks of the dynamic part, from `from_event` on
  // Allocations from `from_event` on.
  uint64_t planned = 0;   // at their place
  uint64_t occupied = 0;  // known, but no place was free
  uint64_t unknown = 0;   // not in the plan
  uint64_t native = 0;    // of these and of those that the plan leaves to the driver: the driver's
};

// `plan` has passed CheckPlan. O(events · log blocks).
PlayedPlan PlayPlan(const profile::Profile& profile, const Plan& plan, const SlotFinder& find,
                    const PlayOptions& options = {});

// The events up to the end of the first `steps` steps of the recording (profile/step_spans.h), with
// the blocks that were allocated in them; what is freed later lives on. Everything where there are
// no more steps.
profile::Profile FirstSteps(const profile::Profile& profile, uint64_t steps);

// The event at which step `step` of the recording begins, counted from 0; the number of events
// where there is no such step.
uint64_t StepBegin(const profile::Profile& profile, uint64_t step);
// How many there are.
uint64_t CountSteps(const profile::Profile& profile);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_PLAY_H_
