// `ebbtide verify` and `ebbtide report` with whole programs on the simulated driver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/plan/clearance.h"
#include "src/plan/plan_file.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Words = std::vector<std::string>;

class Verify : public testing::Test {
 protected:
  void SetUp() override { folder_ = FreshFolder(); }

  Outcome Ebbtide(Words words, const Words& job = {}) {
    words.insert(words.begin(), Product("ebbtide"));
    if (!job.empty()) words.push_back("--");
    words.insert(words.end(), job.begin(), job.end());
    return RunProcess(words, {{"LD_LIBRARY_PATH", Product("tests/simcuda")}}, folder_);
  }
  static Words Trainer(const std::string& steps = "12") {
    return {Product("tests/demo/ebbtide-demo-trainer"), "--json", "--steps", steps};
  }
  static Words Hidden() { return {Product("tests/preload/hidden_pointer"), "12"}; }

  // A plan with slabs. False: there is none.
  bool MakePlan(const Words& job) {
    return Ebbtide({"record", "-o", "job.ebp"}, job).code == 0 &&
           Ebbtide({"plan", "job.ebp"}).code == 0 && !plan::SwappableSites(Plan()).empty();
  }
  plan::Plan Plan() const {
    auto plan = plan::ReadPlan(folder_ + "/job.plan.json");
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? *std::move(plan) : plan::Plan();
  }

  std::string folder_;
};

TEST_F(Verify, ClearsAnOrdinaryOptimizersState) {
  ASSERT_TRUE(MakePlan(Trainer()));
  const size_t sites = plan::SwappableSites(Plan()).size();
  const Outcome verified = Ebbtide({"verify", "--plan", "job.plan.json"}, Trainer());
  ASSERT_EQ(verified.code, 0) << verified;
  EXPECT_THAT(verified.out, HasSubstr("cleared  " + std::to_string(sites) + " of "));
  EXPECT_THAT(verified.out, HasSubstr("Cleared is not proved."));
  EXPECT_THAT(verified.out, Not(HasSubstr("refused")));
  const plan::Plan plan = Plan();
  ASSERT_EQ(plan.cleared.size(), 1u);
  EXPECT_EQ(plan.cleared[0].sites, plan::SwappableSites(plan));
  EXPECT_GE(plan.cleared[0].steps, 3u);
  EXPECT_THAT(plan.cleared[0].command, HasSubstr("ebbtide-demo-trainer --json --steps 12"));
  EXPECT_EQ(plan::ClearedSites(plan, plan.cleared[0].driver_version, plan.gpu),
            plan.cleared[0].sites);
}

TEST_F(Verify, WhatItHasClearedIsSwappedByAPlainRunWithTheSameResults) {
  const Outcome native =
      RunProcess(Trainer(), {{"LD_LIBRARY_PATH", Product("tests/simcuda")}}, folder_);
  ASSERT_EQ(native.code, 0) << native;
  ASSERT_TRUE(MakePlan(Trainer()));
  ASSERT_EQ(Ebbtide({"verify", "--plan", "job.plan.json"}, Trainer()).code, 0);
  const Outcome run = Ebbtide({"run", "--plan", "job.plan.json", "--log", "run.log"}, Trainer());
  ASSERT_EQ(run.code, 0) << run;
  const nlohmann::json expected = nlohmann::json::parse(native.out);
  const nlohmann::json results = nlohmann::json::parse(run.out);
  for (const char* checksum : {"losses_checksum", "parameters_checksum"})
    EXPECT_EQ(results[checksum], expected[checksum]) << checksum;
  const plan::Plan plan = Plan();
  uint64_t cleared = 0;
  ASSERT_EQ(plan.cleared.size(), 1u);
  for (uint64_t site : plan.cleared[0].sites) cleared += plan::SwappableBytes(plan, site);
  EXPECT_GT(cleared, 0u);
  const Outcome report = Ebbtide({"report", "run.log", "--json"});
  ASSERT_EQ(report.code, 0) << report;
  const nlohmann::json log = nlohmann::json::parse(report.out);
  EXPECT_EQ(log["run"]["cold_swap"], cleared);
  EXPECT_GT(log["end"]["hits"], 0);
}

TEST_F(Verify, ASecondRunReplacesTheFirst) {
  ASSERT_TRUE(MakePlan(Trainer()));
  ASSERT_EQ(Ebbtide({"verify", "--plan", "job.plan.json"}, Trainer()).code, 0);
  const Outcome again = Ebbtide({"verify", "--plan", "job.plan.json", "--steps", "5"}, Trainer());
  ASSERT_EQ(again.code, 0) << again;
  const plan::Plan plan = Plan();
  ASSERT_EQ(plan.cleared.size(), 1u);
  EXPECT_GE(plan.cleared[0].steps, 5u);
}

TEST_F(Verify, RefusesTheStateThatAKernelReachesUnnamed) {
  ASSERT_TRUE(MakePlan(Hidden()));
  const Outcome verified = Ebbtide({"verify", "--plan", "job.plan.json"}, Hidden());
  ASSERT_EQ(verified.code, 0) << verified;
  EXPECT_THAT(verified.out, HasSubstr("ebt_chase reaches it without naming it"));
  EXPECT_THAT(verified.out, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  const plan::Plan plan = Plan();
  const size_t cleared = plan.cleared.empty() ? 0 : plan.cleared[0].sites.size();
  EXPECT_EQ(cleared + 1, plan::SwappableSites(plan).size());
}

TEST_F(Verify, AJobThatFailsByItselfIsNotTheSitesFault) {
  ASSERT_TRUE(MakePlan(Trainer()));
  const Words failing = {"sh", "-c", Trainer()[0] + " --json --steps 2; exit 3"};
  const Outcome verified = Ebbtide({"verify", "--plan", "job.plan.json"}, failing);
  EXPECT_EQ(verified.code, 125) << verified;
  EXPECT_THAT(verified.err, HasSubstr("CMD itself fails"));
  EXPECT_THAT(verified.err, HasSubstr("nothing was cleared"));
  EXPECT_TRUE(Plan().cleared.empty());
}

TEST_F(Verify, TooFewStepsClearNothing) {
  ASSERT_TRUE(MakePlan(Trainer()));
  const Outcome verified = Ebbtide({"verify", "--plan", "job.plan.json"}, Trainer("1"));
  EXPECT_EQ(verified.code, 125) << verified;
  EXPECT_TRUE(Plan().cleared.empty());
}

TEST_F(Verify, APlanWithoutSlabsHasNothingToVerify) {
  ASSERT_EQ(Ebbtide({"record", "-o", "job.ebp"}, Trainer()).code, 0);
  // All of it fits.
  ASSERT_EQ(Ebbtide({"plan", "job.ebp", "--budget", "100GiB"}).code, 0);
  const Outcome verified = Ebbtide({"verify", "--plan", "job.plan.json"}, Trainer());
  EXPECT_EQ(verified.code, 0) << verified;
  EXPECT_THAT(verified.out, HasSubstr("nothing to verify"));
  EXPECT_EQ(std::count(verified.out.begin(), verified.out.end(), '\n'), 1);
}

TEST_F(Verify, BadCommandLinesAreTwo) {
  EXPECT_EQ(Ebbtide({"verify", "--plan", "x"}).code, 2);
  EXPECT_EQ(Ebbtide({"verify"}, {"true"}).code, 2);
  EXPECT_EQ(Ebbtide({"verify", "--plan", "x.{rank}.json"}, {"true"}).code, 2);
  EXPECT_EQ(Ebbtide({"verify", "--plan", "x", "--steps", "0"}, {"true"}).code, 2);
  EXPECT_EQ(Ebbtide({"verify", "--plan", "none.json"}, {"true"}).code, 125);
}

TEST_F(Verify, ARunLogIsReported) {
  ASSERT_TRUE(MakePlan(Trainer()));
  std::ofstream(folder_ + "/run.log") << "{\"run\":{\"schema\":1,\"program\":\"yesterday\"}}\n";
  const Outcome run = Ebbtide({"run", "--plan", "job.plan.json", "--log", "run.log"}, Trainer());
  ASSERT_EQ(run.code, 0) << run;
  const Outcome table = Ebbtide({"report", "run.log"});
  ASSERT_EQ(table.code, 0) << table;
  EXPECT_THAT(table.out, HasSubstr("Planned fetches"));
  EXPECT_THAT(table.out, Not(HasSubstr("the end is missing")));
  const Outcome last = Ebbtide({"report", "run.log", "--json"});
  ASSERT_EQ(last.code, 0) << last;
  EXPECT_GE(nlohmann::json::parse(last.out)["end"]["steps"].get<int>(), 9);
}

TEST_F(Verify, WhatIsNoRunLogIsNotReplacedByOne) {
  ASSERT_TRUE(MakePlan(Trainer()));
  const Outcome run =
      Ebbtide({"run", "--strict", "--plan", "job.plan.json", "--log", "job.plan.json"}, Trainer());
  EXPECT_EQ(run.code, 0) << run;
  EXPECT_THAT(run.err, HasSubstr("job.plan.json is there already"));
  EXPECT_FALSE(plan::SwappableSites(Plan()).empty());
}

TEST_F(Verify, APlanDoesNotReplaceItsProfile) {
  ASSERT_EQ(Ebbtide({"record", "-o", "job.ebp"}, Trainer()).code, 0);
  const Outcome planned = Ebbtide({"plan", "job.ebp", "-o", "job.ebp"});
  EXPECT_EQ(planned.code, 125);
  EXPECT_THAT(planned.err, HasSubstr("job.ebp is the profile"));
  EXPECT_EQ(Ebbtide({"plan", "job.ebp"}).code, 0);
}

}  // namespace
}  // namespace ebt::test
