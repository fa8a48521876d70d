#include "src/profile/phases.h"

#include <gtest/gtest.h>

#include "src/profile/step_spans.h"
#include "tests/unit/training_loop.h"

namespace ebt::profile {
namespace {

using Phases = std::vector<std::pair<uint64_t, std::string>>;

// The phases of all steps, each with the launches before it.
Phases Found(const Profile& profile) {
  const BlockTouches touches(profile);
  const Usage usage = FindUsage(profile, touches);
  const auto cycles = FindCycles(profile, touches, usage);
  Phases out;
  for (const StepSpan& span : FindStepSpans(profile, touches, usage, cycles)) {
    for (const PhaseStart& phase : FindPhases(profile, usage, cycles, span.begin, span.end)) {
      out.emplace_back(usage.launches_before[phase.at], phase.name);
    }
  }
  return out;
}

void ExpectItsPhases(const TrainingLoop& loop) {
  Phases expected = loop.true_phases;
  std::erase_if(expected, [](const auto& phase) { return phase.second == "other"; });
  EXPECT_EQ(Found(loop.profile), expected);
}

TEST(PhasesTest, EachStepGoesForwardAndBackwardAndOptimizes) {
  TrainingLoop loop;
  for (int i = 0; i < 4; ++i) loop.Step();
  ExpectItsPhases(loop);
}

TEST(PhasesTest, EachMicroStepGoesForwardAndBackward) {
  TrainingLoop loop;
  for (int i = 0; i < 4; ++i) loop.Step(8, 3);
  ExpectItsPhases(loop);
}

TEST(PhasesTest, WhatIsComputedAgainIsBackward) {
  // Of a checkpointed pass of 12 layers forward is 12 x 2 launches and the loss; backward is the
  // loss's launch and 12 x 4, of which the first computes the last layer again. Among the short
  // waits around the loss the turn may be off by two launches.
  TrainingLoop loop({.layers = 12, .checkpoints = true});
  for (int i = 0; i < 4; ++i) loop.Step();
  const Phases found = Found(loop.profile);
  ASSERT_EQ(found.size(), 4u * 3);
  for (size_t step = 0; step < 4; ++step) {
    const uint64_t begin = loop.spans[step].begin;
    EXPECT_EQ(found[3 * step], (Phases::value_type{begin, "forward"}));
    EXPECT_EQ(found[3 * step + 1].second, "backward");
    EXPECT_GE(found[3 * step + 1].first, begin + 12 * 2 - 1);
    EXPECT_LE(found[3 * step + 1].first, begin + 12 * 2 + 1);
    EXPECT_EQ(found[3 * step + 2],
              (Phases::value_type{begin + 12 * 2 + 1 + 1 + 12 * 4, "optimizer"}));
  }
}

TEST(PhasesTest, LengthsDoNotMatter) {
  TrainingLoop loop;
  for (uint64_t length : {8, 14, 5, 20, 7}) loop.Step(length);
  ExpectItsPhases(loop);
}

TEST(PhasesTest, ClippingIsBackward) {
  TrainingLoop loop({.clips = true});
  for (int i = 0; i < 4; ++i) loop.Step();
  ExpectItsPhases(loop);
}

TEST(PhasesTest, MarksWinAndKeepTheirNames) {
  ProfileBuilder builder;
  auto phase = [&](const char* name) {
    builder.profile.events.push_back({.kind = EventKind::kPhase, .phase = name});
  };
  for (int i = 0; i < 3; ++i) {
    builder.Step();
    phase("sampling");
    for (uint32_t f = 0; f < 4; ++f) builder.Launch(f, {});
    phase("learning");
    for (uint32_t f = 4; f < 6; ++f) builder.Launch(f, {});
  }
  const Phases expected = {{0, "sampling"},  {4, "learning"},  {6, "sampling"},
                           {10, "learning"}, {12, "sampling"}, {16, "learning"}};
  EXPECT_EQ(Found(builder.profile), expected);
}

}  // namespace
}  // namespace ebt::profile
