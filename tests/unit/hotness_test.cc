#include "src/plan/hotness.h"

#include <gtest/gtest.h>

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
