#include "src/plan/ranks.h"

#include <gtest/gtest.h>

#include "tests/unit/training_profile.h"

namespace ebt::plan {
namespace {

using profile::ProfileBuilder;
using profile::Training;
using profile::TrainingShape;

constexpr uint64_t kMiB = uint64_t{1} << 20;

RankRecording Recording(const profile::Profile& profile, const std::string& source = "job.ebp") {
  auto recording = SummarizeRank(profile, source);
  EXPECT_TRUE(recording.ok()) << recording.status();
  return recording.ok() ? *std::move(recording) : RankRecording{};
}

RankRecording Recording(const TrainingShape& shape) { return Recording(Training(shape).profile); }

RankComparison Compared(const TrainingShape& planned, const TrainingShape& other) {
  return CompareRanks(Recording(planned), Recording(other));
}

RankRecording OfRank(std::optional<uint64_t> number, const std::string& source) {
  Training training({});
  if (number) training.profile.metadata["rank"] = std::to_string(*number);
  return Recording(training.profile, source);
}

uint64_t MismatchedBlocks(const RankComparison& comparison) {
  return comparison.step.amount.blocks + comparison.step_missing.amount.blocks +
         comparison.persistent.amount.blocks + comparison.persistent_missing.amount.blocks;
}

TEST(RanksTest, FiguresAreThoseOnPaper) {
  Training training({.layers = 4, .steps = 5});
  training.profile.metadata["total_bytes"] = "1000";
  training.profile.metadata["device_used_peak_bytes"] = "900";
  training.profile.metadata["device_used_base_bytes"] = "200";
  training.profile.metadata["rank"] = "3";
  training.profile.truncated = true;
  const Rank rank = Recording(training.profile, "job.3.ebp").rank;
  EXPECT_EQ(rank.source, "job.3.ebp");
  EXPECT_EQ(rank.number, 3u);
  EXPECT_TRUE(rank.truncated);
  EXPECT_EQ(rank.figures.program, "train.py");
  EXPECT_EQ(rank.figures.steps, 4u);
  EXPECT_EQ(rank.figures.launches, 14u);
  EXPECT_EQ(rank.figures.native_peak_bytes, 700u);
  EXPECT_EQ(rank.figures.total_bytes, 1000u);
  // A batch, an activation and half a MiB of scratch and a gradient a layer, the loss.
  EXPECT_EQ(rank.figures.step, (Amount{14, (2 + 4 * 2 + 4 * 1) * kMiB + 4 * kMiB / 2 + 512}));
  // A weight and two of state a layer.
  EXPECT_EQ(rank.figures.persistent, (Amount{12, 12 * kMiB}));
}

TEST(RanksTest, EqualRecordingsAreAlike) {
  const RankComparison comparison = Compared({}, {});
  EXPECT_TRUE(comparison.alike);
  EXPECT_EQ(MismatchedBlocks(comparison), 0u);
}

TEST(RanksTest, OtherSizesHaveNoMatchAndTheLargestSiteComesFirst) {
  const RankComparison comparison = Compared({.activation = 2 * kMiB}, {.activation = 3 * kMiB});
  EXPECT_FALSE(comparison.alike);
  EXPECT_EQ(comparison.step.amount, (Amount{5, 15 * kMiB}));
  EXPECT_EQ(comparison.step_missing.amount, (Amount{5, 10 * kMiB}));
  ASSERT_EQ(comparison.step.sites.size(), 2u);
  EXPECT_EQ(comparison.step.sites[0].id, profile::kActivationSite);
  EXPECT_EQ(comparison.step.sites[0].label, "nn/modules/gelu.py:34 forward");
  EXPECT_EQ(comparison.step.sites[0].amount, (Amount{4, 12 * kMiB}));
  EXPECT_EQ(comparison.step.sites[1].id, profile::kBatchSite);
  EXPECT_EQ(comparison.step.sites[1].label, "site 0x6");  // the recording does not know it
  EXPECT_EQ(comparison.step.sites[1].amount, (Amount{1, 3 * kMiB}));
  EXPECT_EQ(comparison.persistent.amount.blocks, 0u);
  EXPECT_EQ(comparison.persistent_missing.amount.blocks, 0u);
}

TEST(RanksTest, FurtherAllocationsOfASiteHaveNoMatchAndTheOthersDo) {
  const RankComparison comparison = Compared({.layers = 4}, {.layers = 5});
  // Of the fifth layer: scratch, activation and gradient; its weight and state.
  EXPECT_EQ(comparison.step.amount, (Amount{3, 3 * kMiB + kMiB / 2}));
  EXPECT_EQ(comparison.persistent.amount, (Amount{3, 3 * kMiB}));
  EXPECT_EQ(comparison.step_missing.amount.blocks, 0u);
  EXPECT_EQ(comparison.persistent_missing.amount.blocks, 0u);
  EXPECT_EQ(comparison.rank.figures.launches, 17u);
}

TEST(RanksTest, WhatThePlannedRankAloneMakesIsMissing) {
  const RankComparison comparison = Compared({.layers = 5}, {.layers = 4});
  EXPECT_FALSE(comparison.alike);
  EXPECT_EQ(comparison.step.amount.blocks, 0u);
  EXPECT_EQ(comparison.step_missing.amount, (Amount{3, 3 * kMiB + kMiB / 2}));
  EXPECT_EQ(comparison.persistent_missing.amount, (Amount{3, 3 * kMiB}));
}

TEST(RanksTest, NumberOfWarmUpStepsDoesNotShiftPersistentBlocks) {
  const RankComparison comparison = Compared({.steps = 5}, {.steps = 7});
  EXPECT_EQ(MismatchedBlocks(comparison), 0u);
  EXPECT_FALSE(comparison.alike) << "4 whole steps, and 6";
}

TEST(RanksTest, EachFigureOfTheProcessCounts) {
  const RankRecording planned = Recording(Training({}).profile);
  for (const char* key : {"program", "total_bytes", "device_used_peak_bytes"}) {
    Training training({});
    training.profile.metadata[key] = "1";
    const RankComparison comparison = CompareRanks(planned, Recording(training.profile));
    EXPECT_FALSE(comparison.alike) << key;
    EXPECT_EQ(MismatchedBlocks(comparison), 0u) << key;
  }
}

// A loop of four kernels that allocates at one site before the first and before the third. Its
// steps are marked before kernel `beginning`; `names` are numbered in the order of their sight.
RankRecording Loop(int beginning, const std::vector<std::string>& names) {
  const std::vector<std::string> kernels = {"embed", "forward", "backward", "update"};
  ProfileBuilder builder;
  for (uint32_t i = 0; i < names.size(); ++i) builder.profile.functions.push_back({i, names[i]});
  for (int step = 0; step < 5; ++step) {
    std::vector<uint32_t> blocks;
    for (int kernel = 0; kernel < 4; ++kernel) {
      if (kernel == beginning) builder.Step();
      if (kernel % 2 == 0) blocks.push_back(builder.Alloc(kernel == 0 ? kMiB : 2 * kMiB, 7));
      const auto name = std::find(names.begin(), names.end(), kernels[kernel]);
      builder.Launch(uint32_t(name - names.begin()), {blocks.back()});
    }
    for (uint32_t block : blocks) builder.Free(block);
  }
  return Recording(builder.profile);
}

TEST(RanksTest, StepsThatBeginElsewhereInTheLoopAreLaidOverEachOther) {
  const RankRecording planned = Loop(0, {"embed", "forward", "backward", "update"});
  const RankRecording other = Loop(2, {"update", "backward", "forward", "embed"});
  ASSERT_EQ(planned.step.front().bytes, kMiB);
  ASSERT_EQ(other.step.front().bytes, 2 * kMiB) << "from the third kernel on";
  const RankComparison comparison = CompareRanks(planned, other);
  EXPECT_EQ(comparison.step.amount, (Amount{0, 0}));
  EXPECT_EQ(comparison.step_missing.amount, (Amount{0, 0}));
}

TEST(RanksTest, StepsOfOtherKernelsAreComparedFromTheirBeginning) {
  const RankComparison comparison =
      CompareRanks(Loop(0, {"embed", "forward", "backward", "update"}),
                   Loop(2, {"embed", "forward", "backward"}));  // the fourth has no name
  EXPECT_EQ(comparison.step.amount, (Amount{2, 3 * kMiB}));
}

TEST(RanksTest, LowestRankIsPlannedAndTheOthersFollowByRank) {
  const RankSurvey survey = SurveyRanks(
      {OfRank(10, "job.10.ebp"), OfRank(std::nullopt, "old.ebp"), OfRank(2, "job.2.ebp")});
  EXPECT_EQ(survey.planned.source, "job.2.ebp");
  ASSERT_EQ(survey.others.size(), 2u);
  EXPECT_EQ(survey.others[0].rank.source, "job.10.ebp");
  EXPECT_EQ(survey.others[1].rank.source, "old.ebp");
}

TEST(RanksTest, OfEqualRanksTheFirstOneGivenIsPlanned) {
  for (std::optional<uint64_t> rank : {std::optional<uint64_t>(), std::optional<uint64_t>(0)}) {
    const RankSurvey survey =
        SurveyRanks({OfRank(rank, "b"), OfRank(rank, "a"), OfRank(rank, "c")});
    EXPECT_EQ(survey.planned.source, "b");
    ASSERT_EQ(survey.others.size(), 2u);
    EXPECT_EQ(survey.others[0].rank.source, "a");
    EXPECT_EQ(survey.others[1].rank.source, "c");
  }
}

TEST(RanksTest, RecordingWithoutAStepIsAnError) {
  ProfileBuilder builder;
  builder.Alloc(kMiB, 1);
  builder.Launch(1, {0});
  EXPECT_FALSE(SummarizeRank(builder.profile, "job.ebp").ok());
}

}  // namespace
}  // namespace ebt::plan
