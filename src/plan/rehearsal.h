// A recording played by a plan, as replay would serve it: which blocks find their places, and what
// the others take.
#ifndef EBBTIDE_SRC_PLAN_REHEARSAL_H_
#define EBBTIDE_SRC_PLAN_REHEARSAL_H_

#include <cstdint>

#include "src/plan/plan.h"
#include "src/profile/types.h"

namespace ebt::plan {

struct Rehearsal {
  uint64_t placed = 0;         // blocks that found their places
  uint64_t displaced = 0;      // that the plan knows, but whose place was taken or too small
  uint64_t unknown = 0;        // that it does not know
  uint64_t dynamic_bytes = 0;  // the dynamic part at its largest
  uint64_t native_bytes = 0;   // most live at once that the plan leaves to the driver
};

// `plan` has passed CheckPlan. The whole recording is played; counts are of what happens from event
// `from` on, dynamic_bytes is of the whole: what has grown stays. Blocks without a place go where
// replay puts them: where steps differ into the smallest free run of the warm region and of what
// has been used behind it, before that grows; else to the dynamic part. Equal input gives an equal
// result. O(events log blocks) as long as rooms have few free runs.
Rehearsal Rehearse(const profile::Profile& profile, const Plan& plan, uint64_t from = 0);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_REHEARSAL_H_
