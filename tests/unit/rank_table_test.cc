#include "src/report/rank_table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace ebt::report {
namespace {

using plan::Amount;
using plan::RankComparison;
using plan::RankSurvey;

constexpr uint64_t kMiB = uint64_t{1} << 20;

plan::Rank RankOf(const std::string& source, uint64_t number) {
  return {.source = source,
          .number = number,
          .figures = {.program = "train.py[1]",
                      .steps = 16,
                      .launches = 825,
                      .native_peak_bytes = 64 * kMiB,
                      .total_bytes = 1024 * kMiB,
                      .step = {10, 40 * kMiB},
                      .persistent = {4, 8 * kMiB}}};
}

RankSurvey SurveyOf(RankComparison other) {
  RankSurvey survey;
  survey.planned = RankOf("job.0.ebp", 0);
  survey.others.push_back(std::move(other));
  return survey;
}

TEST(RankTableTest, RankThatIsAlikeIsOneLine) {
  EXPECT_EQ(RankTable(SurveyOf({.rank = RankOf("job.1.ebp", 1)})),
            "\n"
            "The plan is that of job.0.ebp (rank 0)\n"
            "job.1.ebp (rank 1): alike\n");
}

TEST(RankTableTest, EachDifferenceIsALine) {
  RankComparison other{.rank = RankOf("job.1.ebp", 1), .alike = false};
  other.rank.truncated = true;
  other.rank.figures = {.program = "eval.py[2]",
                        .steps = 17,
                        .launches = 826,
                        .native_peak_bytes = 96 * kMiB,
                        .total_bytes = 2048 * kMiB,
                        .step = {11, 43 * kMiB},
                        .persistent = {4, 8 * kMiB}};
  other.step = {{1, 3 * kMiB}, {{7, "train.py:3 loss", {1, 3 * kMiB}}}};
  EXPECT_EQ(RankTable(SurveyOf(other)),
            "\n"
            "The plan is that of job.0.ebp (rank 0)\n"
            "job.1.ebp (rank 1, ends early):\n"
            "  program               eval.py[2]; the planned one: train.py[1]\n"
            "  whole steps           17; the planned one: 16\n"
            "  launches a step       826; the planned one: 825\n"
            "  native peak           96.00 MiB; the planned one: 64.00 MiB\n"
            "  device memory         2.00 GiB; the planned one: 1.00 GiB\n"
            "  a step                43.00 MiB in 11 blocks; the planned one: 40.00 MiB in 10 "
            "blocks\n"
            "    not in the plan     3.00 MiB in 1 block\n"
            "        3.00 MiB     1 x  train.py:3 loss\n");
}

TEST(RankTableTest, WhatOnlyThePlannedRankMakesIsSaidToo) {
  RankComparison other{.rank = RankOf("job.1.ebp", 1), .alike = false};
  other.persistent_missing = {{2, 5 * kMiB}, {{8, "linear.py:12 __init__", {2, 5 * kMiB}}}};
  const std::string table = RankTable(SurveyOf(other));
  EXPECT_NE(table.find("kept over steps"), std::string::npos) << table;
  EXPECT_NE(table.find("in the plan alone   5.00 MiB in 2 blocks\n"
                       "        5.00 MiB     2 x  linear.py:12 __init__\n"),
            std::string::npos)
      << table;
  EXPECT_EQ(table.find("a step"), std::string::npos) << table;
}

TEST(RankTableTest, SizesThatReadTheSameAreToldInBytes) {
  RankComparison other{.rank = RankOf("job.1.ebp", 1), .alike = false};
  other.rank.figures.native_peak_bytes += 512;
  other.rank.figures.total_bytes = 0;
  const std::string table = RankTable(SurveyOf(other));
  EXPECT_NE(table.find("67109376 B; the planned one: 67108864 B"), std::string::npos) << table;
  EXPECT_NE(table.find("unknown; the planned one: 1.00 GiB"), std::string::npos) << table;
}

TEST(RankTableTest, FitsAHundredColumnsAndCountsTheSitesBeyondTheTop) {
  RankComparison other{.rank = RankOf(std::string(300, 'r'), 123456), .alike = false};
  other.rank.truncated = true;
  other.rank.figures.program = std::string(300, 'p');
  other.step.amount = {700000, 500000 * kMiB};
  other.rank.figures.step = {1234567, 900000 * kMiB};
  for (int i = 0; i < 7; ++i) {
    other.step.sites.push_back({1, std::string(300, 's'), {100000, 70000 * kMiB}});
  }
  RankSurvey survey = SurveyOf(other);
  survey.planned.figures.step = {1234566, 900000 * kMiB};
  const std::string table = RankTable(survey, 4);
  EXPECT_NE(table.find("... and 3 sites more"), std::string::npos) << table;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(RankTableTest, WhatWasLeftOutIsCounted) {
  RankSurvey survey = SurveyOf({.rank = RankOf("job.1.ebp", 1)});
  survey.unread.push_back({"job.2.ebp", "job.2.ebp: damaged"});
  EXPECT_NE(RankTable(survey).find("Not compared: 1\n"), std::string::npos);
}

}  // namespace
}  // namespace ebt::report
