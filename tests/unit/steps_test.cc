#include "src/profile/steps.h"

#include <gtest/gtest.h>

#include "tests/unit/training_profile.h"

namespace ebt::profile {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// The launches of a profile as a recorder would feed them.
struct Fed {
  uint64_t symbol, live;
};
std::vector<Fed> LaunchesOf(const Profile& profile) {
  std::vector<Fed> out;
  uint64_t live = 0;
  for (const Event& event : profile.events) {
    if (event.kind == EventKind::kAlloc) live += profile.blocks[event.block].bytes;
    if (event.kind == EventKind::kFree) live -= profile.blocks[event.block].bytes;
    if (event.kind == EventKind::kLaunch) {
      out.push_back({LaunchSymbol(event.function, event.shape), live});
    }
  }
  return out;
}

// Number of launches after which an online detector that is asked at every launch first fires.
std::optional<uint64_t> FirstFound(const std::vector<Fed>& launches, uint64_t period) {
  StepDetector detector;
  for (size_t i = 0; i < launches.size(); ++i) {
    detector.Add(launches[i].symbol, launches[i].live);
    if (auto found = detector.Check()) {
      EXPECT_EQ(found->period, period) << "after launch " << i;
      return i + 1;
    }
  }
  return std::nullopt;
}

TEST(StepsTest, TrainingStepIsFoundBehindSetUpAndWarmUp) {
  // 4 launches of set-up; the first step has 14 launches of a step and 8 of state set-up.
  Training training({.layers = 4, .steps = 5});
  auto steps = FindSteps(training.profile);
  ASSERT_TRUE(steps.has_value());
  EXPECT_EQ(steps->period, 14u);
  EXPECT_EQ(steps->first_launch, 4u + 14u + 8u);
  EXPECT_EQ(steps->steps, 4u);
  ASSERT_EQ(steps->start_events.size(), 5u);
  EXPECT_FALSE(steps->marked);
}

TEST(StepsTest, StepStartsWhereFewestBytesAreLive) {
  Training training({.layers = 4, .steps = 5});
  auto steps = FindSteps(training.profile);
  ASSERT_TRUE(steps.has_value());
  for (uint64_t at : steps->start_events) {
    EXPECT_EQ(training.profile.events[at - 1].kind, EventKind::kLaunch);
    EXPECT_EQ(training.profile.events[at - 1].function, kAdam);
  }
}

TEST(StepsTest, OptimizerThatLoopsOverLayersIsNotTheStep) {
  Training training({.layers = 8, .steps = 4, .optimizer = Optimizer::kLoop});
  auto steps = FindSteps(training.profile);
  ASSERT_TRUE(steps.has_value());
  EXPECT_EQ(steps->period, 24u + 1 + 24);
  EXPECT_EQ(steps->steps, 3u);
}

TEST(StepsTest, GradientsKeptAcrossStepsDoNotHideTheStep) {
  Training training({.layers = 4, .steps = 6, .frees_gradients = false});
  auto steps = FindSteps(training.profile);
  ASSERT_TRUE(steps.has_value());
  EXPECT_EQ(steps->period, training.StepLaunches());
  EXPECT_GE(steps->steps, 4u);
}

TEST(StepsTest, InferenceBehindTrainingDoesNotMatter) {
  Training training({.layers = 4, .steps = 6, .inference_passes = 3});
  auto steps = FindSteps(training.profile);
  ASSERT_TRUE(steps.has_value());
  EXPECT_EQ(steps->period, 14u);
  EXPECT_EQ(steps->steps, 5u);
}

TEST(StepsTest, OneStepIsNoRepetition) {
  Training training({.layers = 24, .steps = 1});
  EXPECT_FALSE(FindSteps(training.profile).has_value());
}

TEST(StepsTest, EqualLaunchesWithoutMemoryMovementAreNoStep) {
  ProfileBuilder builder;
  const uint32_t block = builder.Alloc(kMiB, 1);
  for (int i = 0; i < 400; ++i) builder.Launch(uint32_t(i % 8), {block});
  EXPECT_FALSE(FindSteps(builder.profile).has_value());
}

TEST(StepsTest, LayersWithGrowingMemoryAreNoStep) {
  ProfileBuilder builder;
  for (int layer = 0; layer < 100; ++layer) {
    builder.Alloc(kMiB, 1);
    for (uint32_t f = 0; f < 6; ++f) builder.Launch(f, {});
  }
  EXPECT_FALSE(FindSteps(builder.profile).has_value());
}

TEST(StepsTest, SmallLeakIsToleratedButNotGrowth) {
  auto run = [](uint64_t leak) {
    ProfileBuilder builder;
    builder.Alloc(100 * kMiB, 1);
    for (int step = 0; step < 10; ++step) {
      const uint32_t block = builder.Alloc(50 * kMiB, 2);
      for (uint32_t f = 0; f < 6; ++f) builder.Launch(f, {block});
      builder.Free(block);
      builder.Launch(6, {});
      builder.Alloc(leak, 3);
    }
    return FindSteps(builder.profile);
  };
  // 0.5 % of 150 MiB is 768 KiB over the whole row.
  auto small = run(1024);
  ASSERT_TRUE(small.has_value());
  EXPECT_EQ(small->period, 7u);
  EXPECT_EQ(small->steps, 10u);
  EXPECT_FALSE(run(20 * kMiB).has_value());
}

TEST(StepsTest, SetUpWithoutLaunchesIsNotPartOfAStep) {
  ProfileBuilder builder;
  builder.Copy(builder.Alloc(kMiB, 1));
  for (int step = 0; step < 5; ++step) {
    const uint32_t block = builder.Alloc(kMiB, 2);
    for (uint32_t f = 0; f < 4; ++f) builder.Launch(f, {block});
    builder.Free(block);
    builder.Launch(4, {});
  }
  auto steps = FindSteps(builder.profile);
  ASSERT_TRUE(steps.has_value());
  EXPECT_EQ(steps->first_launch, 5u);
  EXPECT_EQ(steps->steps, 4u);
}

TEST(StepsTest, MicroStepsOfGradientAccumulationAreNotTheStep) {
  ProfileBuilder builder;
  const uint32_t weights = builder.Alloc(4 * kMiB, 1);
  builder.Launch(20, {weights});
  for (int step = 0; step < 3; ++step) {
    for (int micro = 0; micro < 8; ++micro) {
      const uint32_t batch = builder.Alloc(kMiB, 2);
      for (uint32_t f = 0; f < 6; ++f) builder.Launch(f, {batch, weights});
      builder.Free(batch);
      builder.Launch(6, {weights});
    }
    for (uint32_t f = 10; f < 13; ++f) builder.Launch(f, {weights});
  }
  auto steps = FindSteps(builder.profile);
  ASSERT_TRUE(steps.has_value());
  EXPECT_EQ(steps->period, 8u * 7 + 3);
  EXPECT_GE(steps->steps, 2u);
}

TEST(StepsTest, MarksWin) {
  // Marks every second of what would be found without them.
  ProfileBuilder builder;
  for (int step = 0; step < 9; ++step) {
    if (step % 2 == 0) builder.Step();
    const uint32_t block = builder.Alloc(kMiB, 1);
    for (uint32_t f = 0; f < 5; ++f) builder.Launch(f, {block});
    builder.Free(block);
  }
  auto steps = FindSteps(builder.profile);
  ASSERT_TRUE(steps.has_value());
  EXPECT_TRUE(steps->marked);
  EXPECT_EQ(steps->period, 10u);
  EXPECT_EQ(steps->first_launch, 0u);
  EXPECT_EQ(steps->steps, 4u);
}

TEST(StepsTest, MarkedWarmUpStepWithLazyStateIsLeftOut) {
  Training training({.layers = 4, .steps = 4, .marks_steps = true});
  auto steps = FindSteps(training.profile);
  ASSERT_TRUE(steps.has_value());
  EXPECT_TRUE(steps->marked);
  EXPECT_EQ(steps->period, 14u);
  EXPECT_EQ(steps->first_launch, 4u + 14 + 8);
  EXPECT_EQ(steps->steps, 2u);  // the last step has no mark behind it
}

TEST(StepDetectorTest, FiresInTheThirdStepAtTheLatest) {
  for (auto optimizer : {Optimizer::kFused, Optimizer::kForeach, Optimizer::kLoop}) {
    Training training({.layers = 24, .steps = 3, .optimizer = optimizer});
    auto launches = LaunchesOf(training.profile);
    launches.pop_back();  // the checksum behind the last step
    const uint64_t period = training.StepLaunches();
    auto found = FirstFound(launches, period);
    ASSERT_TRUE(found.has_value());
    EXPECT_GT(*found, launches.size() - period);
    EXPECT_LE(*found, launches.size());
  }
}

TEST(StepDetectorTest, DoesNotFireInTheFirstStepOfManyEqualLayers) {
  Training training({.layers = 48, .steps = 1, .optimizer = Optimizer::kLoop});
  EXPECT_FALSE(FirstFound(LaunchesOf(training.profile), 0).has_value());
}

TEST(StepDetectorTest, DoesNotFireInSetUp) {
  StepDetector detector;
  for (uint64_t i = 0; i < 600; ++i) {
    // Weights are made first and filled afterwards, four kinds a layer.
    detector.Add(LaunchSymbol(i % 4, 1), 100 * kMiB);
    EXPECT_FALSE(detector.Check().has_value());
  }
}

TEST(StepDetectorTest, CountsTheWholeStepsSeen) {
  StepDetector detector;
  for (uint64_t step = 0; step < 7; ++step) {
    for (uint64_t i = 0; i < 10; ++i) detector.Add(LaunchSymbol(i, 1), (1 + i) * kMiB);
  }
  auto found = detector.Check();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->period, 10u);
  EXPECT_EQ(found->steps, 7u);
}

TEST(StepDetectorTest, ForgetsTheTailOfAnEarlierLoop) {
  StepDetector detector;
  for (uint64_t step = 0; step < 7; ++step) {
    for (uint64_t i = 0; i < 10; ++i) detector.Add(LaunchSymbol(i, 1), (1 + i) * kMiB);
  }
  detector.Add(LaunchSymbol(99, 1), kMiB);
  EXPECT_FALSE(detector.Check().has_value());
}

}  // namespace
}  // namespace ebt::profile
