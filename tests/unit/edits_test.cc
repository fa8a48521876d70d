#include "src/plan/edits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/units.h"
#include "src/plan/clearance.h"
#include "tests/unit/training_profile.h"
#include "tests/unit/valid_plan.h"

namespace ebt::plan {
namespace {

using profile::Optimizer;
using profile::Training;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<Site>& Sites() {
  static const std::vector<Site> sites = {
      {0x10, "nn/linear.py:12 __init__"}, {0x11, "nn/linear.py:12 forward"}, {0x20, "adamw.py"}};
  return sites;
}

// Six layers whose state can be swapped.
Training WithSlabs() {
  return Training({.layers = 6,
                   .steps = 5,
                   .optimizer = Optimizer::kLoop,
                   .weight = 5 * kMiB,
                   .activation = 20 * kMiB});
}

Plan Planned(const profile::Profile& profile, const PlanOptions& options) {
  return ValidPlan(profile, options).plan;
}

TEST(FindSiteTest, NumberLabelOrAPartThatOneSiteAloneHas) {
  EXPECT_EQ(FindSite(Sites(), "0x11")->id, 0x11u);
  EXPECT_EQ(FindSite(Sites(), "nn/linear.py:12 forward")->id, 0x11u);
  EXPECT_EQ(FindSite(Sites(), "adam")->id, 0x20u);
}

TEST(FindSiteTest, AmbiguousPartListsTheSites) {
  const absl::Status status = FindSite(Sites(), "linear").status();
  EXPECT_EQ(status.message(),
            "\"linear\" may be any of 2 sites: 0x10 nn/linear.py:12 __init__; 0x11 nn/linear.py:12 "
            "forward");
}

TEST(FindSiteTest, UnknownNameSaysWhatASiteIs) {
  for (const char* name : {"0x12", "sgd", "", "0x", "0x11z"}) {
    EXPECT_THAT(std::string(FindSite(Sites(), name).status().message()),
                HasSubstr("a site is its number"))
        << name;
  }
}

TEST(RecordedSitesTest, AreThoseOfBlocksTheLargestFirst) {
  const Training training({.layers = 4, .steps = 5});
  const std::vector<Site> sites = RecordedSites(training.profile);
  // Activations: 5 steps of 4 times 2 MiB; the batch has a fourth of that, and no label.
  ASSERT_GE(sites.size(), 2u);
  EXPECT_EQ(sites[0].id, profile::kActivationSite);
  EXPECT_EQ(sites[0].label, "nn/modules/gelu.py:34 forward");
  EXPECT_EQ(FindSite(sites, "site 0x6")->id, profile::kBatchSite);
}

TEST(AddPinTest, PinsAndExclusionsReplaceOneAnother) {
  PlanOptions options;
  ASSERT_TRUE(AddPin(Sites(), "adam=cold", &options).ok());
  EXPECT_EQ(options.pinned.at(0x20), Tier::kCold);
  ASSERT_TRUE(AddExclusion(Sites(), "adam", &options).ok());
  EXPECT_THAT(options.pinned, IsEmpty());
  EXPECT_THAT(options.excluded, ElementsAre(0x20));
  ASSERT_TRUE(AddPin(Sites(), "0x20=hot", &options).ok());
  EXPECT_THAT(options.excluded, IsEmpty());
  ASSERT_TRUE(AddPin(Sites(), "0x20=none", &options).ok());
  EXPECT_THAT(options.pinned, IsEmpty());
}

TEST(AddPinTest, WhatIsNoPinIsAnError) {
  PlanOptions options;
  EXPECT_THAT(std::string(AddPin(Sites(), "adam", &options).message()), HasSubstr("SITE=TIER"));
  EXPECT_THAT(std::string(AddPin(Sites(), "adam=native", &options).message()),
              HasSubstr("none of the tiers"));
  EXPECT_THAT(std::string(AddPin(Sites(), "linear=hot", &options).message()), HasSubstr("2 sites"));
}

TEST(EditsTest, PinnedAndExcludedSitesLieWhereTheEditSays) {
  const Training training = WithSlabs();
  PlanOptions options;
  options.pinned = {{profile::kStateSite, Tier::kWarm}, {profile::kWeightSite, Tier::kCold}};
  options.excluded = {profile::kActivationSite};
  const Plan plan = Planned(training.profile, options);
  for (const auto* slots : {&plan.prologue, &plan.step}) {
    for (const Slot& slot : *slots) {
      if (slot.site == profile::kStateSite) {
        EXPECT_EQ(slot.tier, Tier::kWarm);
      }
      if (slot.site == profile::kWeightSite) {
        EXPECT_EQ(slot.tier, Tier::kCold);
      }
      if (slot.site == profile::kActivationSite) {
        EXPECT_EQ(slot.tier, Tier::kNative);
      }
    }
  }
  for (const Site& site : plan.sites) {
    EXPECT_EQ(site.pin == Tier::kWarm, site.id == profile::kStateSite);
    EXPECT_EQ(site.pin == Tier::kCold, site.id == profile::kWeightSite);
    EXPECT_EQ(site.exclude, site.id == profile::kActivationSite);
  }
}

TEST(EditsTest, SiteWithoutAFrameIsListedForItsEdit) {
  const Training training({.layers = 2, .steps = 5});
  PlanOptions options;
  options.pinned = {{profile::kBatchSite, Tier::kHot}};
  const Plan plan = Planned(training.profile, options);
  EXPECT_EQ(std::count_if(plan.sites.begin(), plan.sites.end(),
                          [](const Site& site) {
                            return site.id == profile::kBatchSite && site.pin == Tier::kHot;
                          }),
            1);
}

TEST(UpdateTest, BudgetWeightsAndEditsAreTakenOver) {
  const Training training = WithSlabs();
  PlanOptions first;
  first.budget = uint64_t{1} << 30;
  first.weights = {3, 4, 5};
  first.hot_threshold = 0.75;
  first.hot_share = 0.25;
  first.warm_share = 0.5;
  first.pinned = {{profile::kWeightSite, Tier::kHot}};
  first.excluded = {profile::kBatchSite};
  const Plan old = Planned(training.profile, first);
  PlanOptions options;
  Update update = TakeOver(old, RecordedSites(training.profile), &options);
  CountKept(old, options, &update);
  EXPECT_EQ(options.budget, first.budget);
  EXPECT_EQ(options.weights.forward, 3);
  EXPECT_EQ(options.weights.backward, 4);
  EXPECT_EQ(options.weights.coupling, 5);
  EXPECT_EQ(options.hot_threshold, 0.75);
  EXPECT_EQ(options.hot_share, 0.25);
  EXPECT_EQ(options.warm_share, 0.5);
  EXPECT_EQ(options.pinned, first.pinned);
  EXPECT_EQ(options.excluded, first.excluded);
  EXPECT_EQ(
      UpdateText(update, "a.plan.json"),
      "kept of a.plan.json: a budget of 1.00 GiB, the weights of hotness, 1 pin, 1 exclusion");
  options.budget = 1;
  options.weights.forward = 9;
  options.pinned[profile::kWeightSite] = Tier::kCold;
  options.excluded.clear();
  CountKept(old, options, &update);
  EXPECT_EQ(UpdateText(update, "a.plan.json"), "kept of a.plan.json: nothing");
}

TEST(UpdateTest, PlanningAnewWithWhatWasKeptIsTheSamePlan) {
  const Training training = WithSlabs();
  PlanOptions first;
  first.source = "a.ebp";
  first.pinned = {{profile::kActivationSite, Tier::kHot}};
  const Plan old = Planned(training.profile, first);
  PlanOptions options;
  options.source = "a.ebp";
  TakeOver(old, RecordedSites(training.profile), &options);
  const Plan again = Planned(training.profile, options);
  ASSERT_EQ(again.step.size(), old.step.size());
  for (size_t i = 0; i < old.step.size(); ++i) {
    EXPECT_EQ(again.step[i].offset, old.step[i].offset);
    EXPECT_EQ(again.step[i].tier, old.step[i].tier);
  }
}

TEST(UpdateTest, EditOfASiteThatTheRecordingLacksIsDropped) {
  Plan old;
  old.sites = {{0x99, "gone.py:1 f", Tier::kHot}, {0x98, "gone.py:2 g", std::nullopt, true}};
  PlanOptions options;
  Update update = TakeOver(old, Sites(), &options);
  CountKept(old, options, &update);
  EXPECT_THAT(options.pinned, IsEmpty());
  EXPECT_THAT(options.excluded, IsEmpty());
  EXPECT_EQ(UpdateText(update, "old"),
            "kept of old: nothing; no longer applies: the pin of 0x99 (not in the recording), the "
            "exclusion of 0x98 (not in the recording)");
}

TEST(UpdateTest, PlanOfAnOlderSchemaLeavesTheWeightsAlone) {
  PlanOptions options;
  options.weights.coupling = 7;
  TakeOver(Plan{}, Sites(), &options);
  EXPECT_EQ(options.weights.coupling, 7);
}

TEST(UpdateTest, ClearancesStayForSitesThatStillLieInSlabs) {
  const Training training = WithSlabs();
  Plan plan = Planned(training.profile, {});
  ASSERT_THAT(SwappableSites(plan), ElementsAre(profile::kStateSite));
  Plan old;
  old.cleared = {{.sites = {profile::kStateSite, profile::kWeightSite}, .command = "a"},
                 {.sites = {profile::kWeightSite}, .command = "b"}};
  Update update;
  KeepClearances(old, &plan, &update);
  ASSERT_EQ(plan.cleared.size(), 1u);
  EXPECT_EQ(plan.cleared[0].command, "a");
  EXPECT_THAT(plan.cleared[0].sites, ElementsAre(profile::kStateSite));
  EXPECT_EQ(UpdateText(update, "old"),
            "kept of old: 1 cleared site; no longer applies: the clearance of 0x1 (no longer in a "
            "slab)");
}

}  // namespace
}  // namespace ebt::plan
