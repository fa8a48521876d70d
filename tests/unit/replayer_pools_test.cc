// The replayer before pools that a plan does not know of, and what a program reads of the memory
// that its pools use and hold.
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>

#include "tests/unit/replayed_devices.h"

namespace ebt::replay {
namespace {

class ReplayerPoolsTest : public ReplayerDevicesTest {};

TEST_F(ReplayerPoolsTest, ABlockOfAnotherDevicesPoolLiesOnThatDevice) {
  ReplayLarge({Warm(4096, 0)});
  for (CUmemoryPool pool : {DefaultPool(1), NewPool(1, CU_MEM_HANDLE_TYPE_NONE, true)}) {
    const Given block = AllocateFrom(pool, 4096, nullptr);
    ASSERT_EQ(block.result, CUDA_SUCCESS);
    EXPECT_FALSE(block.served);
    EXPECT_EQ(DeviceOf(block.ptr), 1);
    EXPECT_EQ(FreeAsync(block.ptr, nullptr), CUDA_SUCCESS);
  }
  EXPECT_TRUE(AllocateAsync(4096, nullptr).served);  // the plan's block was not used up
  EXPECT_EQ(replayer_->Statistics().allocations_planned, 1u);
}

TEST_F(ReplayerPoolsTest, PoolsThatWereNotAnnouncedOrCanBeExportedAreTheDrivers) {
  ReplayLarge({Warm(4096, 0)});
  for (CUmemoryPool pool : {NewPool(0, CU_MEM_HANDLE_TYPE_NONE, false),
                            NewPool(0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, true)}) {
    const Given named = AllocateFrom(pool, 4096, nullptr);
    ASSERT_EQ(cuDeviceSetMemPool(0, pool), CUDA_SUCCESS);
    const Given current = AllocateAsync(4096, nullptr);
    for (const Given& block : {named, current}) {
      ASSERT_EQ(block.result, CUDA_SUCCESS);
      EXPECT_FALSE(block.served);
      EXPECT_EQ(Attribute<CUmemoryPool>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block.ptr), pool);
      EXPECT_EQ(FreeAsync(block.ptr, nullptr), CUDA_SUCCESS);
    }
  }
  ASSERT_EQ(cuDeviceSetMemPool(0, DefaultPool(0)), CUDA_SUCCESS);
  EXPECT_TRUE(AllocateAsync(4096, nullptr).served);
}

TEST_F(ReplayerPoolsTest, FreeAndUsedMakeTheTotalWithColdAndNativeBlocks) {
  ReplayLarge({Cold(kPlannedCold, kPlannedWarm), Native(20 * kMiB)});
  const Info before = MemInfo();
  const Given cold = AllocateAsync(kPlannedCold, nullptr);
  ASSERT_TRUE(cold.served);
  EXPECT_EQ(MemInfo().free, before.free - 32 * kMiB);
  // The driver's pool grows by 32 MiB for it.
  const Given native = AllocateAsync(20 * kMiB, nullptr);
  ASSERT_FALSE(native.served);
  const Given linear = AllocateLinear(8 * kMiB);
  ASSERT_FALSE(linear.served);
  const Info now = MemInfo();
  EXPECT_EQ(now.total, 100 * kMiB);
  EXPECT_EQ(now.free, before.free - (32 + 32 + 8) * kMiB);
  const uint64_t used = PoolValue(CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  EXPECT_EQ(used, 52 * kMiB);
  EXPECT_LE(now.free + used, now.total);
  EXPECT_EQ(FreeAsync(cold.ptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(MemInfo().free, before.free - (32 + 8) * kMiB);
}

// Where the cold part is: on the host, on the device as the user wishes, on the device because
// the host has too little.
struct ColdHome {
  const char* name;
  bool managed;
  uint64_t host_budget;
  friend void PrintTo(const ColdHome& home, std::ostream* stream) { *stream << home.name; }
};
class ReplayerColdHomeTest : public ReplayerPoolsTest,
                             public ::testing::WithParamInterface<ColdHome> {};

TEST_P(ReplayerColdHomeTest, EveryReservedByteIsCountedOnce) {
  ReplayLarge({Cold(kPlannedCold, kPlannedWarm)}, GetParam().managed, GetParam().host_budget);
  ResetPeak(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);  // the driver's own, of tests before
  ::testing::internal::CaptureStderr();
  const Info before = MemInfo();
  ASSERT_TRUE(AllocateAsync(kPlannedCold, nullptr).served);
  EXPECT_EQ(::testing::internal::GetCapturedStderr().empty(), GetParam().host_budget == kGiB);
  EXPECT_EQ(PoolValue(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 32 * kMiB);
  EXPECT_EQ(PoolValue(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32 * kMiB);
  EXPECT_EQ(PoolValue(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 32 * kMiB);
  EXPECT_EQ(MemInfo().free, before.free - 32 * kMiB);
}

INSTANTIATE_TEST_SUITE_P(EveryHome, ReplayerColdHomeTest,
                         ::testing::Values(ColdHome{"Host", true, kGiB},
                                           ColdHome{"ColdOff", false, kGiB},
                                           ColdHome{"LittleHostMemory", true, kMiB}),
                         [](const auto& info) { return info.param.name; });

TEST_F(ReplayerPoolsTest, APoolOfAnotherDeviceReportsTheDriversReserveAlone) {
  ReplayLarge({Warm(4096, 0)});
  const CUmemoryPool pool = NewPool(1, CU_MEM_HANDLE_TYPE_NONE, true);
  ASSERT_TRUE(AllocateAsync(4096, nullptr).served);
  EXPECT_EQ(PoolValue(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  EXPECT_EQ(PoolValue(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 0u);
  ResetPeak(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
  EXPECT_EQ(PoolValue(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 0u);
  const Given native = AllocateFrom(pool, 4096, nullptr);
  ASSERT_EQ(native.result, CUDA_SUCCESS);
  ASSERT_FALSE(native.served);
  // The driver's pool grows by 32 MiB for it.
  EXPECT_EQ(PoolValue(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 4096u);
  EXPECT_EQ(PoolValue(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32 * kMiB);
  EXPECT_EQ(PoolValue(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 32 * kMiB);
  EXPECT_EQ(FreeAsync(native.ptr, nullptr), CUDA_SUCCESS);
}

TEST_F(ReplayerPoolsTest, WhatIsHeldIsReservedByTheDefaultPoolAndByNoEmptyOne) {
  ReplayLarge({Warm(4096, 0)});
  ResetPeak(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);  // the driver's own, of tests before
  const CUmemoryPool standard = DefaultPool(0);
  const CUmemoryPool empty = NewPool(0, CU_MEM_HANDLE_TYPE_NONE, true);
  ASSERT_TRUE(AllocateAsync(4096, nullptr).served);
  for (CUmemPool_attribute attribute :
       {CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH}) {
    EXPECT_EQ(PoolValue(standard, attribute), 32 * kMiB);
    EXPECT_EQ(PoolValue(empty, attribute), 0u);
  }
  ResetPeak(empty, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
  EXPECT_EQ(PoolValue(empty, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 0u);
}

TEST_F(ReplayerPoolsTest, EveryPoolUsesItsOwnBlocks) {
  ReplayLarge({Warm(4096, 0)});
  const CUmemoryPool standard = DefaultPool(0);
  const CUmemoryPool own = NewPool(0, CU_MEM_HANDLE_TYPE_NONE, true);
  ASSERT_TRUE(AllocateAsync(4096, nullptr).served);
  EXPECT_EQ(PoolValue(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
  const Given block = AllocateFrom(own, 8000, nullptr);  // 8192 in steps of 512
  ASSERT_TRUE(block.served);
  EXPECT_EQ(PoolValue(standard, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 4096u);
  EXPECT_EQ(PoolValue(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 8192u);
  // The planned chunk and the dynamic one; a program expects no pool to use more than it has.
  EXPECT_EQ(PoolValue(standard, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64 * kMiB);
  EXPECT_GE(PoolValue(own, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 8192u);
  EXPECT_EQ(FreeAsync(block.ptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(PoolValue(standard, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 4096u);
  EXPECT_EQ(PoolValue(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
  EXPECT_EQ(PoolValue(own, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 8192u);
  // What the arenas held is the default pool's in the marks too.
  EXPECT_EQ(PoolValue(own, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 8192u);
}

}  // namespace
}  // namespace ebt::replay
