#include "src/plan/colocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/training_profile.h"
#include "tests/unit/valid_plan.h"

namespace ebt::plan {
namespace {

using profile::ProfileBuilder;
using ::testing::ElementsAre;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Three modules of weight and bias and one block that nobody touches, made in the order
// w0 b0 w1 b1 w2 b2 u; used in the order 2, 0, 1, far enough apart. The optimizer's launch names
// m0 v0 m1 v1 m2 v2, made in this order, as all m, then all v, from the last to the first.
class ThreeModules : public ProfileBuilder {
 public:
  ThreeModules() {
    for (uint64_t i = 0; i < 3; ++i) {
      weights_.push_back(Alloc(kMiB, 1));
      biases_.push_back(Alloc(512, 2));
    }
    untouched_ = Alloc(kMiB, 3);
    std::vector<uint32_t> optimizer;
    for (uint64_t i = 0; i < 3; ++i) m_.push_back(Alloc(kMiB, 4)), v_.push_back(Alloc(kMiB, 5));
    optimizer.insert(optimizer.end(), m_.rbegin(), m_.rend());
    optimizer.insert(optimizer.end(), v_.rbegin(), v_.rend());
    Launch(9, {});
    for (int step = 0; step < 5; ++step) {
      Step();
      const uint32_t own = Alloc(8 * kMiB, 6);
      for (size_t module : {2, 0, 1}) {
        Launch(1, {weights_[module], biases_[module], own});
        for (int i = 0; i < 4; ++i) Launch(2, {own});
      }
      Free(own);
      Launch(3, optimizer);
    }
    Step();
  }

  std::vector<uint32_t> weights_, biases_, m_, v_;
  uint32_t untouched_ = 0;
};

struct Judged {
  ThreeModules job;
  Timeline timeline;
  Behaviour behaviour;

  Judged() {
    auto built = BuildTimeline(job.profile);
    EXPECT_TRUE(built.ok()) << built.status();
    timeline = *std::move(built);
    behaviour = Judge(job.profile, timeline, {});
  }
  const Traits& Of(uint32_t block) const {
    for (size_t i = 0; i < timeline.lives.size(); ++i) {
      if (timeline.lives[i].block == block) return behaviour.traits[i];
    }
    ADD_FAILURE() << "no life of block " << block;
    return behaviour.traits[0];
  }
  // Blocks of the persistent lives by place.
  std::vector<uint32_t> ByPlace() const {
    std::vector<std::pair<uint32_t, uint32_t>> places;
    for (size_t i = 0; i < timeline.lives.size(); ++i) {
      if (timeline.lives[i].span != Span::kPersistent) continue;
      places.emplace_back(behaviour.traits[i].place, timeline.lives[i].block);
    }
    std::sort(places.begin(), places.end());
    std::vector<uint32_t> blocks;
    for (const auto& [place, block] : places) blocks.push_back(block);
    return blocks;
  }
};

TEST(ColocationTest, WeightAndBiasOfOneLaunchAreAModuleAndItsNeighboursAreNot) {
  const Judged it;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(it.Of(it.job.weights_[i]).module, it.Of(it.job.biases_[i]).module);
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(it.Of(it.job.weights_[i]).module, it.Of(it.job.weights_[j]).module);
    }
  }
}

TEST(ColocationTest, ModulesFollowTheirFirstTouchesAndStateTheOptimizersLaunch) {
  const Judged it;
  const auto &w = it.job.weights_, &b = it.job.biases_, &m = it.job.m_, &v = it.job.v_;
  EXPECT_THAT(it.ByPlace(), ElementsAre(w[2], b[2], w[0], b[0], w[1], b[1], m[2], m[1], m[0], v[2],
                                        v[1], v[0], it.job.untouched_));
}

TEST(ColocationTest, PlanStacksTheBlocksInThatOrder) {
  const ThreeModules job;
  const PlanResult result = ValidPlan(job.profile, {});
  std::map<uint32_t, uint64_t> offsets;
  for (size_t i = 0; i < result.plan.prologue.size(); ++i) {
    offsets[uint32_t(i)] = result.plan.prologue[i].offset;  // blocks are numbered as slots
  }
  const auto &w = job.weights_, &b = job.biases_, &m = job.m_, &v = job.v_;
  uint64_t expected = 0;
  for (size_t module : {2, 0, 1}) {
    EXPECT_EQ(offsets[w[module]], expected);
    EXPECT_EQ(offsets[b[module]], expected + kMiB);
    expected += kMiB + 512;
  }
  const uint64_t cold = result.plan.warm_bytes;
  const std::vector<uint32_t> state = {m[2], m[1], m[0], v[2], v[1], v[0]};
  for (size_t i = 0; i < state.size(); ++i) EXPECT_EQ(offsets[state[i]], cold + i * kMiB) << i;
}

TEST(ColocationTest, ModuleWithAHotBlockComesFirstAndStaysWhole) {
  const Judged it;
  std::vector<Tier> tiers(it.timeline.lives.size(), Tier::kWarm);
  std::vector<uint32_t> members;
  for (uint32_t i = 0; i < tiers.size(); ++i) {
    const uint32_t block = it.timeline.lives[i].block;
    if (block == it.job.biases_[1]) tiers[i] = Tier::kHot;
    const auto& w = it.job.weights_;
    const auto& b = it.job.biases_;
    if (std::count(w.begin(), w.end(), block) + std::count(b.begin(), b.end(), block) > 0) {
      members.push_back(i);
    }
  }
  std::vector<uint32_t> blocks;
  for (uint32_t i : StackingOrder(it.timeline, it.behaviour, tiers, members)) {
    blocks.push_back(it.timeline.lives[i].block);
  }
  const auto &w = it.job.weights_, &b = it.job.biases_;
  EXPECT_THAT(blocks, ElementsAre(w[1], b[1], w[2], b[2], w[0], b[0]));
}

}  // namespace
}  // namespace ebt::plan
