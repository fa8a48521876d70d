// Whether a plan file can be kept to in one process: asked before a program starts (`ebbtide
// run`) and once more inside of it.
#ifndef EBBTIDE_SRC_PLAN_USABLE_PLAN_H_
#define EBBTIDE_SRC_PLAN_USABLE_PLAN_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "src/plan/plan.h"

namespace ebt::plan {

// Where the plan is to be kept to.
struct Circumstances {
  std::string program;  // ProgramIdentity of the process; empty: not known yet, any plan's will do
  uint64_t budget = 0;  // bytes of device memory; 0: the plan's own
  bool cold_on_device = false;  // cold blocks stay there
};

// The plan in the file `path`: readable, in itself in order (CheckPlan), of this program and
// within the budget. The error is one line that names the file, what is wrong, and what to do.
absl::StatusOr<Plan> ReadUsablePlan(const std::string& path, const Circumstances& here);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_USABLE_PLAN_H_
