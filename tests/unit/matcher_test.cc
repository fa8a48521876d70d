#include "src/replay/matcher.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace ebt::replay {
namespace {

using plan::Plan;
using plan::Slot;

// Sizes tell the slots apart; the fingerprint of a site is ten times its number.
Slot Block(uint64_t bytes, uint64_t site) {
  Slot slot;
  slot.bytes = bytes;
  slot.site = site;
  slot.fingerprint = site * 10;
  return slot;
}

// A run that follows a plan; `site` is where its next allocation comes from.
class MatcherTest : public ::testing::Test {
 protected:
  void Follow(std::vector<Slot> prologue, std::vector<Slot> step) {
    plan_.prologue = std::move(prologue);
    plan_.step = std::move(step);
    matcher_.emplace(plan_, [this] {
      ++sites_asked_;
      return site_;
    });
  }
  const Slot* Allocate(uint64_t bytes, uint64_t site) {
    site_ = site;
    return matcher_->Next(bytes, site * 10);
  }
  const Slot* prologue(size_t at) const { return &plan_.prologue[at]; }
  const Slot* step(size_t at) const { return &plan_.step[at]; }

  Plan plan_;
  std::optional<Matcher> matcher_;
  uint64_t site_ = 0;
  int sites_asked_ = 0;
};

TEST_F(MatcherTest, FollowsTheOrderWithoutAskingForSites) {
  Follow({Block(100, 1), Block(200, 2)}, {Block(300, 3), Block(400, 4)});
  EXPECT_EQ(Allocate(100, 1), prologue(0));
  EXPECT_EQ(Allocate(200, 2), prologue(1));
  EXPECT_EQ(matcher_->last(), nullptr);
  for (uint64_t turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(matcher_->steps(), turn);
    EXPECT_EQ(Allocate(300, 3), step(0));
    EXPECT_EQ(matcher_->last(), step(0));
    EXPECT_EQ(Allocate(400, 4), step(1));
  }
  EXPECT_EQ(matcher_->steps(), 3u);
  EXPECT_EQ(matcher_->matched(), 8u);
  EXPECT_EQ(matcher_->missed(), 0u);
  EXPECT_EQ(sites_asked_, 0);
}

TEST_F(MatcherTest, SameSizesInARowAreToldApartByOrder) {
  Follow({}, {Block(64, 1), Block(64, 1), Block(64, 1)});
  for (int turn = 0; turn < 2; ++turn)
    for (size_t at = 0; at < 3; ++at) EXPECT_EQ(Allocate(64, 1), step(at));
  EXPECT_EQ(matcher_->steps(), 2u);
}

TEST_F(MatcherTest, AnUnknownFingerprintOnEitherSideAgrees) {
  Follow({}, {Block(64, 1), Block(128, 2)});
  plan_.step[1].fingerprint = 0;
  EXPECT_EQ(matcher_->Next(64, 0), step(0));
  EXPECT_EQ(matcher_->Next(128, 999), step(1));
  EXPECT_EQ(sites_asked_, 0);
}

TEST_F(MatcherTest, ASkippedAllocationCostsNoneAfterIt) {
  Follow({}, {Block(10, 1), Block(20, 2), Block(30, 3), Block(40, 4)});
  EXPECT_EQ(Allocate(10, 1), step(0));
  EXPECT_EQ(Allocate(30, 3), step(2));  // 20 does not happen this time
  EXPECT_EQ(sites_asked_, 1);
  EXPECT_EQ(Allocate(40, 4), step(3));
  EXPECT_EQ(sites_asked_, 1);
  EXPECT_EQ(matcher_->steps(), 1u);
  EXPECT_EQ(Allocate(10, 1), step(0));
}

TEST_F(MatcherTest, AnExtraAllocationOfUnknownSizeIsMissedAndNoMore) {
  Follow({}, {Block(10, 1), Block(20, 2)});
  EXPECT_EQ(Allocate(10, 1), step(0));
  EXPECT_EQ(Allocate(999, 7), nullptr);
  EXPECT_EQ(sites_asked_, 0);  // no slot has this size: nothing to ask for
  EXPECT_EQ(Allocate(20, 2), step(1));
  EXPECT_EQ(matcher_->missed(), 1u);
}

TEST_F(MatcherTest, AnExtraAllocationOfAKnownSizeFromAnotherSiteIsMissed) {
  Follow({}, {Block(10, 1), Block(20, 2)});
  EXPECT_EQ(Allocate(10, 1), step(0));
  EXPECT_EQ(Allocate(20, 9), nullptr);
  EXPECT_EQ(Allocate(20, 2), step(1));
  EXPECT_EQ(matcher_->steps(), 1u);
}

TEST_F(MatcherTest, AnEvaluationInBetweenLeavesTheNextStepWhole) {
  Follow({}, {Block(10, 1), Block(20, 2), Block(30, 3)});
  for (size_t at = 0; at < 3; ++at) Allocate(10 * (at + 1), at + 1);
  for (int batch = 0; batch < 5; ++batch) {
    EXPECT_EQ(Allocate(15, 11), nullptr);
    EXPECT_EQ(Allocate(20, 12), nullptr);  // a size of the step, not its site
  }
  EXPECT_EQ(Allocate(10, 1), step(0));
  EXPECT_EQ(Allocate(20, 2), step(1));
  EXPECT_EQ(Allocate(30, 3), step(2));
  EXPECT_EQ(matcher_->steps(), 2u);
}

TEST_F(MatcherTest, ABrokenOffStepIsFollowedByAWholeOne) {
  Follow({}, {Block(10, 1), Block(20, 2), Block(30, 3)});
  EXPECT_EQ(Allocate(10, 1), step(0));
  EXPECT_EQ(Allocate(20, 2), step(1));
  EXPECT_EQ(Allocate(10, 1), step(0));  // no 30: begins anew
  EXPECT_EQ(matcher_->steps(), 1u);
  EXPECT_EQ(Allocate(20, 2), step(1));
  EXPECT_EQ(Allocate(30, 3), step(2));
  EXPECT_EQ(matcher_->steps(), 2u);
}

TEST_F(MatcherTest, AShorterPrologueGoesOverIntoTheStep) {
  Follow({Block(10, 1), Block(20, 2), Block(30, 3)}, {Block(40, 4), Block(50, 5)});
  EXPECT_EQ(Allocate(10, 1), prologue(0));
  EXPECT_EQ(Allocate(40, 4), step(0));
  EXPECT_EQ(sites_asked_, 1);
  EXPECT_EQ(Allocate(50, 5), step(1));
  EXPECT_EQ(sites_asked_, 1);
}

TEST_F(MatcherTest, ALongerPrologueIsMissedAndTheStepIsFound) {
  Follow({Block(10, 1)}, {Block(40, 4), Block(50, 5)});
  EXPECT_EQ(Allocate(10, 1), prologue(0));
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(Allocate(1000 + i, 8), nullptr);
  EXPECT_EQ(Allocate(40, 4), step(0));
  EXPECT_EQ(Allocate(50, 5), step(1));
  EXPECT_EQ(matcher_->steps(), 1u);
}

TEST_F(MatcherTest, OptimizerStateThatComesLateIsStillSetUp) {
  Follow({Block(10, 1), Block(77, 2), Block(77, 2)}, {Block(40, 4), Block(50, 5)});
  EXPECT_EQ(Allocate(10, 1), prologue(0));
  EXPECT_EQ(Allocate(40, 4), step(0));
  EXPECT_EQ(Allocate(50, 5), step(1));
  EXPECT_EQ(Allocate(40, 4), step(0));
  EXPECT_EQ(Allocate(77, 2), prologue(1));
  EXPECT_EQ(Allocate(77, 2), prologue(2));
  EXPECT_EQ(Allocate(77, 2), nullptr);  // a third was never planned
  EXPECT_EQ(Allocate(50, 5), step(1));
  EXPECT_EQ(matcher_->steps(), 2u);
}

TEST_F(MatcherTest, TheRightSizeFromTheWrongSiteIsNotInThePlan) {
  Follow({Block(10, 1)}, {Block(20, 2)});
  EXPECT_EQ(Allocate(10, 3), nullptr);
  EXPECT_EQ(Allocate(20, 3), nullptr);
  EXPECT_EQ(matcher_->missed(), 2u);
  EXPECT_EQ(Allocate(10, 1), prologue(0));
  EXPECT_EQ(Allocate(20, 2), step(0));
}

TEST_F(MatcherTest, AFingerprintThatChangedIsSettledByTheSite) {
  Follow({}, {Block(10, 1), Block(20, 2)});
  site_ = 1;
  EXPECT_EQ(matcher_->Next(10, 555), step(0));
  EXPECT_EQ(sites_asked_, 1);
}

TEST_F(MatcherTest, AnEmptyStepEndsWithThePrologue) {
  Follow({Block(10, 1)}, {});
  EXPECT_EQ(Allocate(10, 1), prologue(0));
  EXPECT_EQ(Allocate(10, 1), nullptr);
  EXPECT_EQ(Allocate(20, 2), nullptr);
  EXPECT_EQ(matcher_->steps(), 0u);
  EXPECT_EQ(matcher_->last(), nullptr);
}

TEST_F(MatcherTest, AnEmptyPlanKnowsNothing) {
  Follow({}, {});
  EXPECT_EQ(Allocate(10, 1), nullptr);
  EXPECT_EQ(matcher_->missed(), 1u);
}

TEST_F(MatcherTest, AStepOfOneAllocationIsCountedEachTime) {
  Follow({}, {Block(10, 1)});
  for (uint64_t turn = 1; turn <= 4; ++turn) {
    EXPECT_EQ(Allocate(10, 1), step(0));
    EXPECT_EQ(matcher_->steps(), turn);
  }
}

// The same, of any size up to `room`.
Slot Variable(uint64_t room, uint64_t site) {
  Slot slot = Block(room, site);
  slot.room_bytes = room;
  return slot;
}

TEST_F(MatcherTest, AVariableSlotIsItsPlaceWhateverTheSize) {
  Follow({}, {Block(100, 1), Variable(1024, 2), Block(300, 3)});
  for (uint64_t bytes : {1024, 7, 512}) {
    EXPECT_EQ(Allocate(100, 1), step(0));
    EXPECT_EQ(Allocate(bytes, 2), step(1));
    EXPECT_EQ(Allocate(300, 3), step(2));
  }
  EXPECT_EQ(sites_asked_, 0);
  EXPECT_EQ(matcher_->steps(), 3u);
}

TEST_F(MatcherTest, ABlockLargerThanItsRoomIsKnownAllTheSame) {
  // It does not fit, but the order goes on behind it.
  Follow({}, {Variable(1024, 2), Variable(1024, 2), Block(300, 3)});
  EXPECT_EQ(Allocate(2048, 2), step(0));
  EXPECT_EQ(Allocate(500, 2), step(1));
  EXPECT_EQ(Allocate(300, 3), step(2));
  EXPECT_EQ(matcher_->missed(), 0u);
}

TEST_F(MatcherTest, AStepThatLeavesVariableSlotsOutGoesOnAtTheNearestOfTheSite) {
  // An expert's chain is two blocks of sites 2 and 3; three experts, then site 4.
  Follow({}, {Variable(1024, 2), Variable(1024, 3), Variable(1024, 2), Variable(1024, 3),
              Variable(1024, 2), Variable(1024, 3), Block(300, 4)});
  EXPECT_EQ(Allocate(10, 2), step(0));
  EXPECT_EQ(Allocate(20, 3), step(1));
  EXPECT_EQ(Allocate(300, 4), step(6));  // two had nothing to do
  EXPECT_EQ(matcher_->steps(), 1u);
  EXPECT_EQ(Allocate(30, 3), step(1));  // one less at the begin
  EXPECT_EQ(Allocate(40, 2), step(2));
  EXPECT_EQ(matcher_->missed(), 0u);
}

TEST_F(MatcherTest, AFixedSlotAheadOfAVariableOneOfTheSiteIsTheNearer) {
  Follow({}, {Block(50, 1), Block(100, 2), Variable(1024, 2), Block(60, 1)});
  EXPECT_EQ(Allocate(100, 2), step(1));
  EXPECT_EQ(Allocate(60, 1), step(3));
  EXPECT_EQ(Allocate(70, 2), step(2));  // no fixed one has this size
}

TEST_F(MatcherTest, ADynamicSlotIsKnownByItsPlaceAndSiteAlone) {
  Slot anywhere = Block(100, 2);
  anywhere.dynamic = true;
  Follow({}, {Block(50, 1), anywhere});
  EXPECT_EQ(Allocate(50, 1), step(0));
  EXPECT_EQ(Allocate(uint64_t{1} << 40, 2), step(1));
  EXPECT_EQ(sites_asked_, 0);
}

}  // namespace
}  // namespace ebt::replay
