#include "src/report/gpu_times.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ebt::report {
namespace {

using profile::EventKind;
using profile::Profile;

// `events` events, and marks where given.
Profile Marked(uint64_t events, std::vector<std::pair<uint64_t, double>> marks) {
  Profile profile;
  profile.events.resize(events, {.kind = EventKind::kStep});
  for (const auto& [at, ms] : marks) {
    profile.events[at].kind = EventKind::kMark;
    profile.events[at].gpu_ms = ms;
  }
  return profile;
}

TEST(GpuTimesTest, EventsBetweenTwoMarksTakeEquallyLong) {
  const GpuTimes times(Marked(21, {{0, 0}, {10, 5}, {20, 25}}));
  ASSERT_TRUE(times.known());
  EXPECT_DOUBLE_EQ(times.At(0), 0);
  EXPECT_DOUBLE_EQ(times.At(4), 2);
  EXPECT_DOUBLE_EQ(times.At(10), 5);
  EXPECT_DOUBLE_EQ(times.At(15), 15);
  EXPECT_DOUBLE_EQ(times.At(20), 25);
}

// 20 ms pass in 10 events, so 2 ms an event.
TEST(GpuTimesTest, OutsideTheMarksTheMeanPaceGoesOn) {
  const GpuTimes times(Marked(18, {{5, 1}, {15, 21}}));
  EXPECT_DOUBLE_EQ(times.At(0), -9);
  EXPECT_DOUBLE_EQ(times.At(16), 23);
  EXPECT_DOUBLE_EQ(times.At(18), 27);
  EXPECT_EQ(times.points().front().event, 0u);
  EXPECT_EQ(times.points().back().event, 18u);
}

TEST(GpuTimesTest, AMarkThatGoesBackDoesNotTurnTimeBack) {
  const GpuTimes times(Marked(31, {{0, 0}, {10, 8}, {20, 6}, {30, 20}}));
  EXPECT_DOUBLE_EQ(times.At(20), 8);
  EXPECT_DOUBLE_EQ(times.At(25), 14);
}

TEST(GpuTimesTest, WithoutTimeBetweenMarksAnEventIsAMillisecond) {
  for (const Profile& profile : {Marked(7, {}), Marked(7, {{3, 9}}), Marked(7, {{1, 4}, {5, 4}})}) {
    const GpuTimes times(profile);
    EXPECT_FALSE(times.known());
    EXPECT_DOUBLE_EQ(times.At(3), 3);
  }
  EXPECT_DOUBLE_EQ(GpuTimes(Profile()).At(0), 0);
}

TEST(GpuTimesTest, NumbersThatAreNoTimesAreNotBelieved) {
  const double infinite = std::numeric_limits<double>::infinity();
  const GpuTimes times(Marked(9, {{0, 1}, {2, NAN}, {4, infinite}, {8, 9}}));
  EXPECT_DOUBLE_EQ(times.At(2), 3);
  EXPECT_DOUBLE_EQ(times.At(4), 5);
}

}  // namespace
}  // namespace ebt::report
