#include "src/plan/slabs.h"

#include <gtest/gtest.h>

namespace ebt::plan {
namespace {

// A step of 20 launches, one a millisecond; slabs 0 to 3 are used by launches 14 to 17, one each.
// A copy takes 1.1 ms.
StayProblem FourSlabs(int64_t room = 4) {
  StayProblem problem{.in_ms = 1.1, .out_ms = 1.1};
  problem.clock.step_ms = 20;
  for (int i = 0; i < 20; ++i) problem.clock.launch_ms.push_back(i);
  problem.room.assign(20, room);
  problem.uses = {{14, 14}, {15, 15}, {16, 16}, {17, 17}};
  return problem;
}

void ExpectLaunches(const Slab& slab, uint32_t fetch, uint32_t evict, uint32_t gone) {
  EXPECT_EQ(slab.fetch_launch, fetch);
  EXPECT_EQ(slab.evict_launch, evict);
  EXPECT_EQ(slab.gone_launch, gone);
}

TEST(SlabsTest, WithRoomCopiesFollowOneAnotherAndNobodyWaits) {
  const StaySchedule schedule = ScheduleStays(FourSlabs());
  ASSERT_EQ(schedule.slabs.size(), 4u);
  // In, from the last: 17 - 1.1 = 15.9, then 14.8, 13.7, 12.6.
  // Out: 15 + 1.1 = 16.1, then 17.2, 18.3, 19.4; 19.4 is before the next step's launch 0.
  ExpectLaunches(schedule.slabs[0], 12, 14, 17);
  ExpectLaunches(schedule.slabs[1], 13, 15, 18);
  ExpectLaunches(schedule.slabs[2], 14, 16, 19);
  ExpectLaunches(schedule.slabs[3], 15, 17, 0);
  EXPECT_EQ(schedule.raised, 0);
  EXPECT_EQ(schedule.always, std::vector<bool>(4, false));
  EXPECT_DOUBLE_EQ(schedule.stall_ms, 0);
}

TEST(SlabsTest, RoomForOneMakesTheStepWaitForEveryCopy) {
  const StaySchedule schedule = ScheduleStays(FourSlabs(1));
  // Gone one launch behind the use; fetched at the use itself, but for the first, before which
  // there is room.
  ExpectLaunches(schedule.slabs[0], 12, 14, 15);
  ExpectLaunches(schedule.slabs[1], 15, 15, 16);
  ExpectLaunches(schedule.slabs[2], 16, 16, 17);
  ExpectLaunches(schedule.slabs[3], 17, 17, 0);
  EXPECT_EQ(schedule.raised, 0);
  // Launches 15, 16 and 17 wait for a copy out and one in. Slab 3 takes its time.
  EXPECT_NEAR(schedule.stall_ms, 3 * 2.2, 1e-9);
}

TEST(SlabsTest, FetchWaitsForTheRoomThatBackwardFrees) {
  StayProblem problem = FourSlabs();
  for (int i = 0; i < 14; ++i) problem.room[i] = i == 13 ? 1 : 0;
  const StaySchedule schedule = ScheduleStays(problem);
  ExpectLaunches(schedule.slabs[0], 13, 14, 17);
  ExpectLaunches(schedule.slabs[1], 14, 15, 18);  // its copy would begin at 13.7
  ExpectLaunches(schedule.slabs[3], 15, 17, 0);
  // In: 13 to 14.1, then to 15.2, 16.3 and 17.4, where launch 17 was due at 17.
  EXPECT_NEAR(schedule.stall_ms, 0.4, 1e-9);
}

TEST(SlabsTest, PlaceIsGoneWhenForwardNeedsItAndTheStepWaitsForTheCopy) {
  StayProblem problem = FourSlabs();
  problem.uses = {{18, 18}, {19, 19}};
  for (int i = 0; i < 14; ++i) problem.room[i] = 0;
  const StaySchedule schedule = ScheduleStays(problem);
  // Out: 19 + 1.1 = 20.1, at launch 1 of the next step; then 21.2, launch 2. No room from 0 on.
  ExpectLaunches(schedule.slabs[0], 16, 18, 0);
  ExpectLaunches(schedule.slabs[1], 17, 19, 0);
  EXPECT_NEAR(schedule.stall_ms, 1.2, 1e-9);  // launch 0 begins at 21.2 instead of 20
}

TEST(SlabsTest, UsesThatFindNoRoomRaiseTheLimitByWhatIsMissing) {
  StayProblem problem = FourSlabs(1);
  problem.uses = {{14, 15}, {14, 16}, {15, 15}};
  problem.room[15] = -1;
  const StaySchedule schedule = ScheduleStays(problem);
  EXPECT_EQ(schedule.raised, 4);  // three in use at launch 15
  EXPECT_EQ(schedule.crowded, 15u);
}

TEST(SlabsTest, RoomThatIsMissingWhereNoSlabIsUsedRaisesNothing) {
  StayProblem problem = FourSlabs();
  problem.room[3] = -2;
  EXPECT_EQ(ScheduleStays(problem).raised, 0);
}

TEST(SlabsTest, SlabWithRoomAllTheTimeAndNoTimeToMoveIsAlwaysThere) {
  StayProblem problem = FourSlabs();
  problem.in_ms = problem.out_ms = 12;  // there and back takes more than the step
  problem.uses = {{14, 14}};
  StaySchedule schedule = ScheduleStays(problem);
  EXPECT_EQ(schedule.always, std::vector<bool>{true});
  problem.room[5] = 0;  // now it has to go for a while
  schedule = ScheduleStays(problem);
  EXPECT_EQ(schedule.always, std::vector<bool>{false});
  ExpectLaunches(schedule.slabs[0], 6, 14, 5);
  // Out 15 to 27, launch 5 is at 25: 2 late. In from launch 6 at 28: 40, launch 14 was due at 36.
  EXPECT_NEAR(schedule.stall_ms, 2 + 4, 1e-9);
}

TEST(SlabsTest, FetchMayBeginInTheStepBefore) {
  StayProblem problem = FourSlabs();
  problem.uses = {{0, 1}};
  const StaySchedule schedule = ScheduleStays(problem);
  // In: from 18.9 on. Out: 2 + 1.1.
  ExpectLaunches(schedule.slabs[0], 18, 1, 4);
  EXPECT_DOUBLE_EQ(schedule.stall_ms, 0);
}

TEST(SlabsTest, WithoutTimePartsOfTheStepStandForIt) {
  StayProblem problem = FourSlabs();
  problem.clock.step_ms = 0;
  problem.clock.launch_ms.assign(20, 0);
  const StaySchedule schedule = ScheduleStays(problem);
  ExpectLaunches(schedule.slabs[0], 13, 14, 0);  // a 16th before; a quarter behind 15 is 20
  ExpectLaunches(schedule.slabs[3], 16, 17, 3);
  EXPECT_DOUBLE_EQ(schedule.stall_ms, 0);
}

TEST(SlabsTest, NoSlabsNeedNothing) {
  StayProblem problem = FourSlabs();
  problem.uses.clear();
  EXPECT_TRUE(ScheduleStays(problem).slabs.empty());
}

}  // namespace
}  // namespace ebt::plan
