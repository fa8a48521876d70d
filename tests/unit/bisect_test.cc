#include "src/cli/bisect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace ebt::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Sites = std::vector<uint64_t>;
using Verdict = TrialResult::Verdict;

// A job that fails when `fails` says so of what is on trial.
struct Job {
  std::function<bool(const std::set<uint64_t>&)> fails;
  std::vector<Sites> runs;

  absl::StatusOr<Findings> Search(const Sites& sites) {
    return FindHiddenAccesses(sites, [this](const Sites& on_trial) -> absl::StatusOr<TrialResult> {
      runs.push_back(on_trial);
      TrialResult result;
      result.steps = 3;
      if (fails({on_trial.begin(), on_trial.end()})) {
        result.verdict = Verdict::kFailed;
        result.fault = {"access", "ebt_chase", "CUDA_ERROR_ILLEGAL_ADDRESS", {}};
      }
      return result;
    });
  }
};

Sites RefusedSites(const Findings& findings) {
  Sites sites;
  for (const Refusal& refusal : findings.refused) sites.push_back(refusal.site);
  return sites;
}

TEST(BisectTest, OneRunClearsWhatIsClean) {
  Job job{[](const auto&) { return false; }, {}};
  const auto findings = job.Search({1, 2, 3});
  ASSERT_TRUE(findings.ok()) << findings.status();
  EXPECT_THAT(findings->cleared, ElementsAre(1, 2, 3));
  EXPECT_THAT(findings->refused, IsEmpty());
  EXPECT_EQ(findings->steps, 3u);
  EXPECT_EQ(job.runs.size(), 1u);
}

TEST(BisectTest, FindsTheTwoOfEightThatFail) {
  Job job{[](const auto& sites) { return sites.count(3) + sites.count(8) > 0; }, {}};
  const auto findings = job.Search({1, 2, 3, 4, 5, 6, 7, 8});
  ASSERT_TRUE(findings.ok()) << findings.status();
  EXPECT_THAT(findings->cleared, UnorderedElementsAre(1, 2, 4, 5, 6, 7));
  EXPECT_THAT(RefusedSites(*findings), UnorderedElementsAre(3, 8));
  EXPECT_EQ(findings->refused[0].fault.launch, "ebt_chase");
}

TEST(BisectTest, WhatIsClearedHasPassedTogether) {
  Job job{[](const auto& sites) { return sites.count(2) > 0; }, {}};
  const auto findings = job.Search({1, 2, 3, 4});
  ASSERT_TRUE(findings.ok()) << findings.status();
  Sites cleared = findings->cleared;
  EXPECT_EQ(std::count(job.runs.begin(), job.runs.end(), cleared), 1);
}

TEST(BisectTest, SitesThatFailOnlyTogetherAreNotClearedTogether) {
  Job job{[](const auto& sites) { return sites.count(1) + sites.count(4) == 2; }, {}};
  const auto findings = job.Search({1, 2, 3, 4});
  ASSERT_TRUE(findings.ok()) << findings.status();
  EXPECT_THAT(findings->cleared, ElementsAre(1, 2, 3));
  EXPECT_THAT(RefusedSites(*findings), ElementsAre(4));
}

TEST(BisectTest, AJobThatFailsByItselfIsAnErrorAfterTwoRuns) {
  Job job{[](const auto&) { return true; }, {}};
  const auto findings = job.Search({1, 2, 3, 4});
  EXPECT_THAT(std::string(findings.status().message()), HasSubstr("with no site on trial"));
  EXPECT_EQ(job.runs.size(), 2u);
  EXPECT_THAT(job.runs[1], IsEmpty());
}

TEST(BisectTest, ASingleSiteThatFailsIsRefused) {
  Job job{[](const auto& sites) { return !sites.empty(); }, {}};
  const auto findings = job.Search({1});
  ASSERT_TRUE(findings.ok()) << findings.status();
  EXPECT_THAT(findings->cleared, IsEmpty());
  EXPECT_THAT(RefusedSites(*findings), ElementsAre(1));
}

TEST(BisectTest, BlamedSitesAreRefusedWithoutASearch) {
  std::vector<Sites> runs;
  const auto findings =
      FindHiddenAccesses({1, 2, 3}, [&](const Sites& sites) -> absl::StatusOr<TrialResult> {
        runs.push_back(sites);
        TrialResult result;
        if (sites.size() == 3) {
          result.verdict = Verdict::kFailed;
          result.fault = {"captured", "matmul", "", {2}};
        }
        return result;
      });
  ASSERT_TRUE(findings.ok()) << findings.status();
  EXPECT_THAT(findings->cleared, ElementsAre(1, 3));
  EXPECT_THAT(RefusedSites(*findings), ElementsAre(2));
  EXPECT_EQ(runs.size(), 2u);
}

TEST(BisectTest, WhatNobodyNamesIsRefusedAndTheRestWatched) {
  const auto findings =
      FindHiddenAccesses({1, 2}, [&](const Sites& sites) -> absl::StatusOr<TrialResult> {
        TrialResult result;
        result.steps = 2;
        if (sites.size() == 2) {
          result.verdict = Verdict::kUnwatched;
          result.untouched = {1};
        }
        return result;
      });
  ASSERT_TRUE(findings.ok()) << findings.status();
  EXPECT_THAT(findings->cleared, ElementsAre(2));
  ASSERT_EQ(findings->refused.size(), 1u);
  EXPECT_TRUE(findings->refused[0].untouched);
}

TEST(BisectTest, TooFewStepsIsAnError) {
  const auto findings =
      FindHiddenAccesses({1, 2}, [&](const Sites&) -> absl::StatusOr<TrialResult> {
        TrialResult result;
        result.verdict = Verdict::kUnwatched;
        return result;
      });
  EXPECT_THAT(std::string(findings.status().message()), HasSubstr("too few steps"));
}

TEST(TrialWatchTest, StepsCountFromTheOneInWhichTheLastSiteWasNamed) {
  TrialWatch watch({0x1a, 0x2b});
  watch.Add("{\"pid\":7,\"gpu\":\"H200\",\"driver\":13000}\n{\"pid\":7,\"touched\":[\"0x1a\"]}\n");
  watch.Add("{\"pid\":7,\"steps\":1}\n{\"pid\":7,\"touc");
  EXPECT_EQ(watch.WatchedSteps(), 0u);
  EXPECT_THAT(watch.Untouched(), ElementsAre(0x2b));
  watch.Add("hed\":[\"0x2b\",\"0x3c\"]}\n{\"pid\":7,\"steps\":2}\n");
  EXPECT_EQ(watch.WatchedSteps(), 0u);
  watch.Add("{\"pid\":7,\"steps\":5}\n");
  EXPECT_EQ(watch.WatchedSteps(), 3u);
  EXPECT_THAT(watch.Untouched(), IsEmpty());
  EXPECT_EQ(watch.gpu(), "H200");
  EXPECT_EQ(watch.driver_version(), 13000);
  EXPECT_FALSE(watch.fault().has_value());
}

TEST(TrialWatchTest, OfSeveralProcessesTheSlowestCounts) {
  TrialWatch watch({1});
  watch.Add(
      "{\"pid\":1,\"touched\":[\"0x1\"]}\n{\"pid\":2,\"touched\":[\"0x1\"]}\n"
      "{\"pid\":1,\"steps\":1}\n{\"pid\":1,\"steps\":9}\n{\"pid\":2,\"steps\":1}\n"
      "{\"pid\":2,\"steps\":3}\n{\"pid\":3,\"steps\":1}\n");
  EXPECT_EQ(watch.WatchedSteps(), 2u);
}

TEST(TrialWatchTest, TheFirstFaultCountsAndRubbishDoesNot) {
  TrialWatch watch({1});
  watch.Add("rubbish\n[]\n{\"pid\":\"x\",\"steps\":1}\n{\"pid\":1,\"steps\":-1}\n");
  EXPECT_FALSE(watch.fault().has_value());
  watch.Add(
      "{\"pid\":1,\"fault\":\"access\",\"launch\":\"ebt_chase\",\"error\":\"E\"}\n"
      "{\"pid\":1,\"fault\":\"driver\",\"launch\":\"\"}\n");
  ASSERT_TRUE(watch.fault().has_value());
  EXPECT_EQ(watch.fault()->launch, "ebt_chase");
}

}  // namespace
}  // namespace ebt::cli
