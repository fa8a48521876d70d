#include "src/plan/baseline.h"

#include <gtest/gtest.h>

#include "tests/unit/training_profile.h"

namespace ebt::plan {
namespace {

using profile::AllocKind;

constexpr uint64_t kKiB = uint64_t{1} << 10, kMiB = uint64_t{1} << 20;
constexpr uint64_t kSite = 1;

// What a program does with its memory, as a recording.
class Program : public profile::ProfileBuilder {
 public:
  uint32_t AllocOn(uint16_t stream, uint64_t bytes) {
    const uint32_t block = Alloc(bytes, kSite);
    profile.blocks[block].stream = stream;
    return block;
  }
  uint32_t Alloc(uint64_t bytes, uint64_t site = kSite, AllocKind kind = AllocKind::kAsync) {
    return ProfileBuilder::Alloc(bytes, site, kind);
  }
  void Touch(uint32_t block) { Launch(0, {block}); }

  Baseline Under(Policy policy, uint64_t capacity = 1024 * kMiB) const {
    return PlayBaseline(profile, policy, {.capacity = capacity});
  }
};

TEST(NativeBaselineTest, SmallRequestsAreRoundedTo512BytesAndShareSegmentsOf2MiB) {
  Program program;
  for (int i = 0; i < 4096; ++i) program.Alloc(1);  // 4096 * 512 bytes
  const Baseline full = program.Under(Policy::kNative);
  EXPECT_EQ(full.peak_live_bytes, 2 * kMiB);
  EXPECT_EQ(full.peak_allocated_bytes, 2 * kMiB);
  EXPECT_EQ(full.peak_reserved_bytes, 2 * kMiB);
  EXPECT_EQ(full.segments_made, 1u);
  EXPECT_EQ(full.allocations, 4096u);
  program.Alloc(1);
  EXPECT_EQ(program.Under(Policy::kNative).peak_reserved_bytes, 4 * kMiB);
}

TEST(NativeBaselineTest, RequestsUpToAMiBAreSmallAndOneMoreByteIsLarge) {
  Program small, large;
  small.Alloc(kMiB);
  large.Alloc(kMiB + 1);
  EXPECT_EQ(small.Under(Policy::kNative).peak_reserved_bytes, 2 * kMiB);
  EXPECT_EQ(large.Under(Policy::kNative).peak_reserved_bytes, 20 * kMiB);
}

TEST(NativeBaselineTest, LargeRequestsBelow10MiBShareSegmentsOf20MiB) {
  Program program;
  program.Alloc(10 * kMiB - 512);
  program.Alloc(10 * kMiB - 512);
  EXPECT_EQ(program.Under(Policy::kNative).peak_reserved_bytes, 20 * kMiB);
  EXPECT_EQ(program.Under(Policy::kNative).segments_made, 1u);
}

TEST(NativeBaselineTest, From10MiBOnASegmentIsTheRequestRoundedUpTo2MiB) {
  Program program;
  program.Alloc(10 * kMiB);
  EXPECT_EQ(program.Under(Policy::kNative).peak_reserved_bytes, 10 * kMiB);
  program.Alloc(20 * kMiB + 1);
  EXPECT_EQ(program.Under(Policy::kNative).peak_reserved_bytes, 32 * kMiB);
}

TEST(NativeBaselineTest, ARestOfAMiBGoesWithALargeBlockAndALargerOneIsSplitOff) {
  Program whole, split;
  whole.Alloc(11 * kMiB);  // of a segment of 12
  EXPECT_EQ(whole.Under(Policy::kNative).peak_allocated_bytes, 12 * kMiB);
  EXPECT_EQ(whole.Under(Policy::kNative).peak_live_bytes, 11 * kMiB);
  split.Alloc(11 * kMiB - 512);
  EXPECT_EQ(split.Under(Policy::kNative).peak_allocated_bytes, 11 * kMiB - 512);
  split.Alloc(kMiB + 512);  // is the rest
  EXPECT_EQ(split.Under(Policy::kNative).peak_reserved_bytes, 12 * kMiB);
}

TEST(NativeBaselineTest, TheSmallestFreePieceThatSufficesIsTaken) {
  Program program;
  const uint32_t large = program.Alloc(20 * kMiB), small = program.Alloc(12 * kMiB);
  program.Free(large);
  program.Free(small);
  program.Alloc(12 * kMiB);
  program.Alloc(20 * kMiB);
  EXPECT_EQ(program.Under(Policy::kNative).peak_reserved_bytes, 32 * kMiB);
}

TEST(NativeBaselineTest, FreeNeighboursAreOnePieceInWhateverOrderTheyAreFreed) {
  for (const bool first_first : {true, false}) {
    Program program;
    const uint32_t a = program.Alloc(4 * kMiB), b = program.Alloc(4 * kMiB);
    program.Alloc(8 * kMiB);  // 4 MiB of the segment are left
    program.Free(first_first ? a : b);
    program.Free(first_first ? b : a);
    program.Alloc(8 * kMiB);
    EXPECT_EQ(program.Under(Policy::kNative).peak_reserved_bytes, 20 * kMiB) << first_first;
  }
}

TEST(NativeBaselineTest, SegmentsAreNoNeighbours) {
  Program program;
  const uint32_t a = program.Alloc(10 * kMiB), b = program.Alloc(10 * kMiB);
  program.Free(a);
  program.Free(b);
  program.Alloc(20 * kMiB);
  EXPECT_EQ(program.Under(Policy::kNative).peak_reserved_bytes, 40 * kMiB);
}

TEST(NativeBaselineTest, APieceServesTheStreamThatItsSegmentWasMadeFor) {
  Program program;
  program.Free(program.AllocOn(1, 20 * kMiB));
  program.AllocOn(2, 20 * kMiB);
  EXPECT_EQ(program.Under(Policy::kNative).peak_reserved_bytes, 40 * kMiB);
  program.AllocOn(1, 20 * kMiB);
  EXPECT_EQ(program.Under(Policy::kNative).peak_reserved_bytes, 40 * kMiB);
}

TEST(NativeBaselineTest, WhenMemoryHasRunOutEmptySegmentsGoBackOnce) {
  Program program;
  program.Free(program.Alloc(20 * kMiB));
  program.Alloc(30 * kMiB);
  const Baseline roomy = program.Under(Policy::kNative, 50 * kMiB);
  EXPECT_EQ(roomy.peak_reserved_bytes, 50 * kMiB);
  EXPECT_EQ(roomy.retries, 0u);
  const Baseline tight = program.Under(Policy::kNative, 50 * kMiB - 1);
  EXPECT_TRUE(tight.fits);
  EXPECT_EQ(tight.peak_reserved_bytes, 30 * kMiB);
  EXPECT_EQ(tight.retries, 1u);
  EXPECT_EQ(tight.segments_freed, 1u);
}

TEST(NativeBaselineTest, ASegmentThatABlockLivesInStaysAndTheProgramEnds) {
  Program program;
  program.Alloc(4 * kMiB);
  program.Alloc(24 * kMiB);
  program.Alloc(512);
  const Baseline result = program.Under(Policy::kNative, 40 * kMiB);
  EXPECT_FALSE(result.fits);
  EXPECT_EQ(result.refused_bytes, 24 * kMiB);
  EXPECT_EQ(result.refused_at, 1u);
  EXPECT_EQ(result.retries, 1u);
  EXPECT_EQ(result.allocations, 1u);
  EXPECT_EQ(result.peak_reserved_bytes, 20 * kMiB);
}

TEST(ExpandableBaselineTest, PagesAre2MiBForSmallAnd20MiBForLargeRequests) {
  Program program;
  program.Alloc(1);
  EXPECT_EQ(program.Under(Policy::kExpandable).peak_reserved_bytes, 2 * kMiB);
  program.Alloc(25 * kMiB);
  const Baseline result = program.Under(Policy::kExpandable);
  EXPECT_EQ(result.peak_reserved_bytes, 42 * kMiB);
  EXPECT_EQ(result.segments_made, 3u);
}

TEST(ExpandableBaselineTest, ARequestBeginsInTheFreeEndOfWhatIsMapped) {
  Program program;
  program.Alloc(30 * kMiB);
  program.Alloc(15 * kMiB);  // the 10 that are left, and a page more
  EXPECT_EQ(program.Under(Policy::kExpandable).peak_reserved_bytes, 60 * kMiB);
  program.Alloc(15 * kMiB);  // what is left of that
  EXPECT_EQ(program.Under(Policy::kExpandable).peak_reserved_bytes, 60 * kMiB);
}

TEST(ExpandableBaselineTest, NothingOfAPieceGoesWithALargeBlock) {
  Program program;
  program.Alloc(20 * kMiB - 512);
  EXPECT_EQ(program.Under(Policy::kExpandable).peak_allocated_bytes, 20 * kMiB - 512);
}

TEST(ExpandableBaselineTest, TheGrowingEndIsTakenAfterEveryOtherPieceThatSuffices) {
  Program program;
  const uint32_t first = program.Alloc(12 * kMiB);
  program.Alloc(2 * kMiB);  // 6 are left of the page
  program.Free(first);
  program.Alloc(5 * kMiB);   // into the 12 that the first has left, not into the 6
  program.Alloc(26 * kMiB);  // the 6 and a page
  EXPECT_EQ(program.Under(Policy::kExpandable).peak_reserved_bytes, 40 * kMiB);
}

TEST(ExpandableBaselineTest, EachStreamHasItsOwnSegment) {
  Program program;
  program.Free(program.AllocOn(1, 20 * kMiB));
  program.AllocOn(2, 20 * kMiB);
  EXPECT_EQ(program.Under(Policy::kExpandable).peak_reserved_bytes, 40 * kMiB);
}

TEST(ExpandableBaselineTest, WhenMemoryHasRunOutWholeFreePagesAreUnmapped) {
  Program program;
  program.Alloc(5 * kMiB);
  program.Free(program.Alloc(30 * kMiB));  // 5 .. 35 of 40
  program.Alloc(512);
  const Baseline result = program.Under(Policy::kExpandable, 40 * kMiB);
  EXPECT_TRUE(result.fits);
  EXPECT_EQ(result.retries, 1u);
  EXPECT_EQ(result.segments_freed, 1u);  // 20 .. 40
  EXPECT_EQ(result.segments_made, 3u);
  EXPECT_EQ(result.peak_reserved_bytes, 40 * kMiB);
}

TEST(ExpandableBaselineTest, UnmappedPagesAreMappedAgainBetweenWhatStayed) {
  Program program;
  const uint32_t low = program.Alloc(30 * kMiB);
  program.Alloc(10 * kMiB);  // 30 .. 40
  program.Free(low);
  program.Alloc(512);        // 40 are mapped: the page 0 .. 20 goes, 20 .. 30 is free
  program.Alloc(22 * kMiB);  // in 0 .. 22, but no page can be had
  const Baseline tight = program.Under(Policy::kExpandable, 40 * kMiB);
  EXPECT_FALSE(tight.fits);
  EXPECT_EQ(tight.refused_bytes, 22 * kMiB);
  const Baseline enough = program.Under(Policy::kExpandable, 42 * kMiB);
  EXPECT_TRUE(enough.fits);
  EXPECT_EQ(enough.retries, 0u);
  EXPECT_EQ(enough.peak_reserved_bytes, 42 * kMiB);
}

TEST(PoolBaselineTest, GrowsByWholeChunksOf32MiBAcrossWhoseBordersBlocksReach) {
  Program program;
  program.Alloc(1);
  EXPECT_EQ(program.Under(Policy::kPool).peak_reserved_bytes, 32 * kMiB);
  program.Alloc(63 * kMiB);  // 31 and what is missing
  EXPECT_EQ(program.Under(Policy::kPool).peak_reserved_bytes, 64 * kMiB);
  EXPECT_EQ(program.Under(Policy::kPool).segments_made, 2u);
}

TEST(PoolBaselineTest, WhatOneStreamHasFreedServesAnother) {
  Program program;
  program.Free(program.AllocOn(1, 32 * kMiB));
  program.AllocOn(2, 32 * kMiB);
  EXPECT_EQ(program.Under(Policy::kPool).peak_reserved_bytes, 32 * kMiB);
}

TEST(PoolBaselineTest, TheSmallestRangeThatSufficesIsTaken) {
  Program program;
  const uint32_t low = program.Alloc(10 * kMiB);
  program.Alloc(kMiB);
  const uint32_t high = program.Alloc(5 * kMiB);
  program.Alloc(16 * kMiB);
  program.Free(low);
  program.Free(high);
  program.Alloc(5 * kMiB);
  program.Alloc(10 * kMiB);
  EXPECT_EQ(program.Under(Policy::kPool).peak_reserved_bytes, 32 * kMiB);
}

TEST(PoolBaselineTest, WhenMemoryHasRunOutWholeFreeChunksGoBack) {
  Program program;
  const uint32_t first = program.Alloc(40 * kMiB);
  program.Alloc(60 * kMiB);  // 28 of 128 are left at the end
  program.Free(first);
  program.Alloc(50 * kMiB);  // 0 .. 40 does not do: chunk 0 .. 32 goes for one at the end
  const Baseline result = program.Under(Policy::kPool, 128 * kMiB);
  EXPECT_TRUE(result.fits);
  EXPECT_EQ(result.retries, 1u);
  EXPECT_EQ(result.segments_freed, 1u);
  EXPECT_EQ(result.peak_reserved_bytes, 128 * kMiB);
  EXPECT_EQ(program.Under(Policy::kPool).peak_reserved_bytes, 160 * kMiB);
}

TEST(ManagedBaselineTest, WhatNothingTouchesTakesNoDeviceMemory) {
  Program program;
  program.Alloc(20 * kMiB);
  EXPECT_EQ(program.Under(Policy::kManaged).peak_reserved_bytes, 0u);
}

TEST(ManagedBaselineTest, TheLeastRecentlyNamedPageMakesRoomAndComesBackOverTheLink) {
  Program program;
  const uint32_t a = program.Alloc(2 * kMiB), b = program.Alloc(2 * kMiB);
  const uint32_t c = program.Alloc(2 * kMiB);
  program.Touch(a);
  program.Touch(b);
  program.Touch(a);
  program.Touch(c);  // b goes out
  program.Touch(a);
  program.Touch(b);  // c goes out, b comes in
  const Baseline result = program.Under(Policy::kManaged, 5 * kMiB);
  EXPECT_TRUE(result.fits);
  EXPECT_EQ(result.peak_reserved_bytes, 4 * kMiB);
  EXPECT_EQ(result.moved_out_bytes, 4 * kMiB);
  EXPECT_EQ(result.moved_in_bytes, 2 * kMiB);
  // 6 MiB at 12 GB/s.
  EXPECT_DOUBLE_EQ(result.fault_ms, 6.0 * 1048576 / 12e9 * 1e3);
}

TEST(ManagedBaselineTest, FreedBytesMoveNeitherWay) {
  Program program;
  const uint32_t a = program.Alloc(2 * kMiB);
  program.Touch(a);
  program.Free(a);
  program.Touch(program.Alloc(2 * kMiB));
  const Baseline result = program.Under(Policy::kManaged, 2 * kMiB);
  EXPECT_EQ(result.moved_in_bytes + result.moved_out_bytes, 0u);
}

TEST(ManagedBaselineTest, AProgramLargerThanTheDeviceRuns) {
  Program program;
  const uint32_t all = program.Alloc(64 * kMiB);
  program.Touch(all);
  program.Touch(all);
  const Baseline result = program.Under(Policy::kManaged, 32 * kMiB);
  EXPECT_TRUE(result.fits);
  // The first pass pushes out 16 pages; in the second each page finds itself pushed out.
  EXPECT_EQ(result.moved_out_bytes, (16 + 32) * 2 * kMiB);
  EXPECT_EQ(result.moved_in_bytes, 32 * 2 * kMiB);
}

TEST(BaselineTest, LibrariesBesideTheFrameworkCountForTheProcessAlone) {
  Program program;
  program.Alloc(3 * kMiB + 1, 2, AllocKind::kLinear);
  program.Alloc(1);
  program.Alloc(5 * kMiB, 2, AllocKind::kManaged);
  const Baseline result = program.Under(Policy::kNative);
  EXPECT_EQ(result.peak_live_bytes, 512u);
  EXPECT_EQ(result.peak_reserved_bytes, 2 * kMiB);
  EXPECT_EQ(result.peak_process_bytes, 5 * kMiB + 512);
}

TEST(BaselineTest, WithoutStreamOrderedBlocksLinearOnesAreTheProgramsOwn) {
  Program program;
  program.Alloc(3 * kMiB, 2, AllocKind::kLinear);
  EXPECT_EQ(program.Under(Policy::kNative).peak_live_bytes, 3 * kMiB);
}

TEST(BaselineTest, AHugeBlockThatNothingTouchesIsNoDemand) {
  Program program;
  program.profile.metadata["total_bytes"] = std::to_string(120 * kMiB);
  program.profile.metadata["device_used_base_bytes"] = std::to_string(20 * kMiB);
  program.Free(program.Alloc(25 * kMiB + 512));
  EXPECT_EQ(PlayBaseline(program.profile, Policy::kNative).peak_live_bytes, 0u);
  program.Free(program.Alloc(25 * kMiB));
  EXPECT_EQ(PlayBaseline(program.profile, Policy::kNative).peak_live_bytes, 25 * kMiB);
  program.Touch(0);
  EXPECT_EQ(PlayBaseline(program.profile, Policy::kNative).peak_live_bytes, 25 * kMiB + 512);
}

TEST(BaselineTest, TheRecordedDeviceHasWhatWasFreeWhenTheProgramBegan) {
  Program program;
  EXPECT_GT(RecordedCapacity(program.profile), uint64_t{1} << 43);
  program.profile.metadata = {{"total_bytes", "1000"}, {"device_used_base_bytes", "100"}};
  EXPECT_EQ(RecordedCapacity(program.profile), 900u);
}

TEST(BaselineTest, TheDeviceWithMostBytesIsPlayed) {
  Program program;
  program.Alloc(2 * kMiB);
  program.profile.blocks[program.Alloc(30 * kMiB)].device = 1;
  EXPECT_EQ(program.Under(Policy::kNative).peak_live_bytes, 30 * kMiB);
}

TEST(BaselineTest, AbsurdSizesAreRefusedAndNothingOverflows) {
  for (Policy policy : kPolicies) {
    Program program;
    program.Alloc(kKiB);
    program.Touch(program.Alloc(~uint64_t{0}));
    const Baseline result = PlayBaseline(program.profile, policy);
    EXPECT_FALSE(result.fits) << PolicyName(policy);
    EXPECT_EQ(result.refused_bytes, ~uint64_t{0}) << PolicyName(policy);
    EXPECT_EQ(result.peak_live_bytes, kKiB) << PolicyName(policy);
  }
}

TEST(BaselineTest, NamesAreThoseThatAreUnderstood) {
  for (Policy policy : kPolicies) EXPECT_EQ(PolicyNamed(PolicyName(policy)), policy);
  EXPECT_EQ(PolicyNamed("buddy"), std::nullopt);
}

// A long random life, then everything is freed: all that is held must be one piece a segment again,
// so a block of nearly all there is finds room. The native allocator has to give its segments back
// for it, the others grow what they have at its end.
TEST(BaselineTest, EverythingThatIsFreedCanBeTakenAgain) {
  for (Policy policy : {Policy::kNative, Policy::kExpandable, Policy::kPool}) {
    Program program;
    uint64_t state = 1;
    const auto next = [&state] {
      return state = state * 6364136223846793005u + 1442695040888963407u;
    };
    std::vector<uint32_t> live;
    for (int i = 0; i < 4000; ++i) {
      const uint64_t word = next() >> 33;
      if (live.size() > 60 || (!live.empty() && word % 3 == 0)) {
        program.Free(live[word % live.size()]);
        live[word % live.size()] = live.back();
        live.pop_back();
      } else {
        live.push_back(program.Alloc(1 + (word % 2 ? word % (6 * kMiB) : word % 4096)));
      }
    }
    const Baseline once = program.Under(policy);
    EXPECT_TRUE(once.fits) << PolicyName(policy);
    for (uint32_t block : live) program.Free(block);
    program.Alloc(1000 * kMiB);
    const Baseline result = program.Under(policy);
    EXPECT_TRUE(result.fits) << PolicyName(policy);
    EXPECT_EQ(result.retries, policy == Policy::kNative ? 1u : 0u) << PolicyName(policy);
    EXPECT_GE(result.peak_reserved_bytes, 1000 * kMiB) << PolicyName(policy);
  }
}

}  // namespace
}  // namespace ebt::plan
