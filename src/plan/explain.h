// Why the blocks of one site lie where they lie, with the numbers that decided it.
#ifndef EBBTIDE_SRC_PLAN_EXPLAIN_H_
#define EBBTIDE_SRC_PLAN_EXPLAIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/plan/hotness.h"
#include "src/plan/plan.h"
#include "src/plan/planner.h"
#include "src/plan/timeline.h"
#include "src/profile/types.h"

namespace ebt::plan {

// A block beside another: the nearest one that lives at some time at which the other does.
struct Neighbour {
  bool there = false;
  uint64_t site = 0;
  std::string label;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t gap = 0;  // bytes in between
};

struct BlockReason {
  std::string name;  // its place in the plan file: "prologue[17]"
  Slot slot;
  Span span = Span::kPrologue;
  Traits traits;
  uint64_t touches = 0;        // of a step
  double idle_bytes = 0;       // bytes * idle share
  double in_place_ms = 0;      // that its touches would add over the link
  double move_ms = 0;          // that fetching it and sending it back keep the link busy
  int64_t slab = -1;           // the first slab that it lies in
  uint64_t module_blocks = 0;  // persistent blocks of its module
  Neighbour below, above;
  std::vector<std::string> because;  // the deciding facts, the weightiest first
};

struct Explanation {
  Site site;
  HotnessRule rule;
  double heat_mean = 0, heat_deviation = 0, hot_above = 0;
  uint32_t turn = 0;
  Window optimizer;
  uint32_t step_launches = 0;
  uint64_t budget = 0, overhead_bytes = 0;
  uint64_t device_bytes = 0;        // planned peak
  int64_t left_bytes = 0;           // of the budget, with this plan; 0 without one
  std::vector<BlockReason> blocks;  // of the steady step and what lives across it, in plan order
};

// `result`: what MakePlan made of the profile with these options. Errors: those of BuildTimeline,
// and kNotFound where the site has no block that a steady step knows.
absl::StatusOr<Explanation> Explain(const profile::Profile& profile, const PlanOptions& options,
                                    const PlanResult& result, const Site& site);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_EXPLAIN_H_
