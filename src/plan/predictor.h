// How long a step takes with some of its blocks at home on the host. Bytes, milliseconds.
#ifndef EBBTIDE_SRC_PLAN_PREDICTOR_H_
#define EBBTIDE_SRC_PLAN_PREDICTOR_H_

#include <cstdint>
#include <vector>

#include "src/plan/device.h"
#include "src/plan/plan.h"
#include "src/plan/step_clock.h"

namespace ebt::plan {

// Milliseconds that one touch in place adds, and that one fetch and one send-back keep the link
// busy.
double InPlaceMs(const DeviceModel& device, uint64_t bytes, uint64_t touches);
double FetchMs(const DeviceModel& device, uint64_t bytes);
double SendBackMs(const DeviceModel& device, uint64_t bytes);

// The cheaper way for a block that is touched `touches` times a step.
ColdUse CheaperUse(const DeviceModel& device, uint64_t bytes, uint64_t touches);

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
  uint64_t most_device_bytes = 0;  // of blocks fetched at the same time
};

// Gives every kPrefetch block the launch to start fetching before, as late as the link allows
// when one fetch follows the other, and the launch to send it back after.
Transfers ScheduleFetches(const DeviceModel& device, const StepClock& clock,
                          std::vector<ColdBlock>& blocks);

// What has to cross the link in every step, at least.
struct Crossing {
  uint64_t in = 0, out = 0;
};

// Bytes that work has named before a launch and names again at it or behind: what of them the
// device has no `room` for must come in between. Such bytes also go out, once a step, unless they
// are of blocks that live across steps and that no update of the optimizer names.
Crossing ForcedCrossing(const profile::Profile& profile, const Timeline& timeline,
                        const std::vector<bool>& unchanging, uint64_t room);

// No step can be faster: native time, and the link's, both ways at once as long as both are used.
double BoundStepMs(const DeviceModel& device, double native_ms, const Crossing& crossing);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_PREDICTOR_H_
