// The timeline of a recording whose steps differ: other sequences of allocations, other sizes.
#ifndef EBBTIDE_SRC_PLAN_UNEVEN_TIMELINE_H_
#define EBBTIDE_SRC_PLAN_UNEVEN_TIMELINE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "src/plan/timeline.h"
#include "src/profile/step_spans.h"
#include "src/profile/types.h"

namespace ebt::plan {

inline constexpr size_t kLeastUnevenSteps = 3;  // without evaluations

// `spans`: profile::FindStepSpans(profile), with at least kLeastUnevenSteps steps. The step that
// stands for all is an envelope: of each allocation that some step makes it has the largest size
// and everything of the life that any step needs, on the time axis of the recorded step that has
// most bytes. What lies between two steps (an evaluation) belongs to the first of them.
absl::StatusOr<Timeline> BuildUnevenTimeline(const profile::Profile& profile,
                                             const std::vector<profile::StepSpan>& spans);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_UNEVEN_TIMELINE_H_
