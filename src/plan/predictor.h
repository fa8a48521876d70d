// How long a step takes with some of its blocks at home on the host. Bytes, milliseconds.
#ifndef EBBTIDE_SRC_PLAN_PREDICTOR_H_
#define EBBTIDE_SRC_PLAN_PREDICTOR_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "src/plan/plan.h"
#include "src/plan/timeline.h"

namespace ebt::plan {

// Bytes a second. The defaults were measured on one NVIDIA H200 (driver 580.159, CUDA 13.0).
struct DeviceModel {
  double link_in = 50e9;      // copies host to device while others go back
  double link_out = 50e9;     // copies device to host while others come in
  double in_place = 42e9;     // a kernel reading and writing host memory, each way at once
  double managed_in = 50e9;   // prefetch of managed memory to the device
  double managed_out = 12e9;  // prefetch of managed memory to the host
};

// Milliseconds that one touch in place adds, and that one fetch and one send-back keep the link
// busy.
double InPlaceMs(const DeviceModel& device, uint64_t bytes, uint64_t touches);
double FetchMs(const DeviceModel& device, uint64_t bytes);
double SendBackMs(const DeviceModel& device, uint64_t bytes);

// The cheaper way for a block that is touched `touches` times a step.
ColdUse CheaperUse(const DeviceModel& device, uint64_t bytes, uint64_t touches);

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

// When things happen in the step, by the GPU's own clock.
struct StepClock {
  double step_ms = 0;             // median over the recorded steps; 0: the profile has no GPU time
  std::vector<double> launch_ms;  // of each launch of the step, from its begin; not decreasing
};

// From the profile's kMark events: the GPU time at an event is interpolated between the marks
// before and behind it. A step that is not between marks is left out.
StepClock ReadClock(const profile::Profile& profile, const Timeline& timeline);

// A cold block in the step.
struct ColdBlock {
  uint64_t bytes = 0;
  uint64_t touches = 0;  // of a step
  uint32_t first = 0;    // launch of its first and of its last touch
  uint32_t last = 0;
  ColdUse use = ColdUse::kInPlace;
  int64_t fetch_launch = -1;  // kPrefetch: set by ScheduleFetches
  int64_t evict_launch = -1;
};

struct Transfers {
  double stall_ms = 0;             // of the step, because a block was not there in time
  uint64_t most_device_bytes = 0;  // of blocks fetched at the same time
};

// Gives every kPrefetch block the launch to start fetching before, as late as the link allows
// when one fetch follows the other, and the launch to send it back after.
Transfers ScheduleFetches(const DeviceModel& device, const StepClock& clock,
                          std::vector<ColdBlock>& blocks);

// Step time with these blocks cold: native time + every touch in place + stalls. In-place
// traffic is not taken to overlap with anything.
double PredictStepMs(const DeviceModel& device, const StepClock& clock,
                     const std::vector<ColdBlock>& blocks, const Transfers& transfers);

// No plan that keeps `forced_bytes` off the device can be faster: max(native time, once in over
// the link, once out over it).
double BoundStepMs(const DeviceModel& device, double native_ms, uint64_t forced_bytes);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_PREDICTOR_H_
