#include "src/plan/slab_section.h"

#include <gtest/gtest.h>

#include "src/plan/layout.h"
#include "tests/unit/training_profile.h"

namespace ebt::plan {
namespace {

using profile::Optimizer;
using profile::Training;
using profile::TrainingShape;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A training run with its optimizer state cold and everything else warm.
class Planning {
 public:
  explicit Planning(const TrainingShape& shape) : profile(Training(shape).profile) {
    auto built = BuildTimeline(profile);
    EXPECT_TRUE(built.ok()) << built.status();
    if (built.ok()) timeline = *std::move(built);
    behaviour = Judge(profile, timeline, {});
    clock = ReadClock(profile, timeline);
    for (const Lived& life : timeline.lives) {
      const bool state = profile.blocks[life.block].site == profile::kStateSite;
      tiers.push_back(state ? Tier::kCold : Tier::kWarm);
    }
  }

  SlabSection Section(uint64_t keep_free = 0) const {
    return MakeSlabSection(profile, timeline, tiers, clock, {}, {.keep_free = keep_free});
  }

  // Most bytes live at once of what is warm, and of `section`'s stays.
  uint64_t LiveWith(const SlabSection& section) const {
    std::vector<uint32_t> warm;
    for (uint32_t i = 0; i < tiers.size(); ++i) {
      if (tiers[i] == Tier::kWarm) warm.push_back(i);
    }
    std::vector<Item> items = Occupy(profile, timeline, warm).items;
    items.insert(items.end(), section.stays.begin(), section.stays.end());
    return MaxLive(items);
  }

  profile::Profile profile;
  Timeline timeline;
  Behaviour behaviour;
  StepClock clock;
  std::vector<Tier> tiers;
};

// Warm at most: 6 weights of 5 MiB, batch and 6 activations of 20, a gradient of 5, the loss.
constexpr TrainingShape kRoomy = {.layers = 6,
                                  .steps = 5,
                                  .optimizer = Optimizer::kLoop,
                                  .weight = 5 * kMiB,
                                  .activation = 20 * kMiB};

TEST(SlabSectionTest, SlabsAreUsedWhileAnyBlockInThemIs) {
  const Planning run(kRoomy);
  const SlabSection section = run.Section();
  // A 64th of 175 MiB is less than 4 MiB. 12 blocks of 5 MiB, two a layer, so five slabs a layer.
  EXPECT_EQ(section.slab_bytes, 2 * kMiB);
  ASSERT_EQ(section.slabs.size(), 30u);
  EXPECT_EQ(section.bytes(), 60 * kMiB);
  ASSERT_EQ(section.lives.size(), 12u);
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(section.offsets[i], i * 5 * kMiB);
  // Behind 12 launches of forward, the loss and 6 of backward a layer has three: the first two
  // use one block, the last both.
  for (size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(section.slabs[i].evict_launch, 19 + 3 * (i / 5) + 2) << i;
    const bool second_block_alone = i % 5 > 2;
    EXPECT_LE(section.slabs[i].fetch_launch, 19 + 3 * (i / 5) + (second_block_alone ? 2 : 0)) << i;
  }
  EXPECT_TRUE(section.to_device.empty());
  EXPECT_DOUBLE_EQ(section.stall_ms, 0);
}

TEST(SlabSectionTest, StaysAreItemsFromBeforeTheFetchUntilBeforeTheGoneLaunch) {
  const Planning run(kRoomy);
  const SlabSection section = run.Section();
  ASSERT_EQ(section.stays.size(), section.slabs.size());
  for (size_t i = 0; i < section.slabs.size(); ++i) {
    const Item& stay = section.stays[i];
    const uint64_t fetch = run.timeline.launch_times[section.slabs[i].fetch_launch];
    const uint64_t gone = run.timeline.launch_times[section.slabs[i].gone_launch];
    EXPECT_EQ(stay.bytes, section.slab_bytes);
    EXPECT_EQ(stay.alignment, section.slab_bytes);
    EXPECT_EQ(stay.live[0].begin, fetch);
    EXPECT_EQ(stay.live[fetch < gone ? 0 : 1].end, gone);
    if (fetch < gone) continue;
    EXPECT_EQ(stay.live[0].end, run.timeline.end);
    EXPECT_EQ(stay.live[1].begin, run.timeline.prologue_end);
  }
}

TEST(SlabSectionTest, StaysDoNotRaiseThePeak) {
  for (Optimizer optimizer : {Optimizer::kFused, Optimizer::kForeach, Optimizer::kLoop}) {
    for (uint64_t activation : {2 * kMiB, 5 * kMiB, 20 * kMiB}) {
      const Planning run({.layers = 12,
                          .steps = 5,
                          .optimizer = optimizer,
                          .weight = 5 * kMiB,
                          .activation = activation});
      EXPECT_EQ(run.LiveWith(run.Section()), run.LiveWith({})) << int(optimizer) << activation;
    }
  }
}

TEST(SlabSectionTest, StateThatOneLaunchUsesBeyondTheRoomStaysInPlace) {
  // One launch uses weights, gradients and all state: 12 * (5 + 5) MiB and 120 MiB. Warm at most:
  // weights 60, batch and activations 13 * 10, a gradient 5, the loss: 195 MiB. So 75 MiB of room
  // and slabs of 2: 37 of them, which hold 14 whole blocks.
  const Planning run({.layers = 12,
                      .steps = 5,
                      .optimizer = Optimizer::kFused,
                      .weight = 5 * kMiB,
                      .activation = 10 * kMiB});
  const SlabSection section = run.Section();
  EXPECT_EQ(section.slab_bytes, 2 * kMiB);
  EXPECT_EQ(section.lives.size(), 14u);
  EXPECT_EQ(section.slabs.size(), 35u);
  EXPECT_TRUE(section.to_device.empty());
}

TEST(SlabSectionTest, RoomThatIsKeptFreeIsNotFilled) {
  const Planning run({.layers = 12,
                      .steps = 5,
                      .optimizer = Optimizer::kFused,
                      .weight = 5 * kMiB,
                      .activation = 10 * kMiB});
  const SlabSection section = run.Section(10 * kMiB);
  // Of 75 MiB of room 65 are left: 32 slabs, 12 whole blocks.
  EXPECT_EQ(section.lives.size(), 12u);
}

TEST(SlabSectionTest, OnlyPersistentOptimizerStateIsMoved) {
  Planning run(kRoomy);
  for (Tier& tier : run.tiers) tier = Tier::kCold;
  const SlabSection section = run.Section();
  for (uint32_t life : section.lives) {
    EXPECT_EQ(run.behaviour.traits[life].block_class, BlockClass::kOptimizerState);
    EXPECT_EQ(run.timeline.lives[life].span, Span::kPersistent);
  }
}

TEST(SlabSectionTest, WithoutColdBlocksOrWithoutALaunchThereIsNoSection) {
  Planning run(kRoomy);
  const std::vector<Tier> tiers = run.tiers;
  for (Tier& tier : run.tiers) tier = Tier::kWarm;
  EXPECT_EQ(run.Section().slab_bytes, 0u);
  EXPECT_EQ(run.Section().bytes(), 0u);
  run.tiers = tiers;
  run.timeline.launch_times.clear();
  EXPECT_EQ(run.Section().slab_bytes, 0u);
}

}  // namespace
}  // namespace ebt::plan
