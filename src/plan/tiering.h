// Which blocks stay on the device and which have their home on the host.
#ifndef EBBTIDE_SRC_PLAN_TIERING_H_
#define EBBTIDE_SRC_PLAN_TIERING_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/plan/certificate.h"
#include "src/plan/cold_step.h"
#include "src/plan/hotness.h"
#include "src/plan/layout.h"
#include "src/plan/predictor.h"

namespace ebt::plan {

struct TieringOptions {
  uint64_t budget = 0;          // bytes of device memory, everything included; 0: none
  uint64_t overhead_bytes = 0;  // of it, what is not planned here
  double hot_share = 0.15;      // of the budget (else of max live) that hot blocks may have
  std::optional<double> warm_share;
  std::map<uint64_t, Tier> pinned;  // by site
  std::set<uint64_t> excluded;
  DeviceModel device;
};

struct Tiering {
  std::vector<Tier> tiers;  // of each Lived
  ColdStep cold;            // cold blocks of the steady step
  Transfers transfers;      // of those that are fetched
  SlabSection slabs;        // what of them can be swapped
  Layout layout;
  Prediction prediction;        // with what is in slabs swapped and only the others managed
  double managed_ms = 0;        // of a step with every cold block managed
  uint64_t required_bytes = 0;  // of device memory, everything included
  bool feasible = true;
  std::string infeasible_reason;
  Certificate certificate;
};

// Without a budget the optimizer state goes cold and nothing else; slabs are left out where
// swapping would be no faster than leaving it in place. With one everything stays until the budget
// is exceeded; then blocks go cold in the order of budget.h, as few as it takes. Of swapping and
// fetching or not, the fastest that fits is taken; what fits nowhere comes with a certificate, and
// the least that the device can do with.
Tiering ChooseTiers(const profile::Profile& profile, const Timeline& timeline,
                    const Behaviour& behaviour, const StepClock& clock,
                    const TieringOptions& options);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_TIERING_H_
