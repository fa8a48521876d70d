// What `ebbtide verify` has cleared, and whether that holds where the plan is kept to now.
#ifndef EBBTIDE_SRC_PLAN_CLEARANCE_H_
#define EBBTIDE_SRC_PLAN_CLEARANCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/plan/plan.h"

namespace ebt::plan {

// Sites with a persistent block in the slab section: those that verify puts on trial. Ascending.
std::vector<uint64_t> SwappableSites(const Plan& plan);

// Bytes of the blocks of `site` in the slab section.
uint64_t SwappableBytes(const Plan& plan, uint64_t site);

// Sites of the clearances that were found with this driver, GPU and version of ours. Ascending,
// each once.
std::vector<uint64_t> ClearedSites(const Plan& plan, int driver_version, const std::string& gpu);

// Why clearances of the plan do not count here, in one line; empty: all of them count.
std::string WhyNotCleared(const Plan& plan, int driver_version, const std::string& gpu);

// Adds the outcome of a run of verify. It takes the place of an earlier one of the same command
// on the same GPU; sites in `refused` leave every other one, since one hidden access is enough.
void AddClearance(Clearance clearance, const std::vector<uint64_t>& refused, Plan* plan);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_CLEARANCE_H_
