#include "src/replay/pools.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace ebt::replay {
namespace {

const auto kPool = reinterpret_cast<CUmemoryPool>(0x1000);
const auto kOther = reinterpret_cast<CUmemoryPool>(0x2000);
const auto kForeign = reinterpret_cast<CUmemoryPool>(0x3000);

class PoolCountersTest : public ::testing::Test {
 protected:
  uint64_t Extra(CUmemPool_attribute attribute, uint64_t reserved, CUmemoryPool pool = kPool) {
    uint64_t extra = 0;
    EXPECT_TRUE(counters_.Extra(pool, attribute, reserved, &extra));
    return extra;
  }
  uint64_t Used(CUmemoryPool pool = kPool) {
    return Extra(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 0, pool);
  }
  uint64_t UsedHigh() { return Extra(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0); }

  void SetUp() override {
    counters_.Announce(kPool, 0);
    counters_.Announce(kOther, 0);
  }

  PoolCounters counters_;
};

TEST_F(PoolCountersTest, OnlyAnnouncedPoolsOfTheDeviceAreServable) {
  EXPECT_TRUE(counters_.Servable(kPool, 0));
  EXPECT_FALSE(counters_.Servable(kPool, 1));  // its memory is device 0's
  EXPECT_FALSE(counters_.Servable(kForeign, 0));
  counters_.Destroyed(kPool);
  EXPECT_FALSE(counters_.Servable(kPool, 0));
}

TEST_F(PoolCountersTest, NothingOfOursIsInAPoolThatWasNotAnnounced) {
  uint64_t extra = 7;
  counters_.Allocated(kForeign, 1024, 4096);
  EXPECT_FALSE(counters_.Extra(kForeign, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 4096, &extra));
  EXPECT_EQ(extra, 7u);
}

TEST_F(PoolCountersTest, UsedBytesFollowAllocationsAndFreesOfTheirPool) {
  counters_.Allocated(kPool, 1024, 4096);
  counters_.Allocated(kPool, 512, 4096);
  counters_.Allocated(kOther, 2048, 4096);
  EXPECT_EQ(Used(), 1536u);
  EXPECT_EQ(Used(kOther), 2048u);
  counters_.Freed(kPool, 1024);
  EXPECT_EQ(Used(), 512u);
  EXPECT_EQ(UsedHigh(), 1536u);
}

TEST_F(PoolCountersTest, FreesThatWereNotCountedDoNotWrapAround) {
  counters_.Freed(kPool, 512);
  counters_.Allocated(kPool, 512, 512);
  counters_.Freed(kPool, 1024);
  EXPECT_EQ(Used(), 0u);
}

TEST_F(PoolCountersTest, ReservedIsNeverLessThanUsed) {
  counters_.Allocated(kPool, 4096, 1024);
  EXPECT_EQ(Extra(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 1024), 4096u);
  EXPECT_EQ(Extra(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 8192), 8192u);
  EXPECT_EQ(Extra(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 1024), 4096u);
}

TEST_F(PoolCountersTest, HighWaterMarksStayUntilTheyAreReset) {
  counters_.Allocated(kPool, 1024, 8192);
  counters_.Allocated(kPool, 1024, 8192);
  counters_.Freed(kPool, 1536);
  EXPECT_EQ(UsedHigh(), 2048u);
  EXPECT_EQ(Extra(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 512), 8192u);

  counters_.ResetHigh(kPool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 4096);
  EXPECT_EQ(UsedHigh(), 512u);
  EXPECT_EQ(Extra(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 512), 8192u);  // the other mark is untouched
  counters_.ResetHigh(kPool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 4096);
  EXPECT_EQ(Extra(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 512), 4096u);

  counters_.Allocated(kPool, 512, 6144);
  EXPECT_EQ(UsedHigh(), 1024u);
  EXPECT_EQ(Extra(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 512), 6144u);
}

TEST_F(PoolCountersTest, ResettingAnUnknownPoolDoesNothing) {
  counters_.ResetHigh(kForeign, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 4096);
  EXPECT_EQ(UsedHigh(), 0u);
}

TEST_F(PoolCountersTest, OtherAttributesAreTheDriversOwn) {
  uint64_t extra = 7;
  for (CUmemPool_attribute attribute :
       {CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES})
    EXPECT_FALSE(counters_.Extra(kPool, attribute, 4096, &extra));
  EXPECT_EQ(extra, 7u);
}

TEST_F(PoolCountersTest, ADestroyedPoolsCountersGoWithIt) {
  counters_.Allocated(kPool, 1024, 1024);
  counters_.Destroyed(kPool);
  counters_.Freed(kPool, 1024);
  counters_.Announce(kPool, 0);  // the driver gives the handle to a new pool
  EXPECT_EQ(Used(), 0u);
  EXPECT_EQ(UsedHigh(), 0u);
}

}  // namespace
}  // namespace ebt::replay
