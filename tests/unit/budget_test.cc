#include "src/plan/budget.h"

#include <gtest/gtest.h>

#include "src/plan/planner.h"
#include "src/plan/validator.h"
#include "tests/unit/training_profile.h"

namespace ebt::plan {
namespace {

using profile::Optimizer;
using profile::ProfileBuilder;
using profile::Training;

constexpr uint64_t kMiB = uint64_t{1} << 20;

PlanResult Planned(const profile::Profile& profile, PlanOptions options) {
  auto result = MakePlan(profile, options);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : PlanResult{};
}

PlanResult Planned(const profile::Profile& profile, uint64_t budget) {
  PlanOptions options;
  options.budget = budget;
  return Planned(profile, options);
}

constexpr uint64_t kKeptSite = 1, kLongSite = 2, kShortSite = 3, kShorterSite = 4;
constexpr uint32_t kLaunches = 100;

// A step of 100 launches, each of a kernel of its own. 4 MiB live across steps and are used by
// launches 0 and 50, 6 MiB live from launch 10 to 60, and just before launch 20 two blocks of 8 and
// 2 MiB are made that are gone behind it.
profile::Profile ShortBlocks() {
  ProfileBuilder builder;
  for (uint32_t i = 0; i < kLaunches; ++i) {
    builder.profile.functions.push_back({i, "kernel " + std::to_string(i)});
  }
  const uint32_t kept = builder.Alloc(4 * kMiB, kKeptSite);
  for (int step = 0; step < 5; ++step) {
    uint32_t held = 0, large = 0, small = 0;
    builder.Step();
    for (uint32_t i = 0; i < kLaunches; ++i) {
      if (i == 10) held = builder.Alloc(6 * kMiB, kLongSite);
      if (i == 20) {
        large = builder.Alloc(8 * kMiB, kShortSite);
        small = builder.Alloc(2 * kMiB, kShorterSite);
        builder.Launch(i, {large, small});
        builder.Free(small);
        builder.Free(large);
        continue;
      }
      if (i == 0 || i == 50) {
        builder.Launch(i, {kept});
      } else if (i == 10 || i == 59) {
        builder.Launch(i, {held});
      } else {
        builder.Launch(i, {});
      }
      if (i == 59) builder.Free(held);
    }
    builder.Mark();
  }
  return builder.profile;
}

TEST(BudgetTest, CertificateNamesTheMomentAndWhatCannotLeaveThen) {
  const PlanResult result = Planned(ShortBlocks(), 8 * kMiB);
  EXPECT_FALSE(result.summary.feasible);
  const Certificate& certificate = result.summary.certificate;
  EXPECT_EQ(certificate.smallest_budget, 10 * kMiB);
  EXPECT_EQ(certificate.launch, 20u);
  EXPECT_EQ(certificate.kernel, "kernel 20");
  EXPECT_FALSE(certificate.in_warm_up);
  EXPECT_EQ(certificate.live_bytes, 10 * kMiB);
  ASSERT_EQ(certificate.sites.size(), 2u);
  EXPECT_EQ(certificate.sites[0].site, kShortSite);
  EXPECT_EQ(certificate.sites[0].bytes, 8 * kMiB);
  EXPECT_EQ(certificate.sites[0].blocks, 1u);
  EXPECT_EQ(certificate.sites[0].why, "in use for as long as it lives");
  EXPECT_EQ(certificate.sites[1].site, kShorterSite);
  EXPECT_NE(result.summary.infeasible_reason.find("before launch 20 of a step (kernel 20)"),
            std::string::npos)
      << result.summary.infeasible_reason;
}

TEST(BudgetTest, SmallestBudgetCanBeMetAndNothingBelowIt) {
  const profile::Profile profile = ShortBlocks();
  const PlanResult met = Planned(profile, 10 * kMiB);
  EXPECT_TRUE(met.summary.feasible) << met.summary.infeasible_reason;
  EXPECT_EQ(met.summary.certificate.smallest_budget, 0u);
  EXPECT_LE(met.summary.predicted_peak_bytes, 10 * kMiB);
  EXPECT_TRUE(ValidatePlan(profile, met.plan).ok()) << ValidatePlan(profile, met.plan);
  EXPECT_FALSE(Planned(profile, 10 * kMiB - 1).summary.feasible);
}

TEST(BudgetTest, SmallestBudgetsOfTrainingAreExactToo) {
  for (auto optimizer : {Optimizer::kFused, Optimizer::kForeach, Optimizer::kLoop}) {
    Training training({.layers = 6, .steps = 5, .optimizer = optimizer});
    const PlanResult none = Planned(training.profile, 1 * kMiB);
    ASSERT_FALSE(none.summary.feasible);
    const uint64_t smallest = none.summary.certificate.smallest_budget;
    EXPECT_TRUE(Planned(training.profile, smallest).summary.feasible) << smallest;
    EXPECT_FALSE(Planned(training.profile, smallest - 1).summary.feasible) << smallest;
  }
}

TEST(BudgetTest, WhatIsIdleLeavesBeforeWhatIsUsedInPlaceAndTheCheapestOfThatFirst) {
  const profile::Profile profile = ShortBlocks();
  auto timeline = BuildTimeline(profile);
  ASSERT_TRUE(timeline.ok());
  const StepClock clock = ReadClock(profile, *timeline);
  const DeviceModel device;
  CandidateRules rules{.profile = profile, .timeline = *timeline, .clock = clock, .device = device};
  rules.movable.assign(timeline->lives.size(), true);
  rules.state.assign(timeline->lives.size(), false);
  rules.live.assign(kLaunches, 4 * kMiB);
  for (int i = 10; i < 60; ++i) rules.live[i] = 10 * kMiB;
  rules.room = 5 * kMiB;
  rules.slabs = true;
  std::vector<Candidate> order = OrderCandidates(rules);
  ASSERT_EQ(order.size(), 2u);  // not what lives for a launch
  EXPECT_TRUE(order[0].swapped);
  EXPECT_EQ(profile.blocks[timeline->lives[order[0].lives[0]].block].site, kKeptSite);
  EXPECT_FALSE(order[1].swapped);
  // Of 10 MiB above 5 the block of 6 takes 5 for two touches of 6, that of 4 takes 4 for two of 4.
  rules.slabs = false;
  order = OrderCandidates(rules);
  EXPECT_EQ(profile.blocks[timeline->lives[order[0].lives[0]].block].site, kKeptSite);
}

TEST(BudgetTest, NoPlanIsPredictedFasterThanItsBound) {
  for (auto optimizer : {Optimizer::kFused, Optimizer::kForeach, Optimizer::kLoop}) {
    for (uint64_t weight : {kMiB, 8 * kMiB, 40 * kMiB}) {
      Training training({.layers = 6,
                         .steps = 5,
                         .optimizer = optimizer,
                         .frees_gradients = weight != kMiB,
                         .weight = weight,
                         .activation = 12 * kMiB});
      const uint64_t native = Planned(training.profile, uint64_t{0}).summary.native_peak_bytes;
      for (uint64_t part : {100, 90, 80, 70, 60, 50, 40}) {
        const PlanResult result = Planned(training.profile, native * part / 100);
        EXPECT_GE(result.summary.predicted_step_ms, result.summary.bound_step_ms - 1e-9)
            << int(optimizer) << " " << weight << " " << part;
        if (result.summary.predicted_step_ms > 1.05 * result.summary.bound_step_ms) {
          EXPECT_NE(result.summary.time_reason, "");
        }
        if (!result.summary.feasible) continue;
        EXPECT_LE(result.summary.predicted_peak_bytes, native * part / 100);
        const absl::Status valid = ValidatePlan(training.profile, result.plan);
        EXPECT_TRUE(valid.ok()) << int(optimizer) << weight << " " << part << ": " << valid;
      }
    }
  }
}

TEST(BudgetTest, WeightsThatNothingUsesForLongAreSwapped) {
  // 16 layers of 6 MiB, used once in forward and once in backward; the optimizer's state alone is
  // not enough: 60 % of the peak. All that is cold lies in slabs.
  Training training({.layers = 16,
                     .steps = 5,
                     .optimizer = Optimizer::kLoop,
                     .weight = 6 * kMiB,
                     .activation = 2 * kMiB});
  const PlanResult free = Planned(training.profile, uint64_t{0});
  const PlanResult result = Planned(training.profile, free.summary.native_peak_bytes * 45 / 100);
  ASSERT_TRUE(result.summary.feasible) << result.summary.infeasible_reason;
  bool weights = false;
  for (const Slot& slot : result.plan.prologue) {
    weights = weights || (slot.site == profile::kWeightSite && slot.tier == Tier::kCold);
  }
  EXPECT_TRUE(weights);
  EXPECT_TRUE(ValidatePlan(training.profile, result.plan).ok())
      << ValidatePlan(training.profile, result.plan);
}

TEST(BudgetTest, PinnedSitesStayWhereTheyAreAndExcludedOnesAreLeftToTheDriver) {
  Training training({.layers = 6, .steps = 5});
  PlanOptions options;
  options.budget = 22 * kMiB;
  options.pinned = {{profile::kStateSite, Tier::kWarm}, {profile::kActivationSite, Tier::kCold}};
  options.excluded = {profile::kGradientSite};
  const std::map<uint64_t, Tier> tiers = {{profile::kStateSite, Tier::kWarm},
                                          {profile::kActivationSite, Tier::kCold},
                                          {profile::kGradientSite, Tier::kNative}};
  const PlanResult result = Planned(training.profile, options);
  for (const auto* slots : {&result.plan.prologue, &result.plan.step}) {
    for (const Slot& slot : *slots) {
      if (!tiers.contains(slot.site)) continue;
      EXPECT_EQ(slot.tier, tiers.at(slot.site)) << slot.site;
    }
  }
}

TEST(BudgetTest, ShareOfWarmBlocksSendsWhatExceedsItToTheHost) {
  Training training({.layers = 6, .steps = 5});
  PlanOptions options;
  options.warm_share = 0.5;
  const PlanResult result = Planned(training.profile, options);
  // 33 MiB and the loss live at most.
  EXPECT_LE(result.summary.tiers[size_t(Tier::kWarm)].bytes, 33 * kMiB / 2 + 512);
  EXPECT_TRUE(ValidatePlan(training.profile, result.plan).ok())
      << ValidatePlan(training.profile, result.plan);
}

}  // namespace
}  // namespace ebt::plan
