#include "src/plan/pack_tight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "src/plan/pack_search.h"
#include "tests/unit/perfect_packing.h"

namespace ebt::plan {
namespace {

Item Lives(uint64_t begin, uint64_t end, uint64_t bytes) {
  return {.bytes = bytes, .live = {{{begin, end}, {}}}, .alignment = 1};
}

bool Meet(const Interval& a, const Interval& b) {
  return !a.empty() && !b.empty() && a.begin < b.end && b.begin < a.end;
}

// Brute force: every pair that lives together lies apart, and the peak is the highest end.
void ExpectValid(const std::vector<Item>& items, const Packing& packing) {
  ASSERT_EQ(packing.offsets.size(), items.size());
  uint64_t top = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    top = std::max(top, packing.offsets[i] + items[i].bytes);
    EXPECT_EQ(packing.offsets[i] % items[i].alignment, 0u);
    for (size_t j = 0; j < i; ++j) {
      bool together = false;
      for (const Interval& a : items[i].live) {
        for (const Interval& b : items[j].live) together = together || Meet(a, b);
      }
      if (!together) continue;
      EXPECT_TRUE(packing.offsets[i] + items[i].bytes <= packing.offsets[j] ||
                  packing.offsets[j] + items[j].bytes <= packing.offsets[i])
          << "items " << i << " and " << j;
    }
  }
  EXPECT_EQ(packing.peak, top);
}

TEST(PackTightTest, NothingNeedsNothing) { EXPECT_EQ(PackTight({}, {}).peak, 0u); }

TEST(PackTightTest, PlainUnitsAreNotRoundedToBlocks) {
  const Packing packing = PackTight({Lives(0, 2, 3), Lives(1, 3, 4), Lives(2, 4, 3)}, {});
  EXPECT_EQ(packing.peak, 7u);
  EXPECT_EQ(packing.bound, 7u);
}

TEST(PackTightTest, ItemsOfNoSizeTakeNoPlace) {
  EXPECT_EQ(PackTight({Lives(0, 9, 5), Lives(0, 9, 0)}, {}).peak, 5u);
}

TEST(PackTightTest, GroupsThatShareNoMomentAreEachPacked) {
  std::vector<Item> items;
  uint64_t most = 0;
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    const PerfectPacking group = Cutter({.seed = seed, .pieces = 12, .units = 16 * seed}).Cut();
    for (Item item : group.items) {
      item.live[0].begin += seed << 20;
      item.live[0].end += seed << 20;
      items.push_back(item);
    }
    most = std::max(most, group.capacity);
  }
  const Packing packing = PackTight(items, {});
  ExpectValid(items, packing);
  EXPECT_EQ(packing.peak, most);
}

TEST(PackTightTest, CutUpSquaresFitAgain) {
  for (const uint32_t dropped : {0u, 5u}) {
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      const PerfectPacking perfect =
          Cutter({.seed = seed, .pieces = 100, .dropped_percent = dropped}).Cut();
      const Packing packing = PackTight(perfect.items, {.capacity = perfect.capacity});
      ExpectValid(perfect.items, packing);
      EXPECT_LE(packing.peak, perfect.capacity) << "seed " << seed << ", dropped " << dropped;
    }
  }
}

TEST(PackTightTest, WithoutACapacityMaxLiveIsReached) {
  const PerfectPacking perfect = Cutter({.seed = 9, .pieces = 100}).Cut();
  const Packing packing = PackTight(perfect.items, {});
  ExpectValid(perfect.items, packing);
  EXPECT_EQ(packing.peak, perfect.capacity);
  EXPECT_EQ(packing.bound, perfect.capacity);
}

TEST(PackTightTest, EqualInputGivesEqualOutput) {
  const PerfectPacking perfect = Cutter({.seed = 3, .pieces = 150, .dropped_percent = 8}).Cut();
  const TightOptions options{.nodes = 20'000};
  EXPECT_EQ(PackTight(perfect.items, options).offsets, PackTight(perfect.items, options).offsets);
}

TEST(PackTightTest, StopEndsTheSearchWithAValidPacking) {
  const PerfectPacking perfect = Cutter({.seed = 3, .pieces = 400, .dropped_percent = 5}).Cut();
  const Packing packing =
      PackTight(perfect.items, {.nodes = uint64_t(-1), .stop = [] { return true; }});
  ExpectValid(perfect.items, packing);
}

TEST(PackSearchTest, FitsIntoMaxLiveAndNotBelow) {
  const std::vector<Item> items = {Lives(0, 2, 2), Lives(1, 4, 1), Lives(3, 6, 2),
                                   Lives(0, 1, 1), Lives(5, 6, 1), Lives(2, 3, 2)};
  PackSearch search(items);
  EXPECT_EQ(search.Try(2, 1000), PackSearch::Outcome::kImpossible);
  EXPECT_EQ(search.Try(3, 1000), PackSearch::Outcome::kFits);
  EXPECT_EQ(search.peak(), 3u);
}

// Independent of the search: one item after the other at every offset there is.
bool FitsSomehow(const std::vector<Item>& items, uint64_t capacity,
                 std::vector<uint64_t>& offsets) {
  const size_t i = offsets.size();
  if (i == items.size()) return true;
  for (uint64_t at = 0; at + items[i].bytes <= capacity; ++at) {
    bool free = at % items[i].alignment == 0;
    for (size_t j = 0; j < i && free; ++j) {
      bool together = false;
      for (const Interval& a : items[i].live) {
        for (const Interval& b : items[j].live) together = together || Meet(a, b);
      }
      free = !together || at + items[i].bytes <= offsets[j] || offsets[j] + items[j].bytes <= at;
    }
    if (!free) continue;
    offsets.push_back(at);
    if (FitsSomehow(items, capacity, offsets)) return true;
    offsets.pop_back();
  }
  return false;
}

TEST(PackSearchTest, AgreesWithTryingEveryOffset) {
  std::mt19937 random(5);
  auto below = [&](uint64_t n) { return random() % n; };
  int impossible = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<Item> items;
    const size_t count = 3 + below(5);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t begin = below(8);
      Item item = Lives(begin, begin + 1 + below(4), 1 + below(4));
      if (below(5) == 0 && begin > 1) item.live[1] = {0, below(begin - 1) + 1};
      items.push_back(item);
    }
    for (uint64_t capacity = MaxLive(items);; ++capacity) {
      std::vector<uint64_t> offsets;
      const bool fits = FitsSomehow(items, capacity, offsets);
      PackSearch search(items);
      const auto outcome = search.Try(capacity, 1'000'000);
      EXPECT_EQ(outcome, fits ? PackSearch::Outcome::kFits : PackSearch::Outcome::kImpossible)
          << "round " << round << ", capacity " << capacity;
      if (fits) {
        ExpectValid(items, {search.offsets(), search.peak(), 0});
        EXPECT_LE(search.peak(), capacity);
        break;
      }
      ++impossible;
    }
  }
  EXPECT_GT(impossible, 0) << "no problem was hard enough to tell the two apart";
}

}  // namespace
}  // namespace ebt::plan
