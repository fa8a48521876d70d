// Says whether a plan can be kept to. Shares no code with the planner and the packer: the types
// and step detection alone.
#ifndef EBBTIDE_SRC_PLAN_VALIDATOR_H_
#define EBBTIDE_SRC_PLAN_VALIDATOR_H_

#include "absl/status/status.h"
#include "src/plan/plan.h"
#include "src/profile/types.h"

namespace ebt::plan {

// What a plan must be by itself, whatever it was made from; run it before trusting a file.
// Rules: "schema", "region" (multiples of 2 MiB, sane), "alignment", "bounds" (each block within
// its tier's region), "size", "order" (slots by launch), "duplicate" (site and ordinal),
// "launch" (launches within the step), "persistent" (only in the prologue), "prefetch" (only of
// cold blocks; fetch not after evict), "slabs" (a power of two from 2 to 32 MiB, of which the warm
// region is a multiple; within the cold region, stays aligned and within the warm one, gone behind
// the use and before the next fetch; only persistent blocks in them), "cleared" (a version),
// "stream" (streams to come after are ascending), "edit" (no pin to the driver, nor of what is
// excluded), "hotness" (finite weights, shares of 0 to 1). The error
// names the rule and the slot, slab or site. O(slots).
absl::Status CheckPlan(const Plan& plan);

// Whether `plan` fits the recording `profile` that it was made from: CheckPlan, then the prologue
// and two repetitions of the step are played. Further rules: "sequence" (slots are the recorded
// allocations), "overlap" (no two blocks or stays of slabs share bytes at any time), "stream" (a
// block that gets bytes which another stream freed says that it comes after that one), "lifetime"
// (what outlives the next step has no planned place), "persistent" (exactly what lives across
// steps), "touch" (fetched before the first and sent back after the last of the touches that all of
// the last recorded steps have), "budget" (at every launch, what is left to the driver included; a
// plan whose summary says infeasible breaks it). Of a plan for steps that differ the recording is
// played as replay would serve it: "dynamic" (what has no place finds room), "stream", "budget" and
// "edit" alone. The error names the rule and the slots concerned.
// "edit" (a pinned site's blocks have that tier, an excluded one's none). O(n log n) of events and
// touches.
absl::Status ValidatePlan(const profile::Profile& profile, const Plan& plan);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_VALIDATOR_H_
