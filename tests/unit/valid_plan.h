// A plan as tests are to make it: none that the validator would refuse goes unnoticed.
#ifndef EBBTIDE_TESTS_UNIT_VALID_PLAN_H_
#define EBBTIDE_TESTS_UNIT_VALID_PLAN_H_

#include <gtest/gtest.h>

#include <utility>

#include "src/plan/planner.h"
#include "src/plan/validator.h"

namespace ebt::plan {

// MakePlan, of which it is expected that it succeeds, and that a feasible plan keeps every rule.
inline PlanResult ValidPlan(const profile::Profile& profile, const PlanOptions& options) {
  auto result = MakePlan(profile, options);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  const absl::Status status =
      result->summary.feasible ? ValidatePlan(profile, result->plan) : CheckPlan(result->plan);
  EXPECT_TRUE(status.ok()) << status;
  return *std::move(result);
}

}  // namespace ebt::plan

#endif  // EBBTIDE_TESTS_UNIT_VALID_PLAN_H_
