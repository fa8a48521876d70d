#include "src/plan/clearance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/units.h"

namespace ebt::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Slot Cold(uint64_t site, uint64_t offset, uint64_t bytes) {
  Slot slot;
  slot.site = site;
  slot.tier = Tier::kCold;
  slot.offset = offset;
  slot.bytes = bytes;
  slot.persistent = true;
  return slot;
}

// 4 MiB warm, then two slabs of 2 MiB, then other cold blocks.
Plan TwoSlabs() {
  Plan plan;
  plan.warm_bytes = 4 * kMiB;
  plan.cold_bytes = 8 * kMiB;
  plan.slab_bytes = 2 * kMiB;
  plan.slabs.resize(2);
  plan.prologue = {Cold(7, 6 * kMiB, 512), Cold(5, 4 * kMiB, 1024), Cold(7, 8 * kMiB - 512, 512),
                   Cold(9, 8 * kMiB, 512)};
  return plan;
}

Clearance Of(std::vector<uint64_t> sites, const std::string& command) {
  Clearance clearance;
  clearance.sites = std::move(sites);
  clearance.command = command;
  clearance.gpu = "H200";
  clearance.driver_version = 13000;
  clearance.ebbtide = EBBTIDE_VERSION;
  clearance.steps = 3;
  return clearance;
}

TEST(SwappableSitesTest, AreThoseOfPersistentColdBlocksInTheSlabs) {
  Plan plan = TwoSlabs();
  EXPECT_THAT(SwappableSites(plan), ElementsAre(5, 7));
  EXPECT_EQ(SwappableBytes(plan, 7), 1024u);
  EXPECT_EQ(SwappableBytes(plan, 9), 0u);
  plan.prologue[1].persistent = false;
  plan.prologue[0].tier = Tier::kWarm;
  EXPECT_THAT(SwappableSites(plan), ElementsAre(7));
  plan.slabs.clear();
  EXPECT_THAT(SwappableSites(plan), IsEmpty());
}

TEST(ClearedSitesTest, AreTheUnionOfWhatHoldsHere) {
  Plan plan;
  plan.cleared = {Of({5, 7}, "a"), Of({3, 5}, "b"), Of({1}, "c"), Of({2}, "d"), Of({4}, "e")};
  plan.cleared[2].gpu = "A100";
  plan.cleared[3].driver_version = 12080;
  plan.cleared[4].ebbtide = "0.0.1";
  EXPECT_THAT(ClearedSites(plan, 13000, "H200"), ElementsAre(3, 5, 7));
  EXPECT_THAT(ClearedSites(plan, 13000, "A100"), ElementsAre(1));
}

TEST(ClearedSitesTest, WhyOthersDoNotCountIsOneLine) {
  Plan plan;
  plan.cleared = {Of({5}, "a")};
  EXPECT_EQ(WhyNotCleared(plan, 13000, "H200"), "");
  EXPECT_EQ(WhyNotCleared(plan, 12080, "H200"),
            "what was cleared with driver 13.0, not 12.8 does not count; run ebbtide verify again "
            "here");
  plan.cleared.push_back(Of({6}, "b"));
  EXPECT_THAT(WhyNotCleared(plan, 13000, "A100"), HasSubstr("on H200, not A100"));
  EXPECT_THAT(WhyNotCleared(plan, 13000, "A100"), HasSubstr("1 more"));
}

TEST(AddClearanceTest, TakesThePlaceOfTheOneWithTheSameCommand) {
  Plan plan;
  plan.cleared = {Of({5, 7}, "train"), Of({7}, "other")};
  AddClearance(Of({9, 5}, "train"), {}, &plan);
  ASSERT_EQ(plan.cleared.size(), 2u);
  EXPECT_EQ(plan.cleared[0].command, "other");
  EXPECT_THAT(plan.cleared[1].sites, ElementsAre(5, 9));
}

TEST(AddClearanceTest, ARefusedSiteLeavesEveryOtherOne) {
  Plan plan;
  plan.cleared = {Of({5, 7}, "train"), Of({7}, "other")};
  AddClearance(Of({}, "third"), {7}, &plan);
  ASSERT_EQ(plan.cleared.size(), 1u);
  EXPECT_THAT(plan.cleared[0].sites, ElementsAre(5));
}

}  // namespace
}  // namespace ebt::plan
