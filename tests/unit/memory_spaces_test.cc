#include "src/report/memory_spaces.h"

#include <gtest/gtest.h>

#include "tests/unit/training_profile.h"

namespace ebt::report {
namespace {

using profile::AllocKind;
using profile::Kind;
using profile::ProfileBuilder;
using profile::Steps;

MemorySpaces SpacesOf(const ProfileBuilder& builder, const std::vector<Kind>& kinds = {}) {
  return FindMemorySpaces(builder.profile, std::nullopt, kinds);
}

TEST(MemorySpacesTest, ThePeakIsWhereMostIsLive) {
  ProfileBuilder builder;
  const uint32_t first = builder.Alloc(1024, 1);  // event 0: 1024
  builder.Alloc(100, 1);                          // event 1: 1536, a block takes units of 512
  builder.Free(first);                            // event 2: 512
  builder.Alloc(2048, 2);                         // event 3: 2560
  const MemorySpaces memory =
      SpacesOf(builder, {Kind::kInput, Kind::kParameter, Kind::kActivation});
  ASSERT_EQ(memory.spaces.size(), 1u);
  const MemorySpace& space = memory.spaces[0];
  EXPECT_EQ(space.name, "device 0");
  EXPECT_EQ(space.blocks, 3u);
  EXPECT_EQ(space.peak_bytes, 2560u);
  EXPECT_EQ(space.peak_blocks, 2u);
  EXPECT_EQ(space.peak_event, 3u);
  EXPECT_EQ(space.kinds[size_t(Kind::kParameter)].bytes, 512u);
  EXPECT_EQ(space.kinds[size_t(Kind::kActivation)].bytes, 2048u);
  EXPECT_EQ(space.kinds[size_t(Kind::kInput)].blocks, 0u);
}

TEST(MemorySpacesTest, OfEqualPeaksTheOneInASteadyStepCounts) {
  ProfileBuilder builder;
  for (int i = 0; i < 3; ++i) builder.Free(builder.Alloc(512, 1));  // allocations at 0, 2, 4
  Steps steps;
  steps.start_events = {3, 6};
  EXPECT_EQ(FindMemorySpaces(builder.profile, steps, {}).spaces[0].peak_event, 4u);
  EXPECT_EQ(SpacesOf(builder).spaces[0].peak_event, 0u);
}

TEST(MemorySpacesTest, TheLargestDeviceIsFirstAndManagedMemoryLast) {
  ProfileBuilder builder;
  builder.Alloc(1 << 20, 1, AllocKind::kManaged);
  builder.Alloc(512, 1);
  builder.Alloc(1024, 1);
  builder.profile.blocks[2].device = 3;
  const MemorySpaces memory = SpacesOf(builder);
  ASSERT_EQ(memory.spaces.size(), 3u);
  EXPECT_EQ(memory.spaces[0].name, "device 3");
  EXPECT_EQ(memory.spaces[1].name, "device 0");
  EXPECT_EQ(memory.spaces[2].name, "managed memory");
  EXPECT_EQ(memory.of_block, (std::vector<uint32_t>{2, 1, 0}));
}

TEST(MemorySpacesTest, ARecordingWithoutBlocksHasNone) {
  EXPECT_TRUE(SpacesOf(ProfileBuilder()).spaces.empty());
}

}  // namespace
}  // namespace ebt::report
