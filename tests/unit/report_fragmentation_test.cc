#include <gtest/gtest.h>

#include "src/base/units.h"
#include "src/report/fragmentation.h"
#include "tests/unit/training_profile.h"

namespace ebt::report {
namespace {

using namespace ebt::profile;

// Blocks at places given in KiB.
class Places : public ProfileBuilder {
 public:
  uint32_t At(uint64_t begin, uint64_t size, AllocKind kind = AllocKind::kAsync) {
    const uint32_t block = Alloc(size * kKiB, 1, kind);
    profile.blocks[block].address = kBase + begin * kKiB;
    return block;
  }
  std::optional<Fragmentation> Now(uint16_t device = 0) const {
    return FreePieces(profile, device, profile.events.size() - 1);
  }

 private:
  static constexpr uint64_t kBase = uint64_t{1} << 40;
};

TEST(Fragmentation, WhatIsTakenIsNotFree) {
  Places places;
  places.At(0, 10);
  places.At(10, 10);
  ASSERT_TRUE(places.Now());
  EXPECT_EQ(places.Now()->free_bytes, 0u);
  EXPECT_EQ(places.Now()->pieces, 0u);
  EXPECT_EQ(places.Now()->Share(), 0);
}

TEST(Fragmentation, FreedNeighboursAreOnePiece) {
  Places places;
  const uint32_t a = places.At(0, 10), b = places.At(10, 20);
  places.At(30, 10);
  places.Free(a);
  places.Free(b);
  EXPECT_EQ(places.Now()->pieces, 1u);
  EXPECT_EQ(places.Now()->largest_free_bytes, 30 * kKiB);
}

TEST(Fragmentation, ShareIsWhatIsOutsideOfTheLargestPiece) {
  Places places;
  const uint32_t a = places.At(0, 10);
  places.At(10, 5);
  const uint32_t b = places.At(15, 30);
  places.At(45, 5);
  places.Free(a);
  places.Free(b);
  EXPECT_EQ(places.Now()->free_bytes, 40 * kKiB);
  EXPECT_EQ(places.Now()->largest_free_bytes, 30 * kKiB);
  EXPECT_EQ(places.Now()->pieces, 2u);
  EXPECT_DOUBLE_EQ(places.Now()->Share(), 0.25);
}

TEST(Fragmentation, ASmallerBlockInAFreedPlaceLeavesTheRestFree) {
  Places places;
  places.Free(places.At(0, 100));
  places.At(20, 30);
  EXPECT_EQ(places.Now()->pieces, 2u);
  EXPECT_EQ(places.Now()->free_bytes, 70 * kKiB);
  EXPECT_EQ(places.Now()->largest_free_bytes, 50 * kKiB);
}

TEST(Fragmentation, OneTakenBlockOverTwoUsedPlacesCutsBoth) {
  Places places;
  places.Free(places.At(0, 10));
  places.Free(places.At(20, 10));
  places.At(5, 20);
  EXPECT_EQ(places.Now()->free_bytes, 10 * kKiB);
  EXPECT_EQ(places.Now()->pieces, 2u);
}

TEST(Fragmentation, WhatCudaFreeGaveBackDoesNotCount) {
  Places places;
  places.At(100, 1);
  places.Free(places.At(0, 10, AllocKind::kLinear));
  EXPECT_EQ(places.Now()->free_bytes, 0u);
}

TEST(Fragmentation, TheFutureDoesNotCount) {
  Places places;
  const uint32_t a = places.At(0, 10);
  const uint64_t then = places.profile.events.size() - 1;
  places.Free(a);
  places.Free(places.At(50, 10));
  EXPECT_EQ(FreePieces(places.profile, 0, then)->free_bytes, 0u);
}

TEST(Fragmentation, OtherDevicesDoNotCount) {
  Places places;
  const uint32_t other = places.At(0, 10);
  places.profile.blocks[other].device = 1;
  places.Free(other);
  places.At(100, 1);
  EXPECT_EQ(places.Now(0)->free_bytes, 0u);
  EXPECT_EQ(places.Now(1)->free_bytes, 10 * kKiB);
}

TEST(Fragmentation, NothingIsSaidWithoutAddresses) {
  Places places;
  places.Alloc(kMiB, 1);
  EXPECT_FALSE(places.Now());
}

TEST(Fragmentation, AnAddressAtTheVeryEndDoesNotWrap) {
  Places places;
  const uint32_t block = places.At(0, 10);
  places.profile.blocks[block].address = ~uint64_t{0} - 511;
  places.Free(block);
  EXPECT_EQ(places.Now()->free_bytes, 511u);
}

}  // namespace
}  // namespace ebt::report
