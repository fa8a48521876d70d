// Which blocks stay on the device and which have their home on the host.
#ifndef EBBTIDE_SRC_PLAN_TIERING_H_
#define EBBTIDE_SRC_PLAN_TIERING_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

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
  std::vector<Tier> tiers;           // of each Lived
  std::vector<uint32_t> cold_lives;  // cold blocks of the steady step, indices into lives
  std::vector<ColdBlock> cold;       // the same blocks, with how and when they are used
  Transfers transfers;
  SlabSection slabs;  // what of them can be swapped
  Layout layout;
  double managed_ms = 0;        // of a step with every cold block managed
  double swapped_ms = 0;        // with those in slabs swapped and only the others managed
  uint64_t required_bytes = 0;  // of device memory, everything included
  bool feasible = true;
  std::string infeasible_reason;
};

// Without a budget the optimizer state goes cold, in place, and nothing else. With one everything
// stays until the budget is exceeded; then blocks go cold, those first which are not missed:
// untouched ones and optimizer state, other persistent blocks, last what lives for at least a
// quarter of a step; within each the best idle bytes per millisecond of cost. Slabs are left out
// where they alone would exceed the budget, and where swapping them would be no faster than leaving
// them in place.
Tiering ChooseTiers(const profile::Profile& profile, const Timeline& timeline,
                    const Behaviour& behaviour, const StepClock& clock,
                    const TieringOptions& options);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_TIERING_H_
