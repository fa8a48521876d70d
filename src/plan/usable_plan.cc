#include "src/plan/usable_plan.h"

#include <algorithm>

#include "fmt/format.h"
#include "src/base/units.h"
#include "src/plan/plan_file.h"
#include "src/plan/validator.h"

namespace ebt::plan {
namespace {

absl::Status Refuse(const std::string& path, const std::string& why) {
  return absl::FailedPreconditionError(fmt::format("{}: {}", path, why));
}

absl::Status Damaged(const absl::Status& status, const std::string& file) {
  return absl::InvalidArgumentError(
      fmt::format("{}{}; make the plan anew with `ebbtide plan`", file,
                  std::string_view(status.message().data(), status.message().size())));
}

absl::Status CheckBudget(const std::string& path, const Plan& plan, uint64_t budget,
                         bool cold_on_device) {
  const uint64_t needed =
      std::max(plan.planned_peak_bytes, plan.warm_bytes + plan.dynamic_bytes) + plan.overhead_bytes;
  if (budget == 0) return absl::OkStatus();
  if (needed <= budget && cold_on_device && plan.cold_bytes > budget - needed) {
    return Refuse(path,
                  fmt::format("with cold blocks on the device the plan needs {} more than its "
                              "{}, and the budget is {}; let them leave it, or plan again "
                              "without a budget",
                              FormatSize(plan.cold_bytes), FormatSize(needed), FormatSize(budget)));
  }
  if (needed <= budget) return absl::OkStatus();
  return Refuse(path, fmt::format("the plan needs {} on the device, the budget is {}; make one for "
                                  "it: ebbtide plan {} --budget {}",
                                  FormatSize(needed), FormatSize(budget),
                                  plan.source.empty() ? "PROFILE" : plan.source, budget));
}

}  // namespace

absl::StatusOr<Plan> ReadUsablePlan(const std::string& path, const Circumstances& here) {
  absl::StatusOr<Plan> plan = ReadPlan(path);
  if (absl::IsInvalidArgument(plan.status())) return Damaged(plan.status(), "");
  if (!plan.ok()) return plan.status();
  if (const absl::Status sense = CheckPlan(*plan); !sense.ok()) return Damaged(sense, path + ": ");
  if (!here.program.empty() && here.program != plan->program) {
    return Refuse(path,
                  fmt::format("is the plan of {}, and this is {}; record and plan this "
                              "program, or name its plan",
                              plan->program.empty() ? "no program" : plan->program, here.program));
  }
  const absl::Status fits =
      CheckBudget(path, *plan, here.budget > 0 ? here.budget : plan->budget, here.cold_on_device);
  if (!fits.ok()) return fits;
  return plan;
}

}  // namespace ebt::plan
