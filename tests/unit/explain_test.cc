#include "src/plan/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/report/explain_table.h"
#include "tests/unit/training_profile.h"
#include "tests/unit/valid_plan.h"

namespace ebt::plan {
namespace {

using profile::ProfileBuilder;
using profile::Training;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

Explanation Explained(const profile::Profile& profile, const PlanOptions& options, uint64_t site) {
  const PlanResult result = ValidPlan(profile, options);
  auto explanation = Explain(profile, options, result, {site, "x"});
  EXPECT_TRUE(explanation.ok()) << explanation.status();
  return explanation.ok() ? *std::move(explanation) : Explanation{};
}

// Three launches; "often" (site 1) is touched by all, "late" (2) by the last only. The step's own
// block is made before the first launch, so the turn is at launch 0.
profile::Profile OftenAndLate() {
  ProfileBuilder builder;
  const uint32_t often = builder.Alloc(kMiB, 1), late = builder.Alloc(2 * kMiB, 2);
  builder.Launch(9, {});
  for (int step = 0; step < 4; ++step) {
    builder.Step();
    const uint32_t own = builder.Alloc(8 * kMiB, 3);
    builder.Launch(1, {often});
    builder.Launch(2, {often});
    builder.Launch(3, {often, late});
    builder.Free(own);
  }
  builder.Step();
  return builder.profile;
}

TEST(ExplainTest, NumbersAreThoseOnPaper) {
  PlanOptions options;
  options.weights = {1, 10, 100};
  options.device.in_place = 1e9;
  options.device.managed_in = 2e9;
  options.device.managed_out = 1e9;
  const Explanation e = Explained(OftenAndLate(), options, 1);
  // Heat: often 1 + 10 + 10, its neighbour in one of three launches not hot; late 10 + 100. Mean
  // 65.5, deviation 44.5, so hot is above 87.75.
  EXPECT_DOUBLE_EQ(e.heat_mean, 65.5);
  EXPECT_DOUBLE_EQ(e.heat_deviation, 44.5);
  EXPECT_DOUBLE_EQ(e.hot_above, 87.75);
  EXPECT_EQ(e.turn, 0u);
  EXPECT_EQ(e.step_launches, 3u);
  EXPECT_EQ(e.budget, 0u);
  ASSERT_EQ(e.blocks.size(), 1u);
  const BlockReason& often = e.blocks[0];
  EXPECT_EQ(often.name, "prologue[0]");
  EXPECT_EQ(often.touches, 3u);
  EXPECT_DOUBLE_EQ(often.traits.forward, 1);
  EXPECT_DOUBLE_EQ(often.traits.backward, 2);
  EXPECT_DOUBLE_EQ(often.traits.coupling, 0);
  EXPECT_DOUBLE_EQ(often.traits.heat, 21);
  EXPECT_DOUBLE_EQ(often.traits.idle, 0);
  EXPECT_DOUBLE_EQ(often.idle_bytes, 0);
  EXPECT_EQ(often.slot.tier, Tier::kWarm);
  // A MiB at 1 GB/s, three times; in at 2 GB/s and out at 1.
  EXPECT_NEAR(often.in_place_ms, 3 * 1.048576, 1e-9);
  EXPECT_NEAR(often.move_ms, 1.5 * 1.048576, 1e-9);
  EXPECT_THAT(often.because, Contains(HasSubstr("heat 21 is not above 87.75")));
}

TEST(ExplainTest, NeighboursAreTheNearestThatLiveAtTheSameTime) {
  const profile::Profile profile = OftenAndLate();
  const Explanation often = Explained(profile, {}, 1), late = Explained(profile, {}, 2);
  ASSERT_EQ(often.blocks.size(), 1u);
  ASSERT_EQ(late.blocks.size(), 1u);
  const BlockReason& a = often.blocks[0];
  const BlockReason& b = late.blocks[0];
  const bool a_below = a.slot.offset < b.slot.offset;
  const Neighbour& of_lower = a_below ? a.above : b.above;
  EXPECT_TRUE(of_lower.there);
  EXPECT_EQ(of_lower.site, a_below ? 2u : 1u);
  EXPECT_EQ(of_lower.gap, 0u);
  EXPECT_FALSE((a_below ? a : b).below.there);
  EXPECT_FALSE((a_below ? b : a).above.there);  // nobody touches site 3: it is taken for a probe
}

TEST(ExplainTest, HotBlockSaysWhatRoomItHad) {
  PlanOptions options;
  options.weights = {1, 10, 100};
  options.hot_share = 1;
  const Explanation e = Explained(OftenAndLate(), options, 2);
  ASSERT_EQ(e.blocks.size(), 1u);
  EXPECT_EQ(e.blocks[0].slot.tier, Tier::kHot);
  EXPECT_THAT(e.blocks[0].because, Contains(HasSubstr("heat 110 is above 87.75")));
  EXPECT_THAT(e.blocks[0].because, Contains(HasSubstr("the 100 % for hot blocks had room")));
  options.hot_share = 0;
  const Explanation none = Explained(OftenAndLate(), options, 2);
  EXPECT_THAT(none.blocks[0].because, Contains(HasSubstr("had used up the 0 %")));
}

TEST(ExplainTest, ColdStateSaysWhyWithAndWithoutABudget) {
  const Training training({.layers = 4, .steps = 5});
  const Explanation free = Explained(training.profile, {}, profile::kStateSite);
  ASSERT_EQ(free.blocks.size(), 8u);
  for (const BlockReason& block : free.blocks) {
    EXPECT_EQ(block.slot.tier, Tier::kCold);
    // Touched by one of 14 launches.
    EXPECT_NEAR(block.traits.idle, 13.0 / 14, 1e-12);
    EXPECT_THAT(block.because,
                Contains(HasSubstr("idle for 92.9 % of the step goes cold without")));
  }
  PlanOptions options;
  options.budget = 18 * kMiB;
  const Explanation tight = Explained(training.profile, options, profile::kStateSite);
  EXPECT_EQ(tight.left_bytes, int64_t(18 * kMiB) - int64_t(tight.device_bytes));
  EXPECT_THAT(tight.blocks[0].because, Contains(HasSubstr("the budget of 18.00 MiB")));
}

TEST(ExplainTest, EditsComeFirst) {
  const Training training({.layers = 4, .steps = 5});
  PlanOptions options;
  options.pinned = {{profile::kStateSite, Tier::kWarm}};
  options.excluded = {profile::kActivationSite};
  const Explanation pinned = Explained(training.profile, options, profile::kStateSite);
  EXPECT_EQ(pinned.site.pin, Tier::kWarm);
  EXPECT_EQ(pinned.blocks[0].because[0], "its site is pinned to warm");
  const Explanation excluded = Explained(training.profile, options, profile::kActivationSite);
  EXPECT_TRUE(excluded.site.exclude);
  EXPECT_EQ(excluded.blocks[0].because[0], "its site is excluded");
}

TEST(ExplainTest, SiteOfTheWarmUpAloneIsNotFound) {
  ProfileBuilder builder;
  builder.profile = OftenAndLate();
  const auto result = MakePlan(builder.profile, {});
  const auto none = Explain(builder.profile, {}, *result, {77, "x"});
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("has no block"));
}

TEST(ExplainTableTest, TextAndJsonHaveTheNumbers) {
  PlanOptions options;
  options.weights = {1, 10, 100};
  const Explanation e = Explained(OftenAndLate(), options, 1);
  const std::string text = report::ExplainTable(e);
  EXPECT_THAT(text, HasSubstr("hot above 87.75 = mean 65.5 + 0.5 * deviation 44.5"));
  EXPECT_THAT(text, HasSubstr("prologue[0]: warm, "));
  EXPECT_THAT(text, HasSubstr("heat     21: forward 1, backward 2, coupling 0, in 1 of the steps"));
  const auto json = nlohmann::json::parse(report::ExplainJson(e));
  EXPECT_EQ(json["blocks"][0]["heat"], 21);
  EXPECT_EQ(json["blocks"][0]["tier"], "warm");
  EXPECT_EQ(json["site"], "0x1");
}

}  // namespace
}  // namespace ebt::plan
