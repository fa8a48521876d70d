#include "src/plan/hotness.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/training_profile.h"

namespace ebt::plan {
namespace {

using callsite::Frame;
using profile::Optimizer;
using profile::ProfileBuilder;
using profile::Training;
using profile::TrainingShape;

void ExpectClasses(const TrainingShape& shape) {
  Training training(shape);
  auto timeline = BuildTimeline(training.profile);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  const Behaviour behaviour = Judge(training.profile, *timeline, {});
  for (size_t i = 0; i < timeline->lives.size(); ++i) {
    const Lived& life = timeline->lives[i];
    if (!life.in_step && life.span != Span::kPersistent) continue;
    const uint64_t site = training.profile.blocks[life.block].site;
    const BlockClass block_class = behaviour.traits[i].block_class;
    EXPECT_EQ(block_class == BlockClass::kOptimizerState, site == profile::kStateSite)
        << "site " << site;
    if (site == profile::kWeightSite) {
      EXPECT_EQ(block_class, BlockClass::kParameter);
    }
    if (site == profile::kGradientSite) {
      EXPECT_EQ(block_class, BlockClass::kGradient);
    }
    if (site == profile::kActivationSite) {
      EXPECT_EQ(block_class, BlockClass::kActivation);
    }
  }
}

TEST(HotnessTest, FusedOptimizerIsRecognisedByBehaviour) {
  ExpectClasses({.layers = 12, .steps = 4, .optimizer = Optimizer::kFused});
}

TEST(HotnessTest, ForeachOptimizerIsRecognisedByBehaviour) {
  ExpectClasses({.layers = 12, .steps = 4, .optimizer = Optimizer::kForeach});
}

TEST(HotnessTest, OptimizerThatTakesHalfTheStepIsRecognisedAsAWhole) {
  ExpectClasses({.layers = 24, .steps = 4, .optimizer = Optimizer::kLoop});
}

TEST(HotnessTest, TurnIsWhereForwardEnds) {
  Training training({.layers = 4, .steps = 5});
  auto timeline = BuildTimeline(training.profile);
  ASSERT_TRUE(timeline.ok());
  // Launches 0 to 7 are the layers; the last one's activation is made before launch 7. (The loss
  // outlives the step's last launch, so it is not the step's own.)
  EXPECT_EQ(Judge(training.profile, *timeline, {}).turn, 7u);
}

TEST(HotnessTest, HeatIsTheWeightedNumberOfTouches) {
  // Three launches; "often" is touched by all, "late" by the last only. The step's own block is
  // made before the first launch, so the turn is at launch 0.
  ProfileBuilder builder;
  const uint32_t often = builder.Alloc(4096, 1), late = builder.Alloc(4096, 2);
  builder.Launch(9, {});
  for (int step = 0; step < 4; ++step) {
    builder.Step();
    const uint32_t own = builder.Alloc(8192, 3);
    builder.Launch(1, {often});
    builder.Launch(2, {often});
    builder.Launch(3, {often, late});
    builder.Free(own);
  }
  builder.Step();
  auto timeline = BuildTimeline(builder.profile);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  const HotnessWeights weights{.forward = 1, .backward = 10, .coupling = 100};
  const Behaviour behaviour = Judge(builder.profile, *timeline, weights);
  ASSERT_EQ(timeline->lives[0].block, often);
  // By touches: often 1 + 10 + 10, late 10; mean 15.5, deviation 5.5, so often is hot above
  // 18.25. Late's only neighbour is hot: coupling 1. Often has a neighbour in one of three.
  EXPECT_DOUBLE_EQ(behaviour.traits[0].heat, 21);
  EXPECT_DOUBLE_EQ(behaviour.traits[1].heat, 10 + 100);
  EXPECT_DOUBLE_EQ(behaviour.traits[0].idle, 0);
  EXPECT_NEAR(behaviour.traits[1].idle, 2 / 3.0, 1e-12);
}

// Eight steps of four launches. "steady" is touched by the first and the last launch of each; two
// experts by one launch each, one in all of the steps but two, the other in the two. The step's own
// block is made before the first launch: the turn is there.
ProfileBuilder WithExperts() {
  ProfileBuilder builder;
  const uint32_t steady = builder.Alloc(4096, 1), often = builder.Alloc(4096, 2),
                 seldom = builder.Alloc(4096, 3), chance = builder.Alloc(4096, 4);
  builder.Launch(9, {});
  for (int step = 0; step < 8; ++step) {
    builder.Step();
    const uint32_t own = builder.Alloc(8192, 5);
    builder.Launch(1, {steady});
    builder.Launch(2, {step % 4 == 3 ? seldom : often});
    builder.Launch(3, {});
    builder.Launch(4, {steady});
    if (step == 2) builder.profile.events.back().touched.push_back(chance);
    builder.Free(own);
  }
  builder.Step();
  return builder;
}

TEST(HotnessTest, ExpertsWeighHowManyOfTheStepsTouchThem) {
  const ProfileBuilder builder = WithExperts();
  auto timeline = BuildTimeline(builder.profile);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  ASSERT_EQ(timeline->steps.steps, 8u);
  const HotnessWeights weights{.forward = 1, .backward = 10, .coupling = 0};
  const Behaviour behaviour = Judge(builder.profile, *timeline, weights);
  const auto& traits = behaviour.traits;
  EXPECT_DOUBLE_EQ(traits[0].frequency, 1);
  EXPECT_DOUBLE_EQ(traits[0].heat, 1 + 10);
  EXPECT_DOUBLE_EQ(traits[1].frequency, 0.75);
  EXPECT_DOUBLE_EQ(traits[1].backward, 1);
  EXPECT_DOUBLE_EQ(traits[1].heat, 0.75 * 10);
  // Most steps do not touch it, so it has no touches; its heat is there all the same.
  EXPECT_TRUE(timeline->lives[2].touches.empty());
  EXPECT_DOUBLE_EQ(traits[2].frequency, 0.25);
  EXPECT_DOUBLE_EQ(traits[2].heat, 0.25 * 10);
  // What one step alone touches may be a stale word.
  EXPECT_DOUBLE_EQ(traits[3].heat, 0);
  EXPECT_FALSE(traits[3].hot);
}

TEST(HotnessTest, ThresholdIsInDeviationsAboveTheMean) {
  const ProfileBuilder builder = WithExperts();
  auto timeline = BuildTimeline(builder.profile);
  ASSERT_TRUE(timeline.ok());
  const HotnessWeights weights{.forward = 1, .backward = 10, .coupling = 0};
  // 11, 7.5 and 2.5: mean 7, variance (16 + 0.25 + 20.25) / 3.
  const Behaviour low = Judge(builder.profile, *timeline, weights, 0);
  EXPECT_DOUBLE_EQ(low.heat_mean, 7);
  EXPECT_NEAR(low.heat_deviation, std::sqrt(36.5 / 3), 1e-12);
  EXPECT_DOUBLE_EQ(low.hot_above, 7);
  EXPECT_TRUE(low.traits[0].hot);
  EXPECT_TRUE(low.traits[1].hot);
  EXPECT_FALSE(low.traits[2].hot);
  const Behaviour high = Judge(builder.profile, *timeline, weights, 0.5);  // above 8.74
  EXPECT_TRUE(high.traits[0].hot);
  EXPECT_FALSE(high.traits[1].hot);
  const Behaviour none = Judge(builder.profile, *timeline, weights, 2);  // above 13.98
  EXPECT_FALSE(none.traits[0].hot);
}

TEST(HotnessTest, BackwardWeighsMostOnOneDeviceAndCouplingOnSeveral) {
  ProfileBuilder builder = WithExperts();
  const HotnessWeights one = DefaultWeights(builder.profile, false);
  EXPECT_GT(one.backward, one.forward);
  EXPECT_GT(one.backward, one.coupling);
  const HotnessWeights ranks = DefaultWeights(builder.profile, true);
  EXPECT_GT(ranks.coupling, ranks.backward);
  builder.profile.metadata["rank"] = "1";
  EXPECT_EQ(DefaultWeights(builder.profile, false).coupling, ranks.coupling);
  builder.profile.metadata.clear();
  builder.profile.blocks[1].device = 1;
  EXPECT_EQ(DefaultWeights(builder.profile, false).coupling, ranks.coupling);
  builder.profile.blocks[1].device = 0;
  builder.Copy(0, profile::CopyKind::kPeer);
  EXPECT_EQ(DefaultWeights(builder.profile, false).coupling, ranks.coupling);
}

TEST(HotnessTest, LabelIsTheInnermostPythonFrame) {
  const callsite::Site site{
      7,
      {{Frame::Kind::kNative, "ab", 1, "cudaMalloc", "/lib/libcudart.so"},
       {Frame::Kind::kPython, "/usr/lib/python3/torch/optim/adamw.py", 128, "_init_group", ""},
       {Frame::Kind::kPython, "/home/me/train.py", 3, "main", ""}}};
  EXPECT_EQ(SiteLabel(site), "torch/optim/adamw.py:128 _init_group");
}

TEST(HotnessTest, LabelWithoutPythonIsTheInnermostNamedFrame) {
  callsite::Site site{7,
                      {{Frame::Kind::kNative, "ab", 1, "", "/opt/a/lib.so"},
                       {Frame::Kind::kNative, "cd", 2, "Trainer::Reserve", "/opt/my/bin/trainer"}}};
  EXPECT_EQ(SiteLabel(site), "my/bin/trainer Trainer::Reserve");
  site.frames.clear();
  EXPECT_EQ(SiteLabel(site), "site 0x7");
}

TEST(HotnessTest, LabelWithoutNamesSaysWhereItIs) {
  const callsite::Site site{7, {{Frame::Kind::kNative, "ab12", 0x1f0, "", "/opt/a/lib.so"}}};
  EXPECT_EQ(SiteLabel(site), "lib.so+0x1f0");
}

TEST(HotnessTest, ShortPathsStayWhole) {
  const callsite::Site site{1, {{Frame::Kind::kPython, "train.py", 9, "<module>", ""}}};
  EXPECT_EQ(SiteLabel(site), "train.py:9 <module>");
}

}  // namespace
}  // namespace ebt::plan
