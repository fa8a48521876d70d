#include "src/plan/occupied_space.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace ebt::plan {
namespace {

Item Lives(uint64_t begin, uint64_t end, uint64_t bytes) {
  return {.bytes = bytes, .live = {{{begin, end}, {}}}, .alignment = 1};
}

TEST(OccupiedSpaceTest, TheLowestGapThatIsLargeEnoughIsFound) {
  const std::vector<Item> items = {Lives(0, 9, 2), Lives(0, 9, 3), Lives(4, 6, 2), Lives(4, 6, 3)};
  OccupiedSpace space(items);
  space.Add(0, 0);  // [0, 2)
  space.Add(1, 4);  // [4, 7)
  EXPECT_EQ(space.Lowest(2), 2u);
  EXPECT_EQ(space.Lowest(3), 7u);
}

TEST(OccupiedSpaceTest, WhatLivesAtAnotherTimeIsNotInTheWay) {
  const std::vector<Item> items = {Lives(0, 4, 8), Lives(4, 6, 8)};
  OccupiedSpace space(items);
  space.Add(0, 0);
  EXPECT_EQ(space.Lowest(1), 0u);
}

TEST(OccupiedSpaceTest, ClearGoesBackToWhatWasKept) {
  const std::vector<Item> items = {Lives(0, 9, 2), Lives(0, 9, 3), Lives(0, 9, 1)};
  OccupiedSpace space(items);
  space.Add(0, 0);
  space.Keep();
  space.Add(1, 2);
  EXPECT_EQ(space.Lowest(2), 5u);
  space.Clear();
  EXPECT_EQ(space.Lowest(2), 2u);
}

// Against every pair, with enough moments for a tree of several levels.
TEST(OccupiedSpaceTest, AgreesWithLookingAtEveryItem) {
  std::mt19937 random(3);
  auto below = [&](uint64_t n) { return random() % n; };
  std::vector<Item> items;
  for (int i = 0; i < 3000; ++i) {
    const uint64_t begin = below(20'000), life = 1 + below(below(5) == 0 ? 9'000 : 40);
    Item item = Lives(begin, begin + life, 1 + below(50));
    if (below(8) == 0) item.live[1] = {0, below(begin + 1)};
    item.alignment = uint64_t{1} << below(4);
    item.bytes *= item.alignment;  // nothing is left to round up
    items.push_back(item);
  }
  const auto together = [](const Item& a, const Item& b) {
    for (const Interval& x : a.live) {
      for (const Interval& y : b.live) {
        if (!x.empty() && !y.empty() && x.begin < y.end && y.begin < x.end) return true;
      }
    }
    return false;
  };
  OccupiedSpace space(items);
  std::vector<uint64_t> offsets;
  for (uint32_t i = 0; i < items.size(); ++i) {
    uint64_t expected = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t j = 0; j < i; ++j) {
        if (!together(items[i], items[j]) || offsets[j] >= expected + items[i].bytes ||
            expected >= offsets[j] + items[j].bytes) {
          continue;
        }
        expected = AlignUp(offsets[j] + items[j].bytes, items[i].alignment);
        moved = true;
      }
    }
    ASSERT_EQ(space.Lowest(i), expected) << "item " << i;
    offsets.push_back(expected);
    space.Add(i, expected);
  }
}

}  // namespace
}  // namespace ebt::plan
