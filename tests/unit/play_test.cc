#include "src/simulate/play.h"

#include <gtest/gtest.h>

#include "src/plan/matcher.h"
#include "src/plan/planner.h"
#include "tests/unit/training_profile.h"

namespace ebt::simulate {
namespace {

using plan::Plan;
using plan::Slot;
using plan::Tier;
using profile::AllocKind;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A plan of blocks by site: slot i has site i + 1.
Plan PlanOf(uint64_t warm_bytes, const std::vector<Slot>& slots, uint64_t cold_bytes = 0) {
  Plan plan;
  plan.warm_bytes = warm_bytes;
  plan.cold_bytes = cold_bytes;
  plan.prologue = slots;
  for (size_t i = 0; i < slots.size(); ++i) plan.prologue[i].site = i + 1;
  return plan;
}

PlayedPlan Played(const profile::ProfileBuilder& program, const Plan& plan,
                  const PlayOptions& options = {}) {
  const SlotFinder by_site = [&plan](const profile::Block& block) {
    return block.site >= 1 && block.site <= plan.prologue.size() ? &plan.prologue[block.site - 1]
                                                                 : nullptr;
  };
  return PlayPlan(program.profile, plan, by_site, options);
}

PlayedPlan PlayedAsRun(const profile::Profile& profile, const Plan& plan,
                       const PlayOptions& options = {}) {
  uint64_t site = 0;
  plan::Matcher matcher(plan, [&site] { return site; });
  const SlotFinder find = [&](const profile::Block& block) {
    site = block.site;
    return matcher.Next(block.bytes, block.fingerprint);
  };
  return PlayPlan(profile, plan, find, options);
}

TEST(PlayTest, APlannedPartHasMemoryByTheChunkThatIsUsedAndTheLastOneIsShorter) {
  const Plan plan = PlanOf(
      98 * kMiB, {{.bytes = kMiB, .offset = 40 * kMiB}, {.bytes = kMiB, .offset = 97 * kMiB}});
  profile::ProfileBuilder program;
  program.Free(program.Alloc(kMiB, 1));
  EXPECT_EQ(Played(program, plan).planned_bytes, 32 * kMiB);
  program.Alloc(kMiB, 2);
  const PlayedPlan played = Played(program, plan);
  EXPECT_EQ(played.planned_bytes, 34 * kMiB);  // 32 .. 64, and 96 .. 98
  EXPECT_EQ(played.peak_bytes, 34 * kMiB);
  EXPECT_EQ(played.dynamic_bytes, 0u);
  EXPECT_EQ(played.planned, 2u);
  EXPECT_EQ(played.live_bytes, kMiB);
}

TEST(PlayTest, WhatThePlanDoesNotKnowTakesTheSmallestFreeRangeOfTheDynamicPart) {
  profile::ProfileBuilder program;
  const uint32_t large = program.Alloc(20 * kMiB, 9);
  program.Alloc(kMiB, 9);
  const uint32_t small = program.Alloc(10 * kMiB, 9);
  program.Alloc(kMiB, 9);
  program.Free(large);
  program.Free(small);
  program.Alloc(10 * kMiB, 9);
  program.Alloc(20 * kMiB, 9);
  const PlayedPlan played = Played(program, PlanOf(0, {}));
  EXPECT_EQ(played.dynamic_bytes, 32 * kMiB);
  EXPECT_EQ(played.dynamic_live_bytes, 32 * kMiB);
  EXPECT_EQ(played.unknown, 6u);
}

TEST(PlayTest, AKnownBlockWhosePlaceIsInUseGoesToTheDynamicPart) {
  const Plan plan = PlanOf(2 * kMiB, {{.bytes = kMiB, .offset = 0}});
  profile::ProfileBuilder program;
  program.Alloc(kMiB, 1);
  program.Alloc(kMiB, 1);
  const PlayedPlan played = Played(program, plan);
  EXPECT_EQ(played.planned, 1u);
  EXPECT_EQ(played.occupied, 1u);
  EXPECT_EQ(played.peak_bytes, 34 * kMiB);
}

TEST(PlayTest, LinearMemoryWithoutAPlaceAndWhatThePlanLeavesNativeIsTheDrivers) {
  const Plan plan =
      PlanOf(2 * kMiB, {{.bytes = kMiB, .offset = 0}, {.bytes = 700, .tier = Tier::kNative}});
  profile::ProfileBuilder program;
  program.Alloc(kMiB, 1, AllocKind::kLinear);  // has a place
  program.Alloc(1, 9, AllocKind::kLinear);
  program.Free(program.Alloc(700, 2));
  program.Alloc(5 * kMiB, 9, AllocKind::kManaged);  // no device memory
  program.Alloc(0, 9);
  const PlayedPlan played = Played(program, plan);
  EXPECT_EQ(played.planned, 1u);
  EXPECT_EQ(played.native, 2u);
  EXPECT_EQ(played.unknown, 1u);
  EXPECT_EQ(played.peak_bytes, 2 * kMiB + 512 + 1024);
}

TEST(PlayTest, ColdBlocksAreOnTheHostUnlessTheyStay) {
  const Plan plan = PlanOf(
      2 * kMiB, {{.bytes = kMiB, .tier = Tier::kCold, .offset = 2 * kMiB + 33 * kMiB}}, 40 * kMiB);
  profile::ProfileBuilder program;
  program.Alloc(kMiB, 1);
  EXPECT_EQ(Played(program, plan).peak_bytes, 0u);
  EXPECT_EQ(Played(program, plan).live_bytes, 0u);
  EXPECT_EQ(Played(program, plan).planned, 1u);
  // 32 .. 40 of the cold part.
  EXPECT_EQ(Played(program, plan, {.cold_on_device = true}).peak_bytes, 8 * kMiB);
}

TEST(PlayTest, ABlockOfAnySizeTakesTheLowestPlaceInItsRoom) {
  const Plan plan =
      PlanOf(64 * kMiB, {{.bytes = 8 * kMiB, .offset = 40 * kMiB, .room_bytes = 8 * kMiB}});
  profile::ProfileBuilder program;
  program.Alloc(5 * kMiB, 1);
  program.Alloc(3 * kMiB, 1);
  const PlayedPlan both = Played(program, plan);
  EXPECT_EQ(both.planned, 2u);
  EXPECT_EQ(both.peak_bytes, 32 * kMiB);
  program.Alloc(512, 1);  // the room is full
  const PlayedPlan three = Played(program, plan);
  EXPECT_EQ(three.planned, 2u);
  EXPECT_EQ(three.occupied, 1u);
  EXPECT_EQ(three.dynamic_bytes, 32 * kMiB);
}

TEST(PlayTest, WhereStepsDifferWhatHasNoPlaceBeginsInTheWarmRegionAndGrowsBehindIt) {
  Plan plan = PlanOf(40 * kMiB, {{.bytes = 10 * kMiB, .offset = 0}});
  plan.uneven = true;
  profile::ProfileBuilder program;
  program.Alloc(10 * kMiB, 1);
  program.Alloc(20 * kMiB, 9);  // 10 .. 30
  const PlayedPlan inside = Played(program, plan);
  EXPECT_EQ(inside.peak_bytes, 32 * kMiB);
  EXPECT_EQ(inside.dynamic_bytes, 0u);
  EXPECT_EQ(inside.dynamic_live_bytes, 20 * kMiB);
  program.Alloc(40 * kMiB, 9);  // 30 .. 70, in chunks of 8: five of the region, four behind it
  const PlayedPlan grown = Played(program, plan);
  EXPECT_EQ(grown.planned_bytes, 40 * kMiB);
  EXPECT_EQ(grown.dynamic_bytes, 32 * kMiB);
}

TEST(PlayTest, SlabsHaveTheMemoryOfTheirStays) {
  Plan plan = PlanOf(16 * kMiB, {}, 4 * kMiB);
  plan.slab_bytes = 4 * kMiB;
  plan.slabs = {{.stay_offset = 8 * kMiB}};
  EXPECT_EQ(Played({}, plan).planned_bytes, 4 * kMiB);
  EXPECT_EQ(Played({}, plan, {.cold_on_device = true}).planned_bytes, 0u);
}

TEST(PlayTest, FiguresBeginWhereTheyAreAskedToButMemoryKeepsItsPast) {
  profile::ProfileBuilder program;
  program.Free(program.Alloc(33 * kMiB, 9));
  const uint64_t from = program.profile.events.size();
  program.Alloc(kMiB, 9);
  const PlayedPlan played = Played(program, PlanOf(0, {}), {.from_event = from});
  EXPECT_EQ(played.unknown, 1u);
  EXPECT_EQ(played.dynamic_live_bytes, kMiB);
  EXPECT_EQ(played.peak_bytes, 64 * kMiB);
}

TEST(PlayTest, ARunOfTheRecordedJobFindsEveryPlace) {
  profile::Training training({.layers = 4, .steps = 6});
  const auto result = plan::MakePlan(training.profile, {});
  ASSERT_TRUE(result.ok()) << result.status();
  const PlayedPlan played = PlayedAsRun(training.profile, result->plan);
  EXPECT_EQ(played.planned, training.profile.blocks.size());
  EXPECT_EQ(played.occupied + played.unknown + played.native, 0u);
  EXPECT_EQ(played.peak_bytes, result->plan.warm_bytes);
}

TEST(PlayTest, APlanOfTheFirstStepsServesTheOthers) {
  profile::Training training({.layers = 4, .steps = 8});
  const uint64_t steps = CountSteps(training.profile);
  ASSERT_EQ(steps, 8u);
  const profile::Profile half = FirstSteps(training.profile, steps / 2);
  EXPECT_EQ(CountSteps(half), 4u);
  const auto result = plan::MakePlan(half, {});
  ASSERT_TRUE(result.ok()) << result.status();
  const PlayedPlan played = PlayedAsRun(training.profile, result->plan,
                                        {.from_event = StepBegin(training.profile, steps / 2)});
  EXPECT_GT(played.planned, 0u);
  EXPECT_EQ(played.occupied + played.unknown + played.native, 0u);
}

TEST(PlayTest, ACutRecordingEndsWithItsStepAndKeepsWhatLivesOn) {
  profile::Training training({.layers = 2, .steps = 4});
  const uint64_t end = StepBegin(training.profile, 2);
  const profile::Profile cut = FirstSteps(training.profile, 2);
  EXPECT_EQ(cut.events.size(), end);
  for (const profile::Block& block : cut.blocks) {
    EXPECT_LT(block.alloc_at, end);
    EXPECT_TRUE(block.free_at < end || block.free_at == profile::kNever);
  }
  for (const profile::Event& event : cut.events) {
    for (uint32_t block : event.touched) EXPECT_LT(block, cut.blocks.size());
  }
  EXPECT_EQ(FirstSteps(training.profile, 4).events.size(), training.profile.events.size());
  EXPECT_EQ(StepBegin(training.profile, 4), training.profile.events.size());
}

}  // namespace
}  // namespace ebt::simulate
