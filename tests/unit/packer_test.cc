#include "src/plan/packer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace ebt::plan {
namespace {

constexpr uint64_t kKiB = 1024;

// Brute force: every pair of items that live together lies apart.
void ExpectValid(const std::vector<Item>& items, const Packing& packing) {
  ASSERT_EQ(packing.offsets.size(), items.size());
  auto meet = [](const Interval& a, const Interval& b) {
    return a.begin < a.end && b.begin < b.end && a.begin < b.end && b.begin < a.end;
  };
  uint64_t top = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    EXPECT_EQ(packing.offsets[i] % items[i].alignment, 0u);
    top = std::max(top, packing.offsets[i] + (items[i].bytes + 511) / 512 * 512);
    for (size_t j = 0; j < i; ++j) {
      const bool together =
          meet(items[i].live[0], items[j].live[0]) || meet(items[i].live[0], items[j].live[1]) ||
          meet(items[i].live[1], items[j].live[0]) || meet(items[i].live[1], items[j].live[1]);
      if (!together) continue;
      EXPECT_TRUE(packing.offsets[i] + items[i].bytes <= packing.offsets[j] ||
                  packing.offsets[j] + items[j].bytes <= packing.offsets[i])
          << "items " << i << " and " << j;
    }
  }
  EXPECT_EQ(packing.peak, top);
  EXPECT_GE(packing.peak, MaxLive(items));
}

TEST(PackerTest, NothingNeedsNothing) {
  EXPECT_EQ(Pack({}, 0).peak, 0u);
  EXPECT_EQ(MaxLive({}), 0u);
}

TEST(PackerTest, MaxLiveCountsRoundedBytesAndHalfOpenIntervals) {
  const std::vector<Item> items = {
      {.bytes = 1, .live = {{{0, 10}, {}}}},     // 512
      {.bytes = 513, .live = {{{10, 20}, {}}}},  // 1024, begins when the first ends
      {.bytes = 512, .live = {{{15, 16}, {}}}},
  };
  EXPECT_EQ(MaxLive(items), 1536u);
}

TEST(PackerTest, BlocksThatFollowEachOtherShareAPlace) {
  const std::vector<Item> items = {{.bytes = 4 * kKiB, .live = {{{0, 5}, {}}}},
                                   {.bytes = 4 * kKiB, .live = {{{5, 9}, {}}}}};
  const Packing packing = Pack(items, 0);
  EXPECT_EQ(packing.peak, 4 * kKiB);
  ExpectValid(items, packing);
}

TEST(PackerTest, StackedItemsKeepTheirOrderFromZero) {
  const std::vector<Item> items = {{.bytes = 700, .live = {{{3, 9}, {}}}},
                                   {.bytes = 512, .live = {{{0, 9}, {}}}},
                                   {.bytes = 1024, .live = {{{0, 3}, {}}}}};
  const Packing packing = Pack(items, 2);
  EXPECT_EQ(packing.offsets[0], 0u);
  EXPECT_EQ(packing.offsets[1], 1024u);
  // Gone before the first stacked item is there, so it may lie in its place.
  EXPECT_EQ(packing.offsets[2], 0u);
  EXPECT_EQ(packing.peak, 1536u);
}

TEST(PackerTest, SecondIntervalKeepsThePlaceTaken) {
  // Lives at the end of the step and again at its begin, as a gradient does.
  const std::vector<Item> items = {{.bytes = kKiB, .live = {{{8, 10}, {0, 2}}}},
                                   {.bytes = kKiB, .live = {{{1, 3}, {}}}},
                                   {.bytes = kKiB, .live = {{{2, 8}, {}}}}};
  const Packing packing = Pack(items, 0);
  ExpectValid(items, packing);
  EXPECT_EQ(packing.peak, 2 * kKiB);
}

TEST(PackerTest, AlignedItemsLieAtMultiplesAndSmallOnesFillTheGaps) {
  const std::vector<Item> items = {
      {.bytes = 512, .live = {{{0, 9}, {}}}},  // stacked: pushes the aligned one to 4 KiB
      {.bytes = 4 * kKiB, .live = {{{2, 6}, {}}}, .alignment = 4 * kKiB},
      {.bytes = 3584, .live = {{{3, 5}, {}}}},
      {.bytes = 4 * kKiB, .live = {{{6, 8}, {}}}, .alignment = 4 * kKiB}};
  const Packing packing = Pack(items, 1);
  ExpectValid(items, packing);
  EXPECT_EQ(packing.offsets[1], 4 * kKiB);
  EXPECT_EQ(packing.offsets[2], 512u);
  EXPECT_EQ(packing.offsets[3], 4 * kKiB);
  EXPECT_EQ(packing.peak, 8 * kKiB);
}

TEST(PackerTest, StackedItemsAreAlignedToo) {
  const std::vector<Item> items = {
      {.bytes = 512, .live = {{{0, 9}, {}}}},
      {.bytes = 4 * kKiB, .live = {{{0, 9}, {}}}, .alignment = 4 * kKiB}};
  EXPECT_EQ(Pack(items, 2).offsets, (std::vector<uint64_t>{0, 4 * kKiB}));
}

TEST(PackerTest, NestedLivesArePackedPerfectly) {
  std::vector<Item> items;  // forward makes, backward frees in reverse; scratch within
  for (uint64_t i = 0; i < 50; ++i) {
    items.push_back({.bytes = (i % 7 + 1) * 512, .live = {{{3 * i, 400 - 3 * i}, {}}}});
    items.push_back({.bytes = 2048, .live = {{{3 * i + 1, 3 * i + 2}, {}}}});
  }
  const Packing packing = Pack(items, 0);
  ExpectValid(items, packing);
  EXPECT_EQ(packing.peak, MaxLive(items));
}

TEST(PackerTest, RandomItemsAreAlwaysValid) {
  std::mt19937 random(7);
  auto below = [&](uint64_t n) { return random() % n; };
  for (int round = 0; round < 60; ++round) {
    std::vector<Item> items;
    const size_t count = 1 + below(120);
    for (size_t i = 0; i < count; ++i) {
      Item item{.bytes = 1 + below(20 * kKiB)};
      const uint64_t begin = below(200);
      item.live[0] = {begin, begin + 1 + below(below(10) == 0 ? 200 : 20)};
      if (below(6) == 0) item.live[1] = {0, below(begin + 1)};
      if (below(25) == 0) item.live[0] = {};
      if (below(5) == 0) item.alignment = 512u << below(6);
      items.push_back(item);
    }
    const size_t stacked = below(4) == 0 ? below(count + 1) : 0;
    ExpectValid(items, Pack(items, stacked, 1'000'000));
  }
}

TEST(PackerTest, EqualInputGivesEqualOutput) {
  std::vector<Item> items;
  for (uint64_t i = 0; i < 300; ++i) {
    items.push_back({.bytes = (i * 37 % 11 + 1) * 512, .live = {{{i, i + i * 53 % 40 + 1}, {}}}});
  }
  EXPECT_EQ(Pack(items, 0).offsets, Pack(items, 0).offsets);
}

TEST(PackerTest, AHundredThousandItemsTakeSeconds) {
  std::mt19937 random(11);
  std::vector<Item> items;
  for (uint64_t i = 0; i < 100'000; ++i) {
    const uint64_t life = random() % 50 == 0 ? random() % 40'000 : random() % 30;
    items.push_back({.bytes = (1 + random() % 64) * 4096, .live = {{{i, i + 1 + life}, {}}}});
  }
  const auto began = std::chrono::steady_clock::now();
  const Packing packing = Pack(items, 0);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  EXPECT_LT(took.count(), 30) << "even unoptimized and on a busy machine";
  EXPECT_LE(double(packing.peak), 1.1 * double(MaxLive(items)));
}

}  // namespace
}  // namespace ebt::plan
