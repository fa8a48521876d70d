#include "src/plan/predictor.h"

#include <gtest/gtest.h>

#include "tests/unit/training_profile.h"

namespace ebt::plan {
namespace {

// A device whose speeds make round numbers: 1 byte at 1000 bytes a second takes 1 ms.
constexpr DeviceModel kSlow = {.link_in = 1000,
                               .link_out = 500,
                               .in_place = 1000,
                               .managed_in = 1000,
                               .managed_out = 250,
                               .link_in_alone = 2000,
                               .link_out_alone = 1000};

// Ten launches of 10 ms.
StepClock TenLaunches() {
  StepClock clock{.step_ms = 100};
  for (int i = 0; i < 10; ++i) clock.launch_ms.push_back(10 * i);
  return clock;
}

TEST(PredictorTest, BlockTouchedOnceIsUsedInPlaceAndOneTouchedOftenIsFetched) {
  // On the H200: once in place 1/42, fetched and sent back 1/50 + 1/12 = 4.34 times that.
  const DeviceModel h200;
  for (uint64_t touches : {1, 4}) {
    EXPECT_EQ(CheaperUse(h200, 1 << 20, touches), ColdUse::kInPlace);
  }
  for (uint64_t touches : {5, 100}) {
    EXPECT_EQ(CheaperUse(h200, 1 << 20, touches), ColdUse::kPrefetch);
  }
}

TEST(PredictorTest, FetchStartsAsLateAsTheLinkAllows) {
  // Needed at 50 ms and 60 ms, 15 ms each: the second starts at 45, the first at 30.
  std::vector<ColdBlock> blocks = {
      {.bytes = 15, .touches = 9, .first = 5, .last = 7, .use = ColdUse::kPrefetch},
      {.bytes = 15, .touches = 9, .first = 6, .last = 6, .use = ColdUse::kPrefetch}};
  const Transfers transfers = ScheduleFetches(kSlow, TenLaunches(), blocks);
  EXPECT_EQ(blocks[1].fetch_launch, 4);
  EXPECT_EQ(blocks[1].evict_launch, 6);
  EXPECT_EQ(blocks[0].fetch_launch, 3);
  EXPECT_EQ(blocks[0].evict_launch, 7);
  EXPECT_EQ(transfers.most_device_bytes, 1024u);  // 512 each, both at launch 5
}

TEST(PredictorTest, FetchThatCannotBeThereInTimeStartsWithTheStep) {
  std::vector<ColdBlock> blocks = {
      {.bytes = 15, .touches = 9, .first = 1, .last = 1, .use = ColdUse::kPrefetch}};
  ScheduleFetches(kSlow, TenLaunches(), blocks);
  EXPECT_EQ(blocks[0].fetch_launch, 0);
}

TEST(PredictorTest, BoundIsTheSlowestOfDeviceAndLink) {
  EXPECT_DOUBLE_EQ(BoundStepMs(kSlow, 100, {}), 100);
  EXPECT_DOUBLE_EQ(BoundStepMs(kSlow, 100, {.in = 49, .out = 49}), 100);
  // Out at 500 bytes a second while 60 bytes come in, 60 ms; the other 30 at twice that.
  EXPECT_DOUBLE_EQ(BoundStepMs(kSlow, 60, {.in = 60, .out = 60}), 60 + 30);
  EXPECT_DOUBLE_EQ(BoundStepMs(kSlow, 20, {.in = 60}), 30);
}

TEST(PredictorTest, StepTimeIsTheMedianBetweenInterpolatedMarks) {
  // One launch a millisecond by the builder's clock; the third step is made slower by hand.
  profile::Training training({.layers = 4, .steps = 7});
  double late = 0;
  int marks = 0;
  for (auto& event : training.profile.events) {
    if (event.kind != profile::EventKind::kMark) continue;
    if (++marks == 4) late = 500;
    event.gpu_ms += late;
  }
  auto timeline = BuildTimeline(training.profile);
  ASSERT_TRUE(timeline.ok());
  // Step boundaries lie an event before a mark, so interpolation is a little off.
  EXPECT_NEAR(ReadClock(training.profile, *timeline).step_ms, 14, 0.1);
}

TEST(PredictorTest, LaunchesOfAProfileWithoutMarksHaveNoTime) {
  profile::Training training({.layers = 4, .steps = 5});
  std::erase_if(training.profile.metadata, [](const auto&) { return true; });
  for (auto& event : training.profile.events) {
    if (event.kind == profile::EventKind::kMark) event.kind = profile::EventKind::kPhase;
  }
  auto timeline = BuildTimeline(training.profile);
  ASSERT_TRUE(timeline.ok());
  const StepClock clock = ReadClock(training.profile, *timeline);
  EXPECT_EQ(clock.step_ms, 0);
  EXPECT_EQ(clock.launch_ms.size(), 14u);
}

}  // namespace
}  // namespace ebt::plan
