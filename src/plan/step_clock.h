// When things happen in a recorded step, by the GPU's own clock.
#ifndef EBBTIDE_SRC_PLAN_STEP_CLOCK_H_
#define EBBTIDE_SRC_PLAN_STEP_CLOCK_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "src/plan/timeline.h"

namespace ebt::plan {

// The GPU's own clock at any event of a recording, interpolated between its kMark events.
class GpuClock {
 public:
  explicit GpuClock(const profile::Profile& profile);

  // Milliseconds since the first mark's zero; nothing before the first mark and behind the last.
  std::optional<double> At(uint64_t event) const;

 private:
  std::vector<std::pair<uint64_t, double>> marks_;  // event, milliseconds: neither decreases
};

// The middle value, or the mean of the two in the middle; 0 of none.
double Median(std::vector<double> values);

struct StepClock {
  double step_ms = 0;             // median over the recorded steps; 0: the profile has no GPU time
  std::vector<double> launch_ms;  // of each launch of the step, from its begin; not decreasing
};

// From the profile's kMark events: the GPU time at an event is interpolated between the marks
// before and behind it. A step that is not between marks is left out.
StepClock ReadClock(const profile::Profile& profile, const Timeline& timeline);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_STEP_CLOCK_H_
