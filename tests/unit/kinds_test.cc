#include "src/profile/kinds.h"

#include <gtest/gtest.h>

#include "tests/unit/training_loop.h"
#include "tests/unit/training_profile.h"

namespace ebt::profile {
namespace {

// What each site of Training is for; batch and loss aside, a site has one kind.
const std::map<uint64_t, Kind> kSiteKinds = {
    {kWeightSite, Kind::kParameter},           {kScratchSite, Kind::kTemporary},
    {kActivationSite, Kind::kActivation},      {kGradientSite, Kind::kGradient},
    {kStateSite, Kind::kOptimizerState},       {kBatchSite, Kind::kInput},
    {kOptimizerScratchSite, Kind::kTemporary},
};

void ExpectKinds(const TrainingShape& shape) {
  const Training training(shape);
  const auto kinds = FindKinds(training.profile, FindSteps(training.profile));
  ASSERT_EQ(kinds.size(), training.profile.blocks.size());
  std::map<std::pair<std::string_view, std::string_view>, uint64_t> wrong;
  for (const Block& block : training.profile.blocks) {
    const auto expected = kSiteKinds.find(block.site);
    if (expected == kSiteKinds.end() || expected->second == kinds[block.id]) continue;
    ++wrong[{KindName(expected->second), KindName(kinds[block.id])}];
  }
  for (const auto& [pair, count] : wrong) {
    ADD_FAILURE() << count << " blocks: " << pair.first << " taken for " << pair.second;
  }
}

TEST(KindsTest, SitesHaveTheirKindsUnderAFusedOptimizer) { ExpectKinds({.layers = 6, .steps = 5}); }
TEST(KindsTest, SitesHaveTheirKindsUnderAForeachOptimizer) {
  ExpectKinds({.layers = 6, .steps = 5, .optimizer = Optimizer::kForeach});
}
TEST(KindsTest, SitesHaveTheirKindsUnderAnOptimizerThatLoops) {
  ExpectKinds({.layers = 6, .steps = 5, .optimizer = Optimizer::kLoop});
}
TEST(KindsTest, GradientsThatStayAreGradients) {
  ExpectKinds({.layers = 6, .steps = 5, .frees_gradients = false});
}

// The share of the bytes, held at the moment when most are, whose kind is the loop's.
double AgreementAtThePeak(const TrainingLoop& loop) {
  const Profile& profile = loop.profile;
  const auto kinds = FindKinds(profile, FindSteps(profile));
  uint64_t live = 0, peak = 0, peak_at = 0;
  for (uint64_t at = 0; at < profile.events.size(); ++at) {
    const Event& event = profile.events[at];
    if (event.kind == EventKind::kAlloc) live += profile.blocks[event.block].bytes;
    if (event.kind == EventKind::kFree) live -= profile.blocks[event.block].bytes;
    if (live > peak) peak = live, peak_at = at;
  }
  uint64_t right = 0;
  for (const Block& block : profile.blocks) {
    const bool is_live = block.alloc_at <= peak_at && peak_at < block.free_at;
    if (is_live && kinds[block.id] == loop.kinds[block.id]) right += block.bytes;
  }
  return double(right) / double(peak);
}

// Blocks of known kind, of at least a KiB, that are taken for something else.
void ExpectItsKinds(const TrainingLoop& loop) {
  const auto kinds = FindKinds(loop.profile, FindSteps(loop.profile));
  for (const Block& block : loop.profile.blocks) {
    if (loop.kinds[block.id] == Kind::kUnknown) continue;
    EXPECT_EQ(KindName(kinds[block.id]), KindName(loop.kinds[block.id]))
        << "block " << block.id << " of site " << block.site;
  }
}

TEST(KindsTest, EachBlockOfALoopHasItsKind) {
  TrainingLoop loop;
  for (int i = 0; i < 4; ++i) loop.Step();
  ExpectItsKinds(loop);
}

TEST(KindsTest, LengthsDoNotMatter) {
  TrainingLoop loop;
  for (uint64_t length : {8, 5, 14, 7, 20, 6}) loop.Step(length);
  ExpectItsKinds(loop);
}

TEST(KindsTest, WhatIsAddedToAGradientIsTemporary) {
  TrainingLoop loop({.clips = true, .scales = true});
  for (int i = 0; i < 4; ++i) loop.Step(8, 3);
  ExpectItsKinds(loop);
}

TEST(KindsTest, AtThePeakCheckpointsAreActivations) {
  TrainingLoop loop({.layers = 12, .checkpoints = true});
  for (int i = 0; i < 4; ++i) loop.Step();
  EXPECT_GE(AgreementAtThePeak(loop), 0.95);
}

TEST(KindsTest, GradientsOfASkippedStepAreKnownByTheirSite) {
  TrainingLoop loop({.scales = true});
  for (bool optimizes : {false, true, true, false, true}) loop.Step(8, 1, optimizes);
  ExpectItsKinds(loop);
}

TEST(KindsTest, OneStepIsEnough) {
  TrainingLoop loop;
  loop.Step();
  ExpectItsKinds(loop);
}

TEST(KindsTest, WeightsWithoutOptimizerAreParametersToo) {
  // A frozen layer in front of a trained one.
  TrainingLoop loop;
  const uint32_t frozen = loop.Block(5 << 20, 30, Kind::kParameter);
  loop.Launch(TrainingLoop::kFill, {frozen});
  for (int i = 0; i < 4; ++i) {
    loop.Begin(StepKind::kTraining);
    loop.FreeGradients(loop.model);
    const uint32_t x = loop.Block(1 << 18, 31, Kind::kInput);
    loop.Copy(x);
    const uint32_t y = loop.Block(1 << 18, 32, Kind::kActivation);
    loop.Launch(TrainingLoop::kMatmul, {frozen, x, y});
    loop.ForwardAndBackward(loop.model, 8);
    loop.Launch(TrainingLoop::kInputGradient, {frozen, y, x});
    loop.Free(x);
    loop.Free(y);
    loop.Optimize(loop.model);
    loop.End();
  }
  ExpectItsKinds(loop);
}

TEST(KindsTest, WorkspaceIsWhatAllProductsAreHanded) {
  ProfileBuilder builder;
  std::vector<uint32_t> weights, states;
  for (uint64_t i = 0; i < 12; ++i) {
    weights.push_back(builder.Alloc((1 << 20) + i * 4096, 1));
    builder.Launch(0, {weights.back()});
    states.push_back(builder.Alloc((1 << 20) + i * 4096, 2));
    builder.Launch(0, {states.back()});
  }
  const uint32_t scratch = builder.Alloc(32 << 20, 3);
  for (int step = 0; step < 4; ++step) {
    std::vector<uint32_t> saved;
    for (uint32_t weight : weights) {
      saved.push_back(builder.Alloc(1 << 16, 4));
      builder.Launch(1, {weight, saved.back(), scratch});
    }
    for (size_t i = weights.size(); i-- > 0;) {
      builder.Launch(2, {weights[i], saved[i], scratch});
      builder.Free(saved[i]);
    }
    std::vector<uint32_t> all = weights;
    all.insert(all.end(), states.begin(), states.end());
    builder.Launch(3, all);
  }
  const auto kinds = FindKinds(builder.profile, FindSteps(builder.profile));
  EXPECT_EQ(KindName(kinds[scratch]), "workspace");
  for (uint32_t weight : weights) EXPECT_EQ(KindName(kinds[weight]), "parameter");
  for (uint32_t state : states) EXPECT_EQ(KindName(kinds[state]), "optimizer state");
}

TEST(KindsTest, SharedMemoryIsCommunication) {
  TrainingLoop loop;
  const uint32_t shared = loop.Block(4 << 20, 40, Kind::kCommunication);
  loop.profile.blocks[shared].exported = true;
  for (int i = 0; i < 3; ++i) loop.Step();
  ExpectItsKinds(loop);
}

TEST(KindsTest, WithoutOptimizerOnlyWeightsAndInputsAreKnown) {
  TrainingLoop loop;
  for (int i = 0; i < 8; ++i) loop.Infer(loop.model, 8);
  const auto kinds = FindKinds(loop.profile, FindSteps(loop.profile));
  for (const Block& block : loop.profile.blocks) {
    const Kind kind = loop.kinds[block.id];
    const bool shows = kind == Kind::kParameter || kind == Kind::kInput;
    EXPECT_EQ(KindName(kinds[block.id]), KindName(shows ? kind : Kind::kUnknown));
  }
}

TEST(KindsTest, NothingIsKnownWithoutEvents) {
  EXPECT_TRUE(FindKinds(Profile(), std::nullopt).empty());
  ProfileBuilder builder;
  builder.Alloc(1 << 20, 1);
  EXPECT_EQ(FindKinds(builder.profile, std::nullopt).size(), 1u);
}

}  // namespace
}  // namespace ebt::profile
