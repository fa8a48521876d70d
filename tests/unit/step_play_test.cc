#include "src/plan/step_play.h"

#include <gtest/gtest.h>

#include "src/plan/link.h"

namespace ebt::plan {
namespace {

// A byte takes a millisecond alone and two when there are copies both ways; sizes do not matter.
DeviceModel Slow() {
  DeviceModel device{.link_in = 500,
                     .link_out = 500,
                     .in_place = 1000,
                     .managed_in = 1000,
                     .managed_out = 250,
                     .link_in_alone = 1000,
                     .link_out_alone = 1000,
                     .managed_in_both = 500,
                     .managed_out_both = 125};
  device.copies = {};
  return device;
}

// Ten launches of 10 ms.
StepClock TenLaunches() {
  StepClock clock{.step_ms = 100};
  for (int i = 0; i < 10; ++i) clock.launch_ms.push_back(10 * i);
  return clock;
}

using Direction = Link::Direction;

TEST(LinkTest, CopiesOfOneDirectionFollowOneAnother) {
  const DeviceModel device = Slow();
  Link link(device);
  const Link::Job first = link.Copy(Direction::kIn, 10, false);
  const Link::Job second = link.Copy(Direction::kIn, 5, false);
  link.AdvanceTo(12);
  EXPECT_TRUE(link.Done(first));
  EXPECT_FALSE(link.Done(second));
  link.Await(second);
  EXPECT_DOUBLE_EQ(link.now(), 15);
}

TEST(LinkTest, BothWaysAtOnceIsSlowerUntilOneIsThrough) {
  const DeviceModel device = Slow();
  Link link(device);
  const Link::Job in = link.Copy(Direction::kIn, 10, false);
  const Link::Job out = link.Copy(Direction::kOut, 4, false);
  // Half as fast until 8 ms, when 4 bytes have gone each way; the other 6 at full speed.
  link.Await(out);
  EXPECT_DOUBLE_EQ(link.now(), 8);
  link.Await(in);
  EXPECT_DOUBLE_EQ(link.now(), 14);
}

TEST(LinkTest, CopyThatWaitsForAnotherHoldsUpThoseBehindIt) {
  const DeviceModel device = Slow();
  Link link(device);
  const Link::Job out = link.Copy(Direction::kOut, 10, false);
  link.Copy(Direction::kIn, 5, false, out);
  const Link::Job behind = link.Copy(Direction::kIn, 5, false);
  link.Await(behind);
  EXPECT_DOUBLE_EQ(link.now(), 20);
}

TEST(LinkTest, KernelInPlaceSharesOnlyTheWayThatItUses) {
  const DeviceModel device = Slow();
  Link link(device);
  link.Copy(Direction::kOut, 100, false);
  link.InPlace(10, 0);
  EXPECT_DOUBLE_EQ(link.now(), 10);
  link.InPlace(0, 10);
  EXPECT_DOUBLE_EQ(link.now(), 30);
}

TEST(LinkTest, PrefetchOfManagedMemoryHasItsOwnSpeed) {
  const DeviceModel device = Slow();
  Link link(device);
  link.Await(link.Copy(Direction::kOut, 10, true));
  EXPECT_DOUBLE_EQ(link.now(), 40);
}

TEST(LinkTest, SmallCopiesAreSlow) {
  // 64 KiB at 17 GB/s; a copy half as large takes as long; 128 KiB lies a third of the way to
  // 256 KiB, which takes 7.28 us: 3.855 us and 1.142 more.
  const DeviceModel h200;
  EXPECT_NEAR(h200.CopyShare(65536), 17.0 / 55, 1e-9);
  EXPECT_NEAR(h200.CopyShare(32768), 8.5 / 55, 1e-9);
  EXPECT_NEAR(h200.CopyShare(131072), 131072 / 4.9972e-6 / 55e9, 1e-4);
  EXPECT_NEAR(h200.CopyShare(uint64_t{1} << 30), 1, 1e-9);
}

TEST(StepPlayTest, StepWithNothingMovedTakesWhatItWasRecordedWith) {
  const DeviceModel device = Slow();
  const StepClock clock = TenLaunches();
  const Prediction played = PlayStep({.device = device, .clock = clock});
  EXPECT_DOUBLE_EQ(played.step_ms, 100);
  EXPECT_EQ(played.bytes_in + played.bytes_out, 0u);
}

TEST(StepPlayTest, TouchesInPlaceAddUp) {
  const DeviceModel device = Slow();
  const StepClock clock = TenLaunches();
  PlayedStep step{.device = device, .clock = clock};
  step.in_place.resize(10);
  step.in_place[3] = {.in = 10, .out = 4};
  step.in_place[7] = {.in = 0, .out = 5};
  const Prediction played = PlayStep(step);
  EXPECT_DOUBLE_EQ(played.stall_ms.in_place, 15);
  EXPECT_DOUBLE_EQ(played.step_ms, 115);
  EXPECT_EQ(played.bytes_in, 10u);
  EXPECT_EQ(played.bytes_out, 9u);
}

TEST(StepPlayTest, TwoCopiesOnOneLinkMakeTheSecondKernelWait) {
  const DeviceModel device = Slow();
  const StepClock clock = TenLaunches();
  PlayedStep step{.device = device, .clock = clock};
  // In from 30 to 45, in time for 50; then to 60 and on to 70: launch 6 at 60 waits for 10 ms, and
  // both go out in the quiet behind it, from 80 and 90 on, 15 and 25 ms.
  step.moves = {{.bytes = 15, .fetch = 3, .first = 5, .last = 6, .gone = 2},
                {.bytes = 25, .fetch = 3, .first = 6, .last = 7, .gone = 2}};
  const Prediction played = PlayStep(step);
  EXPECT_DOUBLE_EQ(played.stall_ms.fetch, 10);
  EXPECT_DOUBLE_EQ(played.stall_ms.room, 0);
  EXPECT_DOUBLE_EQ(played.step_ms, 110);
  EXPECT_EQ(played.bytes_in, 40u);
  EXPECT_EQ(played.bytes_out, 40u);
}

TEST(StepPlayTest, LaunchWaitsForThePlaceThatACopyOutStillLeaves) {
  const DeviceModel device = Slow();
  const StepClock clock = TenLaunches();
  PlayedStep step{.device = device, .clock = clock};
  // Out from 90, through at 115; launch 1 of the next step was due at 110.
  step.moves = {{.bytes = 25, .fetch = 4, .first = 8, .last = 8, .gone = 1}};
  const Prediction played = PlayStep(step);
  EXPECT_DOUBLE_EQ(played.stall_ms.room, 5);
  EXPECT_DOUBLE_EQ(played.stall_ms.fetch, 0);
}

TEST(StepPlayTest, CopyInWaitsForTheSlabThatLeavesItItsPlace) {
  const DeviceModel device = Slow();
  const StepClock clock = TenLaunches();
  PlayedStep step{.device = device, .clock = clock};
  // The first goes out from 30 to 50; the second, asked for at 40, comes in until 60. Nobody waits.
  step.moves = {{.bytes = 20, .fetch = 0, .first = 2, .last = 2},
                {.bytes = 10, .fetch = 4, .first = 6, .last = 6, .after = 0}};
  Prediction played = PlayStep(step);
  EXPECT_DOUBLE_EQ(played.stall_ms.sum(), 0);
  step.moves[1].first = 5;
  played = PlayStep(step);
  EXPECT_DOUBLE_EQ(played.stall_ms.fetch, 10);
  EXPECT_DOUBLE_EQ(played.stall_ms.room, 0);
}

TEST(StepPlayTest, CleanMoveNeedsNoCopyOut) {
  const DeviceModel device = Slow();
  const StepClock clock = TenLaunches();
  PlayedStep step{.device = device, .clock = clock};
  step.moves = {{.bytes = 25, .fetch = 4, .first = 8, .last = 8, .gone = 9, .clean = true}};
  const Prediction played = PlayStep(step);
  EXPECT_DOUBLE_EQ(played.step_ms, 100);
  EXPECT_EQ(played.bytes_out, 0u);
}

TEST(StepPlayTest, PeakIsWhatStaysAndWhatHasMovedIn) {
  const DeviceModel device = Slow();
  const StepClock clock = TenLaunches();
  PlayedStep step{.device = device, .clock = clock};
  step.resident_bytes = {100, 100, 100, 70, 70, 70, 70, 70, 70, 70};
  // There from launch 4 until its copy out is through at 80 to 100: launch 9 still has it.
  step.moves = {{.bytes = 20, .fetch = 4, .first = 7, .last = 7, .gone = 0}};
  EXPECT_EQ(PlayStep(step).peak_device_bytes, 100u);
  step.moves[0].bytes = 35;
  EXPECT_EQ(PlayStep(step).peak_device_bytes, 105u);
}

TEST(StepPlayTest, MoreThanTheLinkCarriesInAStepSettlesAtItsSpeed) {
  const DeviceModel device = Slow();
  const StepClock clock = TenLaunches();
  PlayedStep step{.device = device, .clock = clock};
  // In for 120 and out for 120, one behind the other: the step has room for neither beside the
  // launch, which waits for all of it.
  step.moves = {{.bytes = 120, .fetch = 5, .first = 5, .last = 5, .gone = 5}};
  // From launch 5 to 6 it is used: out from 170 + 10, through at 300; launch 5 is due 90 ms behind
  // the end of the one before it.
  const Prediction played = PlayStep(step);
  EXPECT_DOUBLE_EQ(played.stall_ms.fetch, 120);
  EXPECT_DOUBLE_EQ(played.stall_ms.room, 30);
}

}  // namespace
}  // namespace ebt::plan
