// When backward ends, by what it frees.
#ifndef EBBTIDE_SRC_REPORT_BACKWARD_END_H_
#define EBBTIDE_SRC_REPORT_BACKWARD_END_H_

#include <vector>

#include "src/plan/predictor.h"
#include "src/profile/kinds.h"
#include "src/profile/steps.h"
#include "src/profile/types.h"

namespace ebt::report {

// For each steady step that tells, the milliseconds of the GPU's time from its start to the end of
// its backward: of the last launch behind which the bytes of live activations (Kind::kActivation,
// of all devices) have fallen to their minimum of the step, to within 1 % of the distance from
// that to their maximum, for what a loss or a metric keeps. A step tells nothing where it does not
// lie between the GPU's marks, or holds no activations that fall. O(events).
std::vector<double> BackwardEnds(const profile::Profile& profile, const profile::Steps& steps,
                                 const std::vector<profile::Kind>& kinds,
                                 const plan::GpuClock& clock);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_BACKWARD_END_H_
