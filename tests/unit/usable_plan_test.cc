#include "src/plan/usable_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "src/base/units.h"
#include "src/plan/plan_file.h"

namespace ebt::plan {
namespace {

// Needs 2 MiB by plan and 4 MiB for the rest.
Plan Small() {
  Plan plan;
  plan.program = "trainer[11]";
  plan.source = "job.ebp";
  plan.warm_bytes = 2 * kMiB;
  plan.planned_peak_bytes = 2 * kMiB;
  plan.overhead_bytes = 4 * kMiB;
  plan.step_launches = 1;
  return plan;
}

class UsablePlanTest : public testing::Test {
 protected:
  std::string Put(const Plan& plan) const {
    EXPECT_TRUE(WritePlan(plan, path_).ok());
    return path_;
  }
  // "" when it is usable.
  std::string Complaint(const Plan& plan, const Circumstances& here) const {
    return std::string(ReadUsablePlan(Put(plan), here).status().message());
  }
  void ExpectRefused(const Plan& plan, const Circumstances& here, const std::string& why) const {
    const std::string complaint = Complaint(plan, here);
    EXPECT_EQ(complaint.rfind(path_ + ": ", 0), 0u) << complaint;
    EXPECT_NE(complaint.find(why), std::string::npos) << complaint;
    EXPECT_EQ(std::count(complaint.begin(), complaint.end(), '\n'), 0) << complaint;
  }

  const std::string path_ =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() + ".json";
};

TEST_F(UsablePlanTest, PlanOfThisProgramWithinTheBudgetIsRead) {
  const auto plan = ReadUsablePlan(Put(Small()), {"trainer[11]", 6 * kMiB});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->overhead_bytes, 4 * kMiB);
}

TEST_F(UsablePlanTest, ProgramThatIsNotKnownYetFitsEveryPlan) {
  EXPECT_EQ(Complaint(Small(), {"", 0}), "");
}

TEST_F(UsablePlanTest, PlanOfAnotherProgramOrOfNoneIsRefused) {
  ExpectRefused(Small(), {"trainer[22]", 0}, "is the plan of trainer[11], and this is trainer[22]");
  Plan nobodys = Small();
  nobodys.program = "";
  ExpectRefused(nobodys, {"trainer[22]", 0}, "is the plan of no program");
}

TEST_F(UsablePlanTest, OneByteBelowWhatThePlanNeedsIsTooLittle) {
  ExpectRefused(Small(), {"", 6 * kMiB - 1}, "needs 6.00 MiB on the device");
  ExpectRefused(Small(), {"", 5 * kMiB}, "ebbtide plan job.ebp --budget 5242880");
  Plan understated = Small();
  understated.planned_peak_bytes = 1;  // less than the region that will be mapped
  ExpectRefused(understated, {"", 5 * kMiB}, "needs 6.00 MiB on the device");
}

TEST_F(UsablePlanTest, ColdBlocksThatStayOnTheDeviceCountInTheBudget) {
  Plan plan = Small();  // 6 MiB without them
  plan.cold_bytes = 4 * kMiB;
  EXPECT_EQ(Complaint(plan, {"", 10 * kMiB, true}), "");
  EXPECT_EQ(Complaint(plan, {"", 10 * kMiB - 1, false}), "");
  ExpectRefused(plan, {"", 10 * kMiB - 1, true}, "needs 4.00 MiB more than its 6.00 MiB");
}

TEST_F(UsablePlanTest, PlansOwnBudgetCountsWhereNoneIsGiven) {
  Plan plan = Small();
  plan.budget = 5 * kMiB;
  ExpectRefused(plan, {"", 0}, "the budget is 5.00 MiB");
  EXPECT_EQ(Complaint(plan, {"", 6 * kMiB}), "");
}

TEST_F(UsablePlanTest, DamageNamesTheFileAndWhatToDo) {
  Plan plan = Small();
  plan.warm_bytes = 3;
  ExpectRefused(plan, {}, "make the plan anew");
  plan = Small();
  plan.overhead_bytes = ~uint64_t{0};  // no sum may wrap around into something small
  ExpectRefused(plan, {"", 5 * kMiB}, "overhead_bytes");
  std::ofstream(path_) << "{";
  const auto cut = ReadUsablePlan(path_, {});
  EXPECT_NE(cut.status().message().find(path_ + ": line 1"), std::string::npos) << cut.status();
  EXPECT_NE(cut.status().message().find("make the plan anew"), std::string::npos) << cut.status();
}

TEST_F(UsablePlanTest, FileThatIsNotThereIsNamed) {
  const auto plan = ReadUsablePlan("/nonexistent/plan.json", {});
  EXPECT_EQ(plan.status().message().find("/nonexistent/plan.json: cannot be opened"), 0u);
}

}  // namespace
}  // namespace ebt::plan
