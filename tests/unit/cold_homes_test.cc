#include "src/replay/cold_homes.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "src/base/units.h"

namespace ebt::replay {
namespace {

constexpr uint64_t kWarm = 8 * kMiB;

plan::Slot Block(uint64_t site, uint64_t bytes, uint64_t offset) {
  plan::Slot slot;
  slot.site = site;
  slot.bytes = bytes;
  slot.offset = kWarm + offset;
  slot.tier = plan::Tier::kCold;
  return slot;
}

// Two slabs of 2 MiB in a cold part of 6: blocks of sites 1 and 2 in the first slab, of site 1 in
// the second, and of site 3 behind them.
class ColdHomesTest : public ::testing::Test {
 protected:
  ColdHomesTest() {
    plan_.warm_bytes = kWarm;
    plan_.cold_bytes = 6 * kMiB;
    plan_.slab_bytes = 2 * kMiB;
    plan_.slabs.resize(2);
    plan_.prologue = {Block(1, 700, 0), Block(2, 1000, 1024), plan::Slot(),
                      Block(3, kMiB, 4 * kMiB + 512)};
    plan_.step = {plan::Slot(), Block(1, 512, 2 * kMiB)};
  }
  static void ExpectAt(const ColdHome& home, bool swapped, uint64_t offset) {
    EXPECT_EQ(home.swapped, swapped);
    EXPECT_EQ(home.offset, offset);
  }

  plan::Plan plan_;
};

TEST_F(ColdHomesTest, SwappedBlocksKeepTheirPlacesInTheSlabs) {
  const ColdHomes homes(plan_, [](uint64_t) { return true; });
  ExpectAt(homes.Of(plan_.prologue[0]), true, 0);
  ExpectAt(homes.Of(plan_.prologue[1]), true, 1024);
  ExpectAt(homes.Of(plan_.step[1]), true, 2 * kMiB);
  EXPECT_EQ(homes.swapped_bytes(), 4 * kMiB);
}

TEST_F(ColdHomesTest, WhatLiesBehindTheSlabsIsNeverSwapped) {
  const ColdHomes homes(plan_, [](uint64_t) { return true; });
  ExpectAt(homes.Of(plan_.prologue[3]), false, 512);
  EXPECT_EQ(homes.other_bytes(), 2 * kMiB);
}

TEST_F(ColdHomesTest, BlocksThatMayNotSwapMoveTogether) {
  const ColdHomes homes(plan_, [](uint64_t site) { return site == 2; });
  // 700 and 512 bytes in units of 512 come first, then what lay behind the slabs.
  ExpectAt(homes.Of(plan_.prologue[0]), false, 0);
  ExpectAt(homes.Of(plan_.step[1]), false, 1024);
  ExpectAt(homes.Of(plan_.prologue[3]), false, 1536 + 512);
  ExpectAt(homes.Of(plan_.prologue[1]), true, 1024);
  EXPECT_EQ(homes.swapped_bytes(), 4 * kMiB);
  // 2 MiB behind the slabs and 1536 bytes, in units of 2 MiB.
  EXPECT_EQ(homes.other_bytes(), 4 * kMiB);
}

TEST_F(ColdHomesTest, WithoutASwappedBlockThereIsNoSwappedRange) {
  const ColdHomes homes(plan_, [](uint64_t site) { return site == 3; });
  EXPECT_EQ(homes.swapped_bytes(), 0u);
  EXPECT_FALSE(homes.Moves(0) || homes.Moves(1));
}

TEST_F(ColdHomesTest, OnlySlabsWithASwappedBlockMove) {
  const ColdHomes second(plan_, [](uint64_t site) { return site == 2; });
  EXPECT_TRUE(second.Moves(0));
  EXPECT_FALSE(second.Moves(1));
  const ColdHomes first(plan_, [](uint64_t site) { return site == 1; });
  EXPECT_TRUE(first.Moves(0));
  EXPECT_TRUE(first.Moves(1));
}

TEST_F(ColdHomesTest, ABlockAcrossSlabsMovesThemAll) {
  plan_.prologue = {Block(2, 3 * kMiB, 512)};
  plan_.step.clear();
  const ColdHomes homes(plan_, [](uint64_t) { return true; });
  EXPECT_TRUE(homes.Moves(0));
  EXPECT_TRUE(homes.Moves(1));
}

TEST_F(ColdHomesTest, APlanWithoutSlabsHasEverythingInTheOtherRange) {
  plan_.slabs.clear();
  plan_.slab_bytes = 0;
  const ColdHomes homes(plan_, [](uint64_t) { return true; });
  EXPECT_EQ(homes.swapped_bytes(), 0u);
  EXPECT_EQ(homes.other_bytes(), 6 * kMiB);
  ExpectAt(homes.Of(plan_.prologue[1]), false, 1024);
}

TEST_F(ColdHomesTest, WhereEverythingIsSwappedNothingElseIsNeeded) {
  plan_.prologue.pop_back();
  plan_.cold_bytes = 4 * kMiB;
  const ColdHomes homes(plan_, [](uint64_t) { return true; });
  EXPECT_EQ(homes.other_bytes(), 0u);
}

}  // namespace
}  // namespace ebt::replay
