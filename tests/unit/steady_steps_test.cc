#include <gtest/gtest.h>

#include "src/profile/step_spans.h"
#include "src/profile/steps.h"
#include "tests/unit/training_profile.h"

namespace ebt::profile {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

struct Job {
  int steps = 6;
  uint64_t made_first = 0;  // bytes that the first step makes to stay
  uint64_t kept = 0;        // that each step makes and nobody frees
};

// Marked steps of four launches.
Profile Recorded(const Job& job) {
  ProfileBuilder program;
  const uint32_t weights = program.Alloc(64 * kMiB, 1);
  for (int step = 0; step < job.steps; ++step) {
    program.Step();
    if (step == 0 && job.made_first > 0) program.Alloc(job.made_first, 2);
    const uint32_t activation = program.Alloc(32 * kMiB, 3);
    for (uint32_t function = 0; function < 4; ++function) {
      program.Launch(function, {weights, activation});
    }
    program.Free(activation);
    if (job.kept > 0) program.Alloc(job.kept, 4);
  }
  return std::move(program.profile);
}

Steps Steady(const Job& job) {
  std::vector<StepSpan> spans;
  return FindSteadySteps(Recorded(job), &spans).value_or(Steps{});
}

TEST(SteadyStepsTest, AStepThatMakesWhatStaysIsSetUp) {
  const Steps steps = Steady({.steps = 3, .made_first = 128 * kMiB});
  EXPECT_EQ(steps.steps, 2u);
  EXPECT_EQ(steps.period, 4u);
  EXPECT_EQ(steps.first_launch, 4u);
}

TEST(SteadyStepsTest, StepsThatEachKeepSomethingAreNoSetUp) {
  const Steps steps = Steady({.steps = 12, .kept = 64 * kMiB});
  EXPECT_EQ(steps.steps, 12u);
  EXPECT_EQ(steps.first_launch, 0u);
}

TEST(SteadyStepsTest, SetUpIsToldFromWhatEachStepKeeps) {
  EXPECT_EQ(Steady({.steps = 12, .made_first = 128 * kMiB, .kept = 64 * kMiB}).steps, 11u);
}

}  // namespace
}  // namespace ebt::profile
