#include "src/replay/points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace ebt::replay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

plan::Slot Prefetched(uint64_t offset, int64_t fetch, int64_t evict) {
  plan::Slot slot;
  slot.bytes = 512;
  slot.offset = offset;
  slot.tier = plan::Tier::kCold;
  slot.persistent = true;
  slot.use = plan::ColdUse::kPrefetch;
  slot.fetch_launch = fetch;
  slot.evict_launch = evict;
  return slot;
}

// "in 0" and "out 0" of a slab by its number, "fetch 512" and "back 512" of a block by its offset.
std::vector<std::string> Named(const std::vector<const Point*>& points) {
  std::vector<std::string> names;
  for (const Point* point : points) {
    const bool slab = point->kind == Point::Kind::kSwapIn || point->kind == Point::Kind::kSwapOut;
    const char* const word = point->kind == Point::Kind::kSwapIn     ? "in "
                             : point->kind == Point::Kind::kSwapOut  ? "out "
                             : point->kind == Point::Kind::kPrefetch ? "fetch "
                                                                     : "back ";
    names.push_back(word + std::to_string(slab ? point->slab : point->slot->offset));
  }
  return names;
}
std::vector<std::string> NextLaunch(Points& points) {
  std::vector<const Point*> due;
  points.Launched(&due);
  return Named(due);
}
std::vector<std::string> Restart(Points& points) {
  std::vector<const Point*> due;
  points.Restarted(&due);
  points.At(0);
  return Named(due);
}

TEST(PointsTest, APlanWithoutColdBlocksHasNone) {
  plan::Plan plan;
  plan.prologue.resize(1);
  Points points(plan);
  EXPECT_TRUE(points.empty());
  EXPECT_FALSE(points.HasPrefetches());
  EXPECT_THAT(NextLaunch(points), IsEmpty());
}

TEST(PointsTest, ASlabComesBeforeItsFirstLaunchAndLeavesBehindItsLast) {
  plan::Plan plan;
  plan.slabs = {{0, 1, 2, 4}};
  Points points(plan);
  EXPECT_FALSE(points.HasPrefetches());
  EXPECT_THAT(NextLaunch(points), IsEmpty());            // 0
  EXPECT_THAT(NextLaunch(points), ElementsAre("in 0"));  // 1
  EXPECT_THAT(NextLaunch(points), IsEmpty());            // 2
  EXPECT_THAT(NextLaunch(points), ElementsAre("out 0"));
  EXPECT_THAT(NextLaunch(points), IsEmpty());
}

TEST(PointsTest, AtOneLaunchCopiesOutComeBeforeCopiesIn) {
  plan::Plan plan;
  plan.slabs = {{0, 3, 4, 5}, {0, 1, 2, 3}, {0, 3, 4, 5}};
  Points points(plan);
  points.At(3);
  EXPECT_THAT(NextLaunch(points), ElementsAre("in 1", "out 1", "in 0", "in 2"));
}

TEST(PointsTest, BlocksAreFetchedAndSentBackByTheirOffsets) {
  plan::Plan plan;
  plan.prologue = {Prefetched(1024, 0, 1), Prefetched(512, 0, -1), Prefetched(0, -1, -1)};
  Points points(plan);
  EXPECT_TRUE(points.HasPrefetches());
  EXPECT_THAT(NextLaunch(points), ElementsAre("fetch 512", "fetch 1024"));
  EXPECT_THAT(NextLaunch(points), IsEmpty());
  EXPECT_THAT(NextLaunch(points), ElementsAre("back 1024"));
}

TEST(PointsTest, WhatIsNotColdPersistentAndFetchedHasNone) {
  plan::Plan plan;
  plan.prologue.resize(3, Prefetched(512, 0, 1));
  plan.prologue[0].persistent = false;
  plan.prologue[1].tier = plan::Tier::kWarm;
  plan.prologue[2].use = plan::ColdUse::kInPlace;
  EXPECT_TRUE(Points(plan).empty());
}

TEST(PointsTest, EachIsDueOnceAStep) {
  plan::Plan plan;
  plan.slabs = {{0, 0, 0, 2}};
  Points points(plan);
  for (int step = 0; step < 3; ++step) {
    EXPECT_THAT(NextLaunch(points), ElementsAre("in 0"));
    EXPECT_THAT(NextLaunch(points), ElementsAre("out 0"));
    points.At(0);  // an earlier launch of the same step
    EXPECT_THAT(NextLaunch(points), IsEmpty());
    EXPECT_THAT(Restart(points), IsEmpty());
  }
}

TEST(PointsTest, AStepCutShortLeavesItsCopiesOutBehind) {
  plan::Plan plan;
  plan.slabs = {{0, 0, 1, 3}, {1, 2, 3, 0}};
  Points points(plan);
  EXPECT_THAT(NextLaunch(points), ElementsAre("in 0"));
  // What was to come in is no use any more.
  EXPECT_THAT(Restart(points), ElementsAre("out 0", "out 1"));
  EXPECT_THAT(NextLaunch(points), ElementsAre("in 0"));
}

TEST(PointsTest, TheLastCopyOutOfAStepIsDueWhenTheNextBegins) {
  plan::Plan plan;
  plan.step_launches = 2;
  plan.slabs = {{0, 0, 1, 0}};
  Points points(plan);
  EXPECT_THAT(NextLaunch(points), ElementsAre("in 0"));
  EXPECT_THAT(NextLaunch(points), IsEmpty());
  EXPECT_THAT(Restart(points), ElementsAre("out 0"));
}

TEST(PointsTest, ASlabThatStaysOverTheStepsEndLeavesInTheNext) {
  plan::Plan plan;
  plan.slabs = {{0, 2, 0, 1}};  // in at launch 2, out behind launch 0 of the step that follows
  Points points(plan);
  EXPECT_THAT(NextLaunch(points), IsEmpty());
  EXPECT_THAT(NextLaunch(points), ElementsAre("out 0"));
  EXPECT_THAT(NextLaunch(points), ElementsAre("in 0"));
  EXPECT_THAT(Restart(points), IsEmpty());
  EXPECT_THAT(NextLaunch(points), IsEmpty());
  EXPECT_THAT(NextLaunch(points), ElementsAre("out 0"));
}

TEST(PointsTest, SkippedLaunchesSkipNoPoint) {
  plan::Plan plan;
  plan.slabs = {{0, 1, 2, 4}, {0, 5, 6, 8}};
  Points points(plan);
  points.At(6);
  EXPECT_THAT(NextLaunch(points), ElementsAre("in 0", "out 0", "in 1"));
  EXPECT_THAT(NextLaunch(points), ElementsAre("out 1"));
}

TEST(PointsTest, ThreadsShareThePointsOfAStep) {
  plan::Plan plan;
  for (uint32_t i = 0; i < 100; ++i) plan.slabs.push_back({0, 4 * i, 4 * i + 1, 4 * i + 3});
  Points points(plan);
  std::atomic<int> in[100] = {}, out[100] = {};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        std::vector<const Point*> due;
        points.Launched(&due);
        for (const Point* point : due)
          ++(point->kind == Point::Kind::kSwapIn ? in : out)[point->slab];
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(in[i] + 10 * out[i], 11) << i;
}

}  // namespace
}  // namespace ebt::replay
