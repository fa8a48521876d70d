#include "src/plan/uneven_timeline.h"

#include <gtest/gtest.h>

#include <optional>

#include "src/plan/planner.h"
#include "src/plan/rehearsal.h"
#include "src/plan/validator.h"
#include "tests/unit/training_profile.h"

namespace ebt::plan {
namespace {

using profile::ProfileBuilder;

constexpr uint64_t kWeight = 4096, kFixed = 1024, kShared = 8192, kRare = 512;
constexpr uint64_t kSplits[] = {4096, 1024, 6144, 2048, 7168, 4096};
constexpr size_t kRareStep = 2;

// Launches have the shape that goes with the sizes. A weight; then in each step a block of fixed
// size, two that share kShared bytes between them, a launch, in one step a rare block, and a
// launch.
struct Splits : ProfileBuilder {
  explicit Splits(std::initializer_list<uint64_t> firsts = {4096, 1024, 6144, 2048, 7168, 4096}) {
    weight = Alloc(kWeight, 9);
    Launch(9, {weight});
    size_t step = 0;
    for (uint64_t first : firsts) Add(first, step++ == kRareStep);
  }
  void Add(uint64_t first, bool rare) {
    Step();
    const uint32_t fixed = Alloc(kFixed, 1), a = Alloc(first, 2), b = Alloc(kShared - first, 3);
    Launch(1, {weight, fixed, a, b}, first);
    Free(a);
    Free(b);
    std::optional<uint32_t> extra;
    if (rare) extra = Alloc(kRare, 4);
    Launch(2, {weight, fixed});
    if (extra) Free(*extra);
    Free(fixed);
  }
  uint32_t weight = 0;
};

TEST(UnevenTimelineTest, AStepIsTheEnvelopeOfAll) {
  const Splits splits;
  const auto timeline = BuildTimeline(splits.profile);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_TRUE(timeline->uneven);
  EXPECT_EQ(timeline->step_launches, 2u);
  EXPECT_EQ(timeline->steps.steps, std::size(kSplits));
  EXPECT_EQ(timeline->representative, kRareStep);  // which has most bytes
  ASSERT_EQ(timeline->lives.size(), 1 + 4u);
  EXPECT_EQ(timeline->lives[0].span, Span::kPersistent);

  // mark, fixed, a, b, launch, two frees, rare, launch, two frees: 11 events of the model.
  const uint64_t begin = timeline->prologue_end;
  EXPECT_EQ(timeline->end, begin + 11);
  const Lived &fixed = timeline->lives[1], &a = timeline->lives[2], &b = timeline->lives[3],
              &rare = timeline->lives[4];
  EXPECT_EQ(fixed.live[0].begin, begin + 1);
  EXPECT_EQ(fixed.live[0].end, begin + 11);
  EXPECT_FALSE(fixed.variable);
  // What matters of an end is which allocation comes behind it: the rare one.
  EXPECT_EQ(a.live[0].begin, begin + 2);
  EXPECT_EQ(a.live[0].end, begin + 7);
  EXPECT_EQ(b.live[0].end, begin + 7);
  EXPECT_EQ(a.place_bytes, 7168u);
  EXPECT_EQ(b.place_bytes, 7168u);  // 8192 - 1024
  EXPECT_EQ(rare.place_bytes, kRare);
  EXPECT_TRUE(rare.variable);  // most steps have none

  ASSERT_NE(a.room, kNoRoom);
  EXPECT_EQ(a.room, b.room);
  EXPECT_EQ(timeline->rooms[a.room].bytes, kShared);
  EXPECT_EQ(timeline->recorded_live, kWeight + kFixed + kShared);
  EXPECT_EQ(timeline->recorded_planned_live, timeline->recorded_live);
}

TEST(UnevenTimelineTest, WhatTheModelLacksComesBetweenItsAllocations) {
  // The step with most bytes has no rare block.
  ProfileBuilder builder;
  builder.Launch(9, {});
  for (int step = 0; step < 5; ++step) {
    builder.Step();
    const uint32_t a = builder.Alloc(step == 1 ? 8192 : 1024 + 512 * uint64_t(step), 1);
    builder.Launch(1, {a}, uint64_t(step));
    std::optional<uint32_t> rare;
    if (step == 3) rare = builder.Alloc(512, 2);
    builder.Launch(2, {a});
    const uint32_t last = builder.Alloc(2048, 3);
    builder.Launch(3, {last});
    if (rare) builder.Free(*rare);
    builder.Free(last);
    builder.Free(a);
  }
  const auto timeline = BuildTimeline(builder.profile);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  ASSERT_EQ(timeline->representative, 1u);
  ASSERT_EQ(timeline->lives.size(), 3u);
  const uint64_t begin = timeline->prologue_end;
  // mark, a, launch, launch, [rare], last, launch, free, free
  EXPECT_EQ(timeline->lives[1].live[0].begin, begin + 4);
  EXPECT_EQ(timeline->lives[1].live[0].end, timeline->end);
  EXPECT_EQ(timeline->lives[2].live[0].begin, begin + 5);
  EXPECT_EQ(timeline->end, begin + 9);
  EXPECT_EQ(timeline->lives[1].launch, 2u);
  EXPECT_TRUE(timeline->lives[1].touches.empty());
}

TEST(UnevenTimelineTest, AStepThatIsEqualLaunchByLaunchIsNone) {
  // Equal steps, each of three launches, behind a long set-up of others.
  ProfileBuilder builder;
  for (uint32_t i = 0; i < 200; ++i) builder.Launch(100 + i, {});
  for (int step = 0; step < 6; ++step) {
    builder.Step();
    const uint32_t block = builder.Alloc(4096, 1);
    for (uint32_t function : {1, 2, 3}) builder.Launch(function, {block});
    builder.Free(block);
  }
  const auto timeline = BuildTimeline(builder.profile);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_FALSE(timeline->uneven);
  EXPECT_EQ(timeline->step_launches, 3u);
}

TEST(UnevenTimelineTest, WhatAStepHandsToTheNextHasOnePlace) {
  ProfileBuilder builder;
  builder.Launch(9, {});
  std::optional<uint32_t> handed;
  for (int step = 0; step < 6; ++step) {
    builder.Step();
    if (handed) builder.Free(*handed);
    const uint32_t a = builder.Alloc(1024 * uint64_t(1 + step % 3), 1);
    builder.Launch(1, {a}, uint64_t(step));
    builder.Free(a);
    handed = builder.Alloc(4096, 2);
    builder.Launch(2, {*handed});
  }
  const auto timeline = BuildTimeline(builder.profile);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  ASSERT_TRUE(timeline->uneven);
  const Lived& cyclic = timeline->lives.back();
  ASSERT_EQ(cyclic.span, Span::kCyclic);
  EXPECT_EQ(cyclic.live[0].end, timeline->end);
  EXPECT_EQ(cyclic.live[1].begin, timeline->prologue_end);
  EXPECT_EQ(cyclic.live[1].end, timeline->lives[timeline->lives.size() - 2].live[0].begin);
}

TEST(UnevenPlanTest, PlanHoldsItsRecordingWithoutADynamicPart) {
  const Splits splits;
  const auto result = MakePlan(splits.profile, {});
  ASSERT_TRUE(result.ok()) << result.status();
  const Plan& plan = result->plan;
  EXPECT_TRUE(plan.uneven);
  EXPECT_TRUE(plan.slabs.empty());
  EXPECT_EQ(plan.max_live_bytes, kWeight + kFixed + kShared);
  EXPECT_EQ(plan.dynamic_bytes, 0u);
  EXPECT_EQ(plan.planned_peak_bytes, plan.warm_bytes);
  EXPECT_TRUE(ValidatePlan(splits.profile, plan).ok()) << ValidatePlan(splits.profile, plan);
  const Rehearsal rehearsal = Rehearse(splits.profile, plan);
  EXPECT_EQ(rehearsal.unknown, 0u);
  EXPECT_EQ(rehearsal.displaced, 0u);
}

TEST(UnevenPlanTest, AStepThatIsLargerThanAnyRecordedTakesWhatIsMissingAndNoMore) {
  const Splits recorded;
  const auto result = MakePlan(recorded.profile, {});
  ASSERT_TRUE(result.ok());
  Splits run;
  // Four blocks as large as the whole warm region cannot all lie in it.
  run.Step();
  std::vector<uint32_t> blocks;
  for (uint64_t i = 0; i < 4; ++i) blocks.push_back(run.Alloc(result->plan.warm_bytes, 2));
  run.Launch(1, blocks);
  for (uint32_t block : blocks) run.Free(block);
  const Rehearsal rehearsal = Rehearse(run.profile, result->plan);
  // The weight has its place; the last of the four begins behind three others.
  EXPECT_LE(rehearsal.dynamic_bytes, 4 * result->plan.warm_bytes);
  EXPECT_GE(rehearsal.dynamic_bytes, 3 * result->plan.warm_bytes + kWeight);
}

TEST(UnevenPlanTest, NothingMovesAndABudgetIsMetInPlace) {
  ProfileBuilder builder;
  const uint64_t kMega = uint64_t{1} << 20;
  const uint32_t state = builder.Alloc(64 * kMega, 5);
  builder.Launch(9, {state});
  for (int step = 0; step < 6; ++step) {
    builder.Step();
    const uint32_t a = builder.Alloc(kMega * uint64_t(4 + step % 3), 1);
    builder.Launch(1, {a}, uint64_t(step));
    builder.Free(a);
    builder.Launch(2, {state});
  }
  const auto free = MakePlan(builder.profile, {});
  ASSERT_TRUE(free.ok());
  EXPECT_EQ(free->plan.cold_bytes, 0u) << "without a budget everything stays";
  const auto tight = MakePlan(builder.profile, {.budget = 16 * kMega});
  ASSERT_TRUE(tight.ok());
  EXPECT_TRUE(tight->summary.feasible) << tight->summary.infeasible_reason;
  EXPECT_EQ(tight->plan.cold_bytes, 64 * kMega);
  EXPECT_TRUE(tight->plan.slabs.empty());
  EXPECT_EQ(tight->plan.prologue[0].use, ColdUse::kInPlace);
  EXPECT_EQ(tight->plan.prologue[0].fetch_launch, -1);
  EXPECT_TRUE(ValidatePlan(builder.profile, tight->plan).ok())
      << ValidatePlan(builder.profile, tight->plan);
}

TEST(UnevenPlanTest, APlanThatHasNoRoomForWhatWasLiveIsRefused) {
  const Splits recorded;
  const auto result = MakePlan(recorded.profile, {});
  ASSERT_TRUE(result.ok());
  Splits other;
  other.Step();
  const uint32_t large = other.Alloc(2 * result->plan.warm_bytes, 2);
  other.Launch(1, {large});
  other.Free(large);
  const absl::Status status = ValidatePlan(other.profile, result->plan);
  EXPECT_NE(status.message().find("dynamic"), std::string::npos) << status;
}

}  // namespace
}  // namespace ebt::plan
