#include "src/plan/free_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ebt::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(FreeRangesTest, TheSmallestRangeThatSufficesIsTakenOfEqualOnesTheLowest) {
  FreeRanges free(100);
  ASSERT_TRUE(free.TakeAt(10, 10));
  ASSERT_TRUE(free.TakeAt(30, 20));
  ASSERT_TRUE(free.TakeAt(60, 10));
  EXPECT_THAT(free.all(), ElementsAre(Pair(0, 10), Pair(20, 10), Pair(50, 10), Pair(70, 30)));
  EXPECT_EQ(free.TakeBestFit(11), 70u);
  EXPECT_EQ(free.TakeBestFit(10), 0u);
  EXPECT_EQ(free.TakeBestFit(4), 20u);
  EXPECT_EQ(free.TakeBestFit(6), 24u);
  EXPECT_EQ(free.TakeBestFit(20), std::nullopt);
}

TEST(FreeRangesTest, WhatIsNotWhollyFreeIsNotTaken) {
  FreeRanges free(100);
  ASSERT_TRUE(free.TakeAt(40, 20));
  EXPECT_FALSE(free.TakeAt(30, 11));
  EXPECT_FALSE(free.TakeAt(50, 5));
  EXPECT_FALSE(free.TakeAt(59, 2));
  EXPECT_FALSE(free.TakeAt(90, 11));
  EXPECT_FALSE(free.TakeAt(100, 1));
  EXPECT_THAT(free.all(), ElementsAre(Pair(0, 40), Pair(60, 40)));
  EXPECT_TRUE(free.TakeAt(30, 10));
  EXPECT_TRUE(free.TakeAt(60, 40));
  EXPECT_THAT(free.all(), ElementsAre(Pair(0, 30)));
}

TEST(FreeRangesTest, TheLowestPlaceWithinARoomMayBeginInTheMiddleOfARange) {
  FreeRanges free(100);
  ASSERT_TRUE(free.TakeAt(40, 10));
  EXPECT_EQ(free.TakeLowest(10, 20, 60), 20u);
  EXPECT_EQ(free.TakeLowest(10, 20, 60), 30u);
  EXPECT_EQ(free.TakeLowest(10, 20, 60), 50u);
  EXPECT_EQ(free.TakeLowest(1, 20, 60), std::nullopt);
  EXPECT_EQ(free.TakeLowest(5, 0, 4), std::nullopt);
  EXPECT_THAT(free.all(), ElementsAre(Pair(0, 20), Pair(60, 40)));
}

TEST(FreeRangesTest, WhatIsGivenBackIsOneWithItsNeighbours) {
  FreeRanges free(30);
  for (uint64_t offset : {0, 10, 20}) ASSERT_TRUE(free.TakeAt(offset, 10));
  EXPECT_THAT(free.all(), IsEmpty());
  free.Give(0, 10);
  free.Give(20, 10);
  EXPECT_THAT(free.all(), ElementsAre(Pair(0, 10), Pair(20, 10)));
  free.Give(10, 10);
  EXPECT_THAT(free.all(), ElementsAre(Pair(0, 30)));
  EXPECT_EQ(free.TakeBestFit(30), 0u);
}

TEST(FreeRangesTest, GrowthIsOneWithAFreeEnd) {
  FreeRanges free(10);
  EXPECT_EQ(free.free_at_end(), 10u);
  ASSERT_TRUE(free.TakeAt(0, 4));
  free.Grow(5);
  EXPECT_EQ(free.size(), 15u);
  EXPECT_EQ(free.free_at_end(), 11u);
  EXPECT_EQ(free.TakeBestFit(11), 4u);
  EXPECT_EQ(free.free_at_end(), 0u);
  free.Give(0, 4);
  EXPECT_EQ(free.free_at_end(), 0u);
}

}  // namespace
}  // namespace ebt::plan
