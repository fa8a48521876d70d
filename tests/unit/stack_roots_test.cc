#include "src/profile/stack_roots.h"

#include <gtest/gtest.h>

#include "src/profile/phases.h"
#include "tests/unit/training_loop.h"

namespace ebt::profile {
namespace {

// Gives the blocks of a loop stacks: those that backward makes end in a thread of their own.
void GiveStacks(TrainingLoop& loop) {
  using callsite::Frame;
  const Frame script{Frame::Kind::kPython, "train.py", 12, "<module>", ""};
  const Frame thread{Frame::Kind::kNative, "c0de", 64, "", "/lib/libc.so.6"};
  uint64_t site = 0;
  auto add = [&](uint64_t first, uint64_t last, const Frame& root) {
    for (site = first; site <= last; ++site) {
      loop.profile.sites.push_back({site, {{Frame::Kind::kNative, "ab", site, "", ""}, root}});
    }
  };
  add(1, 5, script);   // weights, batches, activations, the loss
  add(6, 6, thread);   // backward's first block
  add(7, 8, script);   // the norm, the optimizer's state
  add(9, 10, thread);  // backward's other blocks
}

TEST(StackRootsTest, MainIsWhereParametersAreMade) {
  TrainingLoop loop;
  for (int i = 0; i < 3; ++i) loop.Step();
  GiveStacks(loop);
  const BlockTouches touches(loop.profile);
  const auto roots = FindRoots(loop.profile, FindUsage(loop.profile, touches));
  for (const Block& block : loop.profile.blocks) {
    const bool backward = block.site == 6 || block.site == 9 || block.site == 10;
    EXPECT_EQ(roots[block.id], backward ? Root::kOther : Root::kMain) << block.site;
  }
}

TEST(StackRootsTest, PassTurnsWithTheFirstBlockOfTheOtherThread) {
  // The loss's launch is the last of forward, which has 2 a layer.
  TrainingLoop loop({.layers = 12});
  for (int i = 0; i < 3; ++i) loop.Step(8, 2);
  GiveStacks(loop);
  const BlockTouches touches(loop.profile);
  const Usage usage = FindUsage(loop.profile, touches);
  const auto cycles = FindCycles(loop.profile, touches, usage);
  ASSERT_EQ(cycles.size(), 4u);
  for (size_t step = 0; step < 3; ++step) {
    ASSERT_EQ(cycles[step].passes.size(), 2u);
    EXPECT_EQ(usage.launches_before[cycles[step].passes[0].turn],
              loop.spans[step].begin + 2 * 12 + 1);
  }
}

TEST(StackRootsTest, FewBlocksOfAnotherThreadEndNoRun) {
  ProfileBuilder builder;
  std::vector<Root> roots;
  auto make = [&](Root root, int count) {
    for (int i = 0; i < count; ++i) {
      builder.Alloc(512, 1);
      roots.push_back(root);
    }
  };
  make(Root::kMain, 6);
  make(Root::kOther, 3);
  make(Root::kMain, 6);
  make(Root::kOther, 4);
  const auto runs = FindRootRuns(builder.profile, roots, 0, builder.profile.events.size());
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].begin, 0u);
  EXPECT_EQ(runs[0].end, 15u);
  EXPECT_EQ(runs[1].begin, 15u);
  EXPECT_EQ(runs[1].root, Root::kOther);
}

TEST(StackRootsTest, StacksThatEndAnywhereSayNothing) {
  // Each site has a root of its own, parameters' among them: fewer than a fifth are "main".
  TrainingLoop loop;
  for (int i = 0; i < 3; ++i) loop.Step();
  using callsite::Frame;
  for (uint64_t site = 1; site <= 10; ++site) {
    const Frame root{Frame::Kind::kPython, "module_" + std::to_string(site), 1, "f", ""};
    loop.profile.sites.push_back({site, {root}});
  }
  const BlockTouches touches(loop.profile);
  for (Root root : FindRoots(loop.profile, FindUsage(loop.profile, touches))) {
    EXPECT_EQ(root, Root::kUnknown);
  }
}

}  // namespace
}  // namespace ebt::profile
