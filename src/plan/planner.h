// From a profile to a plan.
#ifndef EBBTIDE_SRC_PLAN_PLANNER_H_
#define EBBTIDE_SRC_PLAN_PLANNER_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/plan/certificate.h"
#include "src/plan/hotness.h"
#include "src/plan/plan.h"
#include "src/plan/step_play.h"
#include "src/profile/types.h"

namespace ebt::plan {

struct PlanOptions {
  uint64_t budget = 0;  // bytes of device memory, everything included; 0: none
  std::string source;   // the profile's name, for people
  DeviceModel device;
  HotnessWeights weights;
  double hot_threshold = 0.5;  // standard deviations above the mean heat from which a block is hot
  double hot_share = 0.15;     // of the budget (else of max live) that hot blocks may have
  // The same for warm ones: what exceeds it goes cold though it would fit. Nothing: the budget
  // alone decides.
  std::optional<double> warm_share;
  std::map<uint64_t, Tier> pinned;  // site -> where its blocks lie, whatever that costs
  std::set<uint64_t> excluded;      // sites that are left to the driver
};

struct PlanSummary {
  struct TierSum {
    uint64_t bytes = 0;   // most of them live at once
    uint64_t blocks = 0;  // that a steady step knows: persistent ones and its own
  };
  uint64_t events = 0;
  uint64_t sites = 0;
  uint64_t steps = 0;              // whole steps found
  uint64_t native_peak_bytes = 0;  // of the recorded process; max live where it was not recorded
  uint64_t max_live_bytes = 0;
  uint64_t planned_peak_bytes = 0;
  bool uneven = false;         // steps differ: nothing moves at launches
  uint64_t dynamic_bytes = 0;  // of planned_peak_bytes: for blocks without a place
  double fragmentation = 1;    // planned peak / most live bytes of the device's blocks
  uint64_t slab_bytes = 0;     // of it all slabs together; what lies there can be swapped
  uint64_t slabs = 0;
  double native_step_ms = 0;
  double predicted_step_ms = 0;  // slabs swapped, other cold blocks managed
  StallMs stall_ms;              // of it, what is not native
  uint64_t bytes_in = 0;         // that cross the link in such a step, to the device
  uint64_t bytes_out = 0;        // and from it
  std::string time_reason;       // why it takes 5 % longer than the bound; empty: it does not
  double managed_step_ms = 0;    // every cold block managed: before `ebbtide verify` cleared it
  double bound_step_ms = 0;      // no step that keeps to the budget can be faster
  uint64_t predicted_peak_bytes = 0;  // of device memory, everything included
  bool feasible = true;
  std::string infeasible_reason;
  Certificate certificate;  // where it is not feasible
  double plan_seconds = 0;
  std::array<TierSum, 4> tiers;  // by Tier
};

// What a steady step knows of one site, for reports.
struct SiteSum {
  uint64_t site = 0;
  Tier tier = Tier::kWarm;
  BlockClass block_class = BlockClass::kOther;
  uint64_t bytes = 0;  // of all its blocks
  uint64_t blocks = 0;
  uint64_t touches = 0;  // of a step, summed over the blocks
};

struct PlanResult {
  Plan plan;
  PlanSummary summary;
  std::vector<SiteSum> sites;  // the one with most bytes first
};

// Plans `profile`. An infeasible budget is not an error: the plan then keeps as little on the
// device as it can and the summary says what is missing. Errors: no step (says what to do), a
// profile that contradicts itself. Equal input gives an equal plan.
absl::StatusOr<PlanResult> MakePlan(const profile::Profile& profile, const PlanOptions& options);

// "hot", "warm", "cold", "native"; "optimizer state", "parameter", …
const char* TierName(Tier tier);
const char* ClassName(BlockClass block_class);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_PLANNER_H_
