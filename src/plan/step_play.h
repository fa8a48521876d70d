// A steady step, played event by event on a device's measured speeds.
#ifndef EBBTIDE_SRC_PLAN_STEP_PLAY_H_
#define EBBTIDE_SRC_PLAN_STEP_PLAY_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "src/plan/device.h"
#include "src/plan/step_clock.h"

namespace ebt::plan {

inline constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

// What comes to the device for a part of every step: a slab, or a managed block that is fetched.
// Launches are 0-based in the step and go round at its end.
struct Move {
  uint64_t bytes = 0;
  uint32_t fetch = 0;        // before this launch the copy in is asked for
  uint32_t first = 0;        // this launch waits for it
  uint32_t last = 0;         // behind this launch the copy out is asked for
  uint32_t gone = kNobody;   // this launch waits for that; kNobody: none does
  uint32_t after = kNobody;  // the move (an index) that leaves its place to this one; kNobody: none
  bool managed = false;
  bool clean = false;  // the host's copy stays true: there is nothing to copy out
};

// What one launch uses of host memory where it lies.
struct InPlaceUse {
  uint64_t in = 0, out = 0;  // bytes that cross the link
};

struct PlayedStep {
  const DeviceModel& device;
  const StepClock& clock;
  std::vector<Move> moves;               // in the order in which they are asked for at one launch
  std::vector<InPlaceUse> in_place;      // of each launch; none: nothing is used in place
  std::vector<uint64_t> resident_bytes;  // of each launch, on the device; none: not known
};

struct StallMs {
  double fetch = 0;     // a launch waits for what it uses
  double room = 0;      // a launch waits for a place that something still leaves
  double in_place = 0;  // kernels wait for host memory
  double host = 0;      // launching takes longer than the device does
  double sum() const { return fetch + room + in_place + host; }
};

struct Prediction {
  double step_ms = 0;
  StallMs stall_ms;
  uint64_t bytes_in = 0, bytes_out = 0;  // that cross the link in a step
  uint64_t peak_device_bytes = 0;        // resident_bytes and what has moved in
};

// Kernels take the time they were recorded with, one behind the other, and then as long as the
// bytes they use in place need over the link. Copies are asked for where a plan's launches say
// and go by Link. Steps are played until one takes as long as the one before it.
//
// Whoever launches runs ahead of the device, as recorded: only where launching and asking for
// moves would take longer than the step does it holds it up.
Prediction PlayStep(const PlayedStep& step);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_STEP_PLAY_H_
