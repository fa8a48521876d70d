#include "src/record/address_ranges.h"

#include <gtest/gtest.h>

namespace ebt::record {
namespace {

TEST(AddressRanges, NothingIsFreeWhereEverythingIsTaken) {
  AddressRanges ranges;
  EXPECT_TRUE(ranges.empty());
  ranges.Add({100, 200});
  const auto free = ranges.Without({{100, 150}, {150, 200}});
  EXPECT_EQ(free.free_bytes, 0u);
  EXPECT_EQ(free.pieces, 0u);
  EXPECT_EQ(free.Share(), 0);
}

// [100, 200) and [200, 300) are one; [400, 500) is another. Taken: [120, 140), [190, 210), and
// [390, 420), which begins before the second. Free: 20 + 50 + 90 and 80 bytes.
TEST(AddressRanges, FreePiecesLieBetweenWhatIsTaken) {
  AddressRanges ranges;
  ranges.Add({100, 200});
  ranges.Add({400, 500});
  ranges.Add({200, 300});
  const auto free = ranges.Without({{390, 420}, {120, 140}, {190, 210}});
  EXPECT_EQ(free.free_bytes, 240u);
  EXPECT_EQ(free.largest_free_bytes, 90u);
  EXPECT_EQ(free.pieces, 4u);
  EXPECT_DOUBLE_EQ(free.Share(), 1 - 90. / 240);
}

TEST(AddressRanges, RangesThatOverlapAreJoined) {
  AddressRanges ranges;
  ranges.Add({10, 20});
  ranges.Add({30, 40});
  ranges.Add({50, 60});
  ranges.Add({15, 55});
  ranges.Add({12, 14});  // within
  ranges.Add({7, 7});    // nothing
  const auto free = ranges.Without({});
  EXPECT_EQ(free.free_bytes, 50u);
  EXPECT_EQ(free.pieces, 1u);
}

TEST(AddressRanges, WhatIsTakenAcrossRangesCoversBoth) {
  AddressRanges ranges;
  ranges.Add({0, 10});
  ranges.Add({20, 30});
  ranges.Add({40, 50});
  const auto free = ranges.Without({{5, 45}, {6, 7}});
  EXPECT_EQ(free.free_bytes, 10u);
  EXPECT_EQ(free.pieces, 2u);
}

}  // namespace
}  // namespace ebt::record
