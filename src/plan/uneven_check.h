// The validator's play of a recording whose steps differ. For validator.cc alone.
#ifndef EBBTIDE_SRC_PLAN_UNEVEN_CHECK_H_
#define EBBTIDE_SRC_PLAN_UNEVEN_CHECK_H_

#include "absl/status/status.h"
#include "src/plan/plan.h"
#include "src/profile/types.h"

namespace ebt::plan {

// Every allocation of the recording takes its place as replay would find it for it (matcher.h). A
// block that finds its place taken needs the dynamic part, so the rules are: "sequence" (the
// prologue is how the recording begins), "dynamic" (what lives
// on the device outside of the cold part is never more than warm_bytes and dynamic_bytes), "stream"
// (who gets bytes that another stream freed comes after it). `plan` has passed CheckPlan. O(n log
// n).
absl::Status CheckUnevenPlay(const profile::Profile& profile, const Plan& plan);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_UNEVEN_CHECK_H_
