// Who must wait for whom where blocks of several streams share a place.
#ifndef EBBTIDE_SRC_PLAN_STREAM_ORDER_H_
#define EBBTIDE_SRC_PLAN_STREAM_ORDER_H_

#include "src/plan/plan.h"
#include "src/plan/timeline.h"
#include "src/profile/types.h"

namespace ebt::plan {

// Sets Slot::after of all slots of `plan`, whose prologue and step are timeline.lives in that
// order, offsets included. The prologue and two steps are played, since a step meets what the one
// before it left. What was freed by cuMemFree (a linear block, no stream) is idle; a linear block
// may be used by any stream at once, so it comes after all streams that freed its bytes.
// O(n log n). Where steps differ the whole recording is looked at, and a slot comes after every
// stream that ever frees bytes of its place or room.
void OrderStreams(const profile::Profile& profile, const Timeline& timeline, Plan& plan);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_STREAM_ORDER_H_
