#include "src/plan/stream_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/training_profile.h"
#include "tests/unit/valid_plan.h"

namespace ebt::plan {
namespace {

using profile::AllocKind;
using profile::ProfileBuilder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A step of three blocks of one size, one behind the other, so that they share one place: made and
// freed on the streams given.
struct Streams {
  uint16_t alloc, free;
};
class OnePlace : public ProfileBuilder {
 public:
  explicit OnePlace(std::vector<Streams> streams, AllocKind kind = AllocKind::kAsync)
      : streams_(std::move(streams)), kind_(kind) {
    weight_ = Alloc(kMiB, 100);
    Launch(9, {weight_});
    for (int i = 0; i < 5; ++i) OneStep();
    Step();
  }

  Plan Planned() const { return ValidPlan(profile, {}).plan; }

 private:
  void OneStep() {
    Step();
    for (size_t i = 0; i < streams_.size(); ++i) {
      const uint32_t block = Alloc(2 * kMiB, i + 1, kind_);
      Launch(uint32_t(i), {block, weight_});
      Free(block);
      profile.blocks[block].stream = streams_[i].alloc;
      profile.blocks[block].free_stream = streams_[i].free;
    }
    Launch(8, {weight_});
  }

  std::vector<Streams> streams_;
  AllocKind kind_;
  uint32_t weight_ = 0;
};

TEST(StreamOrderTest, BlocksOfOneStreamWaitForNobody) {
  for (const Slot& slot : OnePlace({{1, 1}, {1, 1}, {1, 1}}).Planned().step) {
    EXPECT_THAT(slot.after, IsEmpty());
  }
}

TEST(StreamOrderTest, ABlockComesAfterTheStreamThatFreedItsBytesAlsoAcrossTheStepsEnd) {
  const Plan plan = OnePlace({{1, 1}, {2, 2}, {2, 3}}).Planned();
  ASSERT_EQ(plan.step.size(), 3u);
  ASSERT_EQ(plan.step[0].offset, plan.step[1].offset);
  ASSERT_EQ(plan.step[1].offset, plan.step[2].offset);
  EXPECT_THAT(plan.step[0].after, ElementsAre(3));  // that of the step before
  EXPECT_THAT(plan.step[1].after, ElementsAre(1));
  EXPECT_THAT(plan.step[2].after, IsEmpty());  // the same stream made it free
}

TEST(StreamOrderTest, TheLegacyStreamIsAStreamToo) {
  const Plan plan = OnePlace({{0, 0}, {1, 1}}).Planned();
  EXPECT_THAT(plan.step[0].after, ElementsAre(1));
  EXPECT_THAT(plan.step[1].after, ElementsAre(0));
}

TEST(StreamOrderTest, WhatCuMemFreeFreedIsIdle) {
  for (const Slot& slot : OnePlace({{0, 0}, {0, 0}}, AllocKind::kLinear).Planned().step) {
    EXPECT_THAT(slot.after, IsEmpty());
  }
}

TEST(StreamOrderTest, LinearMemoryComesAfterEveryStream) {
  // Freed in the order of stream 2, made for any: also for work that stream 2 does not know.
  const Plan plan = OnePlace({{0, 2}}, AllocKind::kLinear).Planned();
  EXPECT_THAT(plan.step[0].after, ElementsAre(2));
}

TEST(StreamOrderTest, OfALargerPlaceEveryFormerUserCounts) {
  // Two blocks of 2 MiB on two streams live at one time, then one of 4 MiB takes both places.
  ProfileBuilder builder;
  const uint32_t weight = builder.Alloc(kMiB, 100);
  builder.Launch(9, {weight});
  for (int i = 0; i < 5; ++i) {
    builder.Step();
    const uint32_t a = builder.Alloc(2 * kMiB, 1), b = builder.Alloc(2 * kMiB, 2);
    builder.Launch(1, {a, b});
    builder.Free(a), builder.Free(b);
    builder.Launch(2, {weight});
    const uint32_t c = builder.Alloc(4 * kMiB, 3);
    builder.Launch(3, {c});
    builder.Free(c);
    builder.Launch(4, {weight});
    auto& blocks = builder.profile.blocks;
    blocks[a].stream = blocks[a].free_stream = 1;
    blocks[b].stream = blocks[b].free_stream = 2;
    blocks[c].stream = blocks[c].free_stream = 3;
  }
  builder.Step();
  const PlanResult result = ValidPlan(builder.profile, {});
  ASSERT_EQ(result.plan.step.size(), 3u);
  // 1 MiB of weight and 4 MiB: the packing has no other way.
  ASSERT_EQ(result.plan.warm_bytes, 6 * kMiB);
  EXPECT_THAT(result.plan.step[2].after, ElementsAre(1, 2));
  EXPECT_THAT(result.plan.step[0].after, ElementsAre(3));
  EXPECT_THAT(result.plan.step[1].after, ElementsAre(3));
}

}  // namespace
}  // namespace ebt::plan
