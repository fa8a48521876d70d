#include "src/plan/envelope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace ebt::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(MergeSequencesTest, EqualSequencesAreTheirOwnMerger) {
  const Merged merged = MergeSequences({{1, 2, 3}, {1, 2, 3}}, 0);
  EXPECT_THAT(merged.symbols, ElementsAre(1, 2, 3));
  EXPECT_THAT(merged.place_of[0], ElementsAre(0, 1, 2));
  EXPECT_THAT(merged.place_of[1], ElementsAre(0, 1, 2));
}

TEST(MergeSequencesTest, WhatOneLeavesOutKeepsItsPlace) {
  const Merged merged = MergeSequences({{1, 2, 3, 4}, {1, 4}}, 0);
  EXPECT_THAT(merged.symbols, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(merged.place_of[1], ElementsAre(0, 3));
}

TEST(MergeSequencesTest, WhatTheModelHasNotComesWhereTheOtherHasIt) {
  const Merged merged = MergeSequences({{1, 2, 3}, {1, 7, 8, 2, 3, 9}}, 0);
  EXPECT_THAT(merged.symbols, ElementsAre(1, 7, 8, 2, 3, 9));
  EXPECT_THAT(merged.place_of[0], ElementsAre(0, 3, 4));
  EXPECT_THAT(merged.place_of[1], ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(MergeSequencesTest, TwoThatAddTheSameShareItsPlaces) {
  const Merged merged = MergeSequences({{1, 2}, {1, 7, 2}, {1, 7, 2}}, 0);
  EXPECT_THAT(merged.symbols, ElementsAre(1, 7, 2));
  EXPECT_THAT(merged.place_of[2], ElementsAre(0, 1, 2));
}

TEST(MergeSequencesTest, AMissingChainOfALayerDoesNotReachIntoTheNext) {
  // Two layers of three chains 5 6, each layer ended by a symbol of its own.
  const std::vector<uint64_t> all = {5, 6, 5, 6, 5, 6, 1, 5, 6, 5, 6, 5, 6, 2};
  const std::vector<uint64_t> less = {5, 6, 5, 6, 1, 5, 6, 5, 6, 5, 6, 2};
  for (size_t model : {0, 1}) {
    const Merged merged = MergeSequences({all, less}, model);
    EXPECT_EQ(merged.symbols, all) << "model " << model;
    EXPECT_EQ(merged.place_of[1][4], 6u) << "model " << model;
    EXPECT_EQ(merged.place_of[1].back(), 13u) << "model " << model;
  }
}

TEST(MergeSequencesTest, EmptySequencesHaveNoPlaces) {
  EXPECT_THAT(MergeSequences({{}, {}}, 0).symbols, IsEmpty());
  const Merged merged = MergeSequences({{}, {4, 5}, {}}, 0);
  EXPECT_THAT(merged.symbols, ElementsAre(4, 5));
  EXPECT_THAT(merged.place_of[2], IsEmpty());
}

TEST(MergeSequencesTest, EverySequenceIsFoundInItsPlacesWhateverDiffers) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<uint64_t>> sequences(2 + random() % 4);
    std::vector<uint64_t> base(random() % 60);
    for (uint64_t& symbol : base) symbol = random() % 9;
    for (auto& sequence : sequences) {
      for (uint64_t symbol : base) {
        if (random() % 8 == 0) continue;
        sequence.push_back(random() % 8 == 0 ? random() % 9 : symbol);
      }
    }
    const Merged merged = MergeSequences(sequences, random() % sequences.size());
    for (size_t s = 0; s < sequences.size(); ++s) {
      ASSERT_EQ(merged.place_of[s].size(), sequences[s].size());
      for (size_t i = 0; i < sequences[s].size(); ++i) {
        ASSERT_EQ(merged.symbols[merged.place_of[s][i]], sequences[s][i]);
        if (i > 0) {
          ASSERT_LT(merged.place_of[s][i - 1], merged.place_of[s][i]);
        }
      }
    }
  }
}

TEST(MakeRoomsTest, BlocksThatShareASumShareARoom) {
  // Sums of 4096 in every step; each alone is up to 3584.
  const auto rooms = MakeRooms({{0, 10, {512, 3584, 2048}}, {1, 10, {3584, 512, 2048}}});
  ASSERT_EQ(rooms.size(), 1u);
  EXPECT_THAT(rooms[0].members, ElementsAre(0, 1));
  EXPECT_EQ(rooms[0].bytes, 4096u);
  EXPECT_EQ(rooms[0].begin, 0u);
  EXPECT_EQ(rooms[0].end, 10u);
}

TEST(MakeRoomsTest, BlocksThatGrowTogetherHaveRoomsOfTheirOwn) {
  const auto rooms = MakeRooms({{0, 10, {512, 1024}}, {1, 10, {1024, 2048}}});
  ASSERT_EQ(rooms.size(), 2u);
  EXPECT_EQ(rooms[0].bytes, 1024u);
  EXPECT_EQ(rooms[1].bytes, 2048u);
}

TEST(MakeRoomsTest, ALongLifeIsNotJoinedWithAShortOne) {
  // Together 4096 for 100 units; apart 3584 for 100 and 3584 for 2: 365568 against 409600.
  const auto rooms = MakeRooms({{0, 100, {512, 3584}}, {1, 3, {3584, 512}}});
  EXPECT_EQ(rooms.size(), 2u);
}

TEST(RoomBytesTest, HolesBetweenUnequalBlocksCount) {
  // The first two leave a hole of 512 and one behind; the third is too large for the hole: it
  // comes behind the second, at 1536, although 1536 bytes are live at most.
  const std::vector<Varying> varying = {{0, 2, {512}}, {1, 9, {512}}, {2, 9, {1024}}};
  EXPECT_EQ(RoomBytes(varying, {0, 1, 2}), 2048u);
  EXPECT_EQ(RoomBytes(varying, {}), 0u);
}

TEST(MakeRoomsTest, RoomsHoldEveryStepThatTheyWereMadeFrom) {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    std::vector<Varying> varying;
    for (uint64_t i = 0; i < 60; ++i) {
      Varying one{.begin = i, .end = i + 1 + random() % 40};
      for (int step = 0; step < 5; ++step) one.bytes.push_back(512 * (random() % 20));
      varying.push_back(std::move(one));
    }
    size_t members = 0;
    for (const Room& room : MakeRooms(varying)) {
      members += room.members.size();
      EXPECT_EQ(room.bytes, RoomBytes(varying, room.members));
      for (uint32_t i : room.members) {
        EXPECT_LE(room.begin, varying[i].begin);
        EXPECT_GE(room.end, varying[i].end);
      }
    }
    EXPECT_EQ(members, varying.size()) << "each place is in one room";
  }
}

}  // namespace
}  // namespace ebt::plan
