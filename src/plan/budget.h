// In which order blocks leave the device where a budget is too small for all of them.
#ifndef EBBTIDE_SRC_PLAN_BUDGET_H_
#define EBBTIDE_SRC_PLAN_BUDGET_H_

#include <cstdint>
#include <vector>

#include "src/plan/slab_section.h"
#include "src/plan/step_clock.h"
#include "src/plan/timeline.h"

namespace ebt::plan {

// A block below a host page saves nothing worth its latency.
inline constexpr uint64_t kSmallestCold = 4096;

// What goes cold together: one block of the steady step, with those of the warm-up steps that are
// the same there, so that these obey the budget too.
struct Candidate {
  std::vector<uint32_t> lives;
  bool swapped = false;  // in a slab; else in place, or fetched
};

struct CandidateRules {
  const profile::Profile& profile;
  const Timeline& timeline;
  const StepClock& clock;
  const DeviceModel& device;
  std::vector<bool> movable;   // of each Lived
  std::vector<bool> state;     // of each Lived: the optimizer's
  std::vector<uint64_t> live;  // bytes behind each launch, everything planned counted
  uint64_t room = 0;           // bytes that the device has for them
  bool slabs = false;          // persistent blocks that are idle long enough are swapped
};

// First what nothing touches; then what is swapped, by how much of the time above the room it is
// away; then what is used in place, each time that which takes most from what is above the room
// for a millisecond over the link; last what graphs and the like may use at any time. Blocks of
// the step's own that live for a short part of it are no candidates: they are in use while they
// live. O(n log n) for n blocks.
std::vector<Candidate> OrderCandidates(const CandidateRules& rules);

// Sums for UseAroundGap: time above the room counts, other time hardly.
Weights WeightsAbove(const StepClock& clock, const std::vector<uint64_t>& live, uint64_t room);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_BUDGET_H_
