// The validator is near-linear: what it takes for four times the recording.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/unit/training_profile.h"
#include "tests/unit/valid_plan.h"

namespace ebt::plan {
namespace {

struct Cost {
  double events = 0, seconds = 0;
};

// The shortest of three, as others may be busy.
Cost CostOf(int layers, int steps) {
  profile::Training training({.layers = layers, .steps = steps});
  for (profile::Block& block : training.profile.blocks) {
    block.stream = uint16_t(block.site % 3);
    block.free_stream = uint16_t(block.site % 2);
  }
  const Plan plan = ValidPlan(training.profile, {}).plan;
  Cost cost{double(training.profile.events.size()), 1e9};
  for (int i = 0; i < 3; ++i) {
    const auto began = std::chrono::steady_clock::now();
    EXPECT_TRUE(ValidatePlan(training.profile, plan).ok());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    cost.seconds = std::min(cost.seconds, took.count());
  }
  printf("%.0f events: %.3f s, %.2f us an event\n", cost.events, cost.seconds,
         cost.seconds / cost.events * 1e6);
  return cost;
}

TEST(ValidatorCostTest, AnEventCostsAboutTheSameWhateverTheirNumber) {
  const Cost small = CostOf(50, 100), more_steps = CostOf(50, 400), more_layers = CostOf(200, 100);
  for (const Cost& large : {more_steps, more_layers}) {
    EXPECT_GT(large.events, 3.5 * small.events);
    EXPECT_LT(large.seconds / large.events, 3 * small.seconds / small.events);
  }
  // A tenth of the 30 s that planning 3 * 10^6 events may take.
  EXPECT_LT(more_steps.seconds / more_steps.events * 3e6, 3);
}

}  // namespace
}  // namespace ebt::plan
