#include "src/plan/timeline.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/unit/training_profile.h"

namespace ebt::plan {
namespace {

using profile::Profile;
using profile::ProfileBuilder;
using profile::Training;

std::map<Span, int> SpansOf(const Timeline& timeline, bool in_step) {
  std::map<Span, int> counts;
  for (const Lived& life : timeline.lives) counts[life.span] += life.in_step == in_step;
  return counts;
}

TEST(TimelineTest, BlocksOfATrainingRunHaveTheirSpans) {
  Training training({.layers = 4, .steps = 5});
  auto timeline = BuildTimeline(training.profile);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  auto prologue = SpansOf(*timeline, false);
  EXPECT_EQ(prologue[Span::kPersistent], 4 + 8);    // weights and state
  EXPECT_EQ(prologue[Span::kCrossing], 4 + 1);      // gradients; the loss is freed behind Adam
  EXPECT_EQ(prologue[Span::kPrologue], 1 + 4 + 4);  // batch, scratch, activations
  auto step = SpansOf(*timeline, true);
  EXPECT_EQ(step[Span::kCyclic], 4 + 1);
  EXPECT_EQ(step[Span::kStep], 1 + 4 + 4);
  EXPECT_EQ(step[Span::kPersistent], 0);
  EXPECT_EQ(timeline->step_launches, 14u);
}

TEST(TimelineTest, CrossingGradientsAreTwinsOfTheSteps) {
  Training training({.layers = 4, .steps = 5});
  auto timeline = BuildTimeline(training.profile);
  ASSERT_TRUE(timeline.ok());
  std::map<uint32_t, int> used;
  for (const Lived& life : timeline->lives) {
    if (life.span != Span::kCrossing) continue;
    ASSERT_NE(life.twin, kNoTwin);
    const Lived& twin = timeline->lives[life.twin];
    EXPECT_EQ(twin.span, Span::kCyclic);
    EXPECT_EQ(training.profile.blocks[twin.block].site, training.profile.blocks[life.block].site);
    EXPECT_EQ(twin.live[1].end, life.live[0].end);
    EXPECT_EQ(++used[life.twin], 1);
  }
  EXPECT_EQ(used.size(), 5u);
}

TEST(TimelineTest, ChanceTouchesOfOneStepAreNoTouches) {
  // What most steps touch is kept, what the representative alone does is dropped: state number
  // one, named by the first launch of a single step as a stale word would name it.
  Training training({.layers = 4, .steps = 5});
  auto before = BuildTimeline(training.profile);
  ASSERT_TRUE(before.ok());
  const uint64_t begin = before->steps.start_events[before->representative];
  uint64_t first_launch = begin;
  while (training.profile.events[first_launch].kind != profile::EventKind::kLaunch) ++first_launch;
  const Lived* state = nullptr;
  for (const Lived& life : before->lives) {
    if (life.span == Span::kPersistent && life.touches.size() == 1) state = &life;
  }
  ASSERT_NE(state, nullptr);
  training.profile.events[first_launch].touched.push_back(state->block);
  auto after = BuildTimeline(training.profile);
  ASSERT_TRUE(after.ok());
  for (const Lived& life : after->lives) {
    if (life.block != state->block || life.span != Span::kPersistent) continue;
    ASSERT_EQ(life.touches.size(), 1u);
    EXPECT_EQ(life.touches[0].launch, state->touches[0].launch);
  }
}

TEST(TimelineTest, CyclicBlockTakesTheEndAndTheBeginOfAStep) {
  // A step: free(old) launch launch alloc launch, five events; the prologue is one step.
  ProfileBuilder builder;
  std::optional<uint32_t> old;
  for (int step = 0; step < 6; ++step) {
    builder.Step();
    if (old) builder.Free(*old);
    builder.Launch(1, {});
    builder.Launch(2, {});
    old = builder.Alloc(4096, 1);
    builder.Launch(3, {*old});
  }
  auto timeline = BuildTimeline(builder.profile);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  ASSERT_EQ(timeline->step_launches, 3u);
  const Lived& life = timeline->lives.back();
  ASSERT_EQ(life.span, Span::kCyclic);
  const uint64_t begin = timeline->prologue_end;
  // A step begins behind the last launch: mark, free, launch, launch, alloc, launch.
  EXPECT_EQ(timeline->end, begin + 6);
  EXPECT_EQ(life.live[0].begin, begin + 4);
  EXPECT_EQ(life.live[0].end, begin + 6);
  EXPECT_EQ(life.live[1].begin, begin);
  EXPECT_EQ(life.live[1].end, begin + 1);
  EXPECT_EQ(life.launch, 2u);
  ASSERT_EQ(life.touches.size(), 1u);
  EXPECT_EQ(life.touches[0].launch, 2u);
}

TEST(TimelineTest, OrdinalsCountASitesBlocksInOrder) {
  Training training({.layers = 3, .steps = 5});
  auto timeline = BuildTimeline(training.profile);
  ASSERT_TRUE(timeline.ok());
  std::map<std::pair<bool, uint64_t>, uint32_t> next;
  for (const Lived& life : timeline->lives) {
    const uint64_t site = training.profile.blocks[life.block].site;
    EXPECT_EQ(life.ordinal, (next[{life.in_step, site}]++));
  }
}

TEST(TimelineTest, KindsThatAreNeverServedHaveNoSlot) {
  ProfileBuilder builder;
  builder.Alloc(4096, 1, profile::AllocKind::kManaged);
  builder.Alloc(4096, 2, profile::AllocKind::kVmm);
  builder.Alloc(4096, 3, profile::AllocKind::kPitched);
  builder.Launch(9, {});
  for (int step = 0; step < 5; ++step) {
    builder.Step();
    const uint32_t block = builder.Alloc(4096, 4, profile::AllocKind::kPool);
    builder.Launch(1, {block});
    builder.Free(block);
  }
  auto timeline = BuildTimeline(builder.profile);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  for (const Lived& life : timeline->lives) {
    EXPECT_EQ(builder.profile.blocks[life.block].site, 4u);
  }
}

TEST(TimelineTest, StepThatAgreesWithMostStandsForAll) {
  ProfileBuilder builder;
  builder.Launch(9, {});
  for (int step = 0; step < 8; ++step) {
    builder.Step();
    const uint32_t block = builder.Alloc(4096, 1);
    if (step == 6) builder.Free(builder.Alloc(4096, 2));  // once only, in the last but one
    builder.Launch(1, {block});
    builder.Free(block);
  }
  auto timeline = BuildTimeline(builder.profile);
  ASSERT_TRUE(timeline.ok());
  EXPECT_LT(timeline->representative, 6u);
  EXPECT_EQ(timeline->lives.back().in_step, true);
  for (const Lived& life : timeline->lives) {
    if (life.in_step) {
      EXPECT_EQ(builder.profile.blocks[life.block].site, 1u);
    }
  }
}

TEST(TimelineTest, EventThatNamesNoBlockIsRefused) {
  Training training({.layers = 4, .steps = 5});
  for (auto& event : training.profile.events) {
    if (event.kind == profile::EventKind::kFree) event.block = 1'000'000;
  }
  EXPECT_FALSE(BuildTimeline(training.profile).ok());
}

}  // namespace
}  // namespace ebt::plan
