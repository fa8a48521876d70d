#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "src/base/units.h"
#include "src/report/diff.h"
#include "tests/unit/training_profile.h"

namespace ebt::report {
namespace {

using namespace ebt::profile;
using nlohmann::json;

// Sites and what lives of them at the peak, in MiB.
struct Job : ProfileBuilder {
  explicit Job(const std::vector<std::pair<uint64_t, uint64_t>>& blocks, Kind kind = {}) {
    for (const auto& [site, mib] : blocks) Alloc(mib * kMiB, site);
    composition = *Compose(profile, std::nullopt, std::vector<Kind>(blocks.size(), kind));
  }
  Side AsSide(const std::string& file) const { return {file, profile, composition, names}; }

  Composition composition;
  SiteNames names{std::vector<callsite::Site>()};
};

TEST(Diff, SitesAreNewGoneGrownShrunkOrTheSame) {
  const Job before({{1, 5}, {2, 1}, {3, 7}, {4, 2}});
  const Job after({{1, 5}, {2, 4}, {3, 5}, {5, 9}});
  const auto diffs = CompareSites(before.composition, after.composition);
  ASSERT_EQ(diffs.size(), 5u);
  const std::vector<std::pair<uint64_t, Change>> expected = {{5, Change::kNew},
                                                             {2, Change::kGrown},
                                                             {3, Change::kShrunk},
                                                             {4, Change::kGone},
                                                             {1, Change::kSame}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(diffs[i].site, expected[i].first);
    EXPECT_EQ(diffs[i].change, expected[i].second);
  }
  EXPECT_EQ(diffs[0].Difference(), int64_t(9 * kMiB));
  EXPECT_EQ(diffs[2].Difference(), -int64_t(2 * kMiB));
}

TEST(Diff, DifferencesOfSitesAddUpToThatOfThePeak) {
  const Job before({{1, 5}, {1, 1}, {3, 7}}), after({{1, 4}, {2, 4}, {3, 5}, {5, 9}});
  int64_t sum = 0;
  for (const SiteDiff& diff : CompareSites(before.composition, after.composition))
    sum += diff.Difference();
  EXPECT_EQ(sum, (22 - 13) * int64_t(kMiB));
}

TEST(Diff, ARecordingDoesNotDifferFromItself) {
  const Job job({{1, 5}, {2, 1}});
  const std::string table = DiffTable(job.AsSide("a.ebp"), job.AsSide("a.ebp"));
  EXPECT_NE(table.find("2 of 2 sites are the same\n"), std::string::npos) << table;
  EXPECT_EQ(table.find("grown"), std::string::npos) << table;
}

TEST(Diff, TheTableShowsBothAndTheDifference) {
  const Job before({{1, 5}}, Kind::kGradient), after({{1, 2}}, Kind::kGradient);
  const std::string table = DiffTable(before.AsSide("a.ebp"), after.AsSide("b.ebp"));
  for (const char* part :
       {"Before     a.ebp", "After      b.ebp",
        "Peak                              5.00 MiB      2.00 MiB      -3.00 MiB\n",
        "gradient                          5.00 MiB      2.00 MiB      -3.00 MiB\n", "site 0x1  ",
        "shrunk gradient\n"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
}

TEST(Diff, AsManySitesAreListedAsAskedFor) {
  const Job before({}), after({{1, 5}, {2, 4}, {3, 3}});
  const std::string table = DiffTable(before.AsSide("a"), after.AsSide("b"), 1);
  EXPECT_NE(table.find("site 0x1 "), std::string::npos) << table;
  EXPECT_EQ(table.find("site 0x2 "), std::string::npos) << table;
  EXPECT_NE(table.find("... and 2 more that differ"), std::string::npos) << table;
}

TEST(Diff, TheTableFitsATerminal) {
  const Job before({{1, 1023}, {2, 1000}}, Kind::kOptimizerState), after({{2, 999}, {3, 1}});
  std::istringstream table(DiffTable(before.AsSide(std::string(120, 'a')), after.AsSide("b")));
  for (std::string line; std::getline(table, line);) EXPECT_LE(line.size(), 100u) << line;
}

// Steps of five launches, a millisecond each; backward ends behind launch `end`.
Job Rank(uint64_t end) {
  Job job({});
  job.Launch(9, {});
  job.Mark();
  for (int step = 0; step < 3; ++step) {
    job.Step();
    job.Mark();
    const uint32_t block = job.Alloc(kMiB, 1);
    for (uint64_t i = 0; i < 5; ++i) {
      job.Launch(uint32_t(i), {});
      job.Mark();
      if (i == end) job.Free(block);
    }
  }
  job.Step();
  const std::vector<Kind> kinds(job.profile.blocks.size(), Kind::kActivation);
  job.composition = *Compose(job.profile, FindSteps(job.profile), kinds);
  return job;
}

TEST(Diff, TheSkewOfTwoRanksIsHowMuchLaterBackwardEnds) {
  const Job first = Rank(2), second = Rank(3);
  const json it = json::parse(DiffJson(first.AsSide("0.ebp"), second.AsSide("1.ebp")));
  EXPECT_EQ(it["backward_end_ms"]["before"], 3);
  EXPECT_EQ(it["backward_end_ms"]["after"], 4);
  EXPECT_EQ(it["backward_end_skew_ms"], 1);
  EXPECT_EQ(it["step_ms"]["after"], 5);
  EXPECT_EQ(it["steps"]["before"], 3);
}

TEST(Diff, JsonHoldsBothSides) {
  const Job before({{1, 5}, {1, 1}}, Kind::kGradient), after({{2, 2}}, Kind::kInput);
  const json it = json::parse(DiffJson(before.AsSide("a.ebp"), after.AsSide("b.ebp")));
  EXPECT_EQ(it["before"], "a.ebp");
  EXPECT_EQ(it["peak_bytes"]["before"], 6 * kMiB);
  EXPECT_EQ(it["peak_bytes"]["after"], 2 * kMiB);
  EXPECT_EQ(it["kinds"]["gradient"]["before"], 6 * kMiB);
  EXPECT_EQ(it["kinds"]["input"]["after"], 2 * kMiB);
  EXPECT_TRUE(it["backward_end_skew_ms"].is_null());
  EXPECT_EQ(it["sites"][0]["change"], "gone");
  EXPECT_EQ(it["sites"][0]["blocks"]["before"], 2);
  EXPECT_EQ(it["sites"][0]["difference_bytes"], -6 * int64_t(kMiB));
  EXPECT_EQ(it["sites"][1]["change"], "new");
}

}  // namespace
}  // namespace ebt::report
