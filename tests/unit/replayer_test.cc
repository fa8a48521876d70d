#include "src/replay/replayer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/replayed_program.h"

namespace ebt::replay {
namespace {

TEST_F(ReplayerTest, PlannedBlocksLieAtTheOffsetsOfThePlan) {
  Replay({Warm(1000, 512)}, {Warm(4096, 2 * kMiB), Warm(512, 0)});
  const CUstream stream = NewStream();
  const Given first = AllocateAsync(1000, stream);
  for (int turn = 0; turn < 3; ++turn) {
    const Given a = AllocateAsync(4096, stream), b = AllocateAsync(512, stream);
    ASSERT_TRUE(first.served && a.served && b.served);
    EXPECT_EQ(a.ptr - first.ptr, 2 * kMiB - 512);
    EXPECT_EQ(first.ptr - b.ptr, 512u);
    EXPECT_EQ(FreeAsync(a.ptr, stream), CUDA_SUCCESS);
    EXPECT_EQ(FreeAsync(b.ptr, stream), CUDA_SUCCESS);
  }
  const ebbtide_statistics statistics = replayer_->Statistics();
  EXPECT_EQ(statistics.allocations_planned, 7u);
  EXPECT_EQ(statistics.allocations_dynamic, 0u);
  EXPECT_EQ(statistics.allocations_native, 0u);
  EXPECT_EQ(statistics.steps, 3u);
}

TEST_F(ReplayerTest, APlannedPlaceInUseIsServedElsewhere) {
  Replay({}, {Warm(4096, 0)});
  const CUstream stream = NewStream();
  const Given first = AllocateAsync(4096, stream), second = AllocateAsync(4096, stream);
  ASSERT_TRUE(first.served && second.served);
  EXPECT_NE(first.ptr, second.ptr);
  EXPECT_EQ(replayer_->Statistics().allocations_dynamic, 1u);
}

TEST_F(ReplayerTest, WhatNoPlanKnowsIsDynamicOrTheDriversByItsKind) {
  Replay({Warm(512, 0)}, {});
  const CUstream stream = NewStream();
  EXPECT_TRUE(AllocateAsync(777, stream).served);
  EXPECT_FALSE(AllocateLinear(777).served);
  EXPECT_TRUE(AllocateLinear(512).served);  // planned
  CUdeviceptr ptr = 0;
  CUresult result = CUDA_SUCCESS;
  for (int kind : {EBT_ALLOC_PITCHED, EBT_ALLOC_MANAGED, EBT_ALLOC_VMM})
    EXPECT_FALSE(replayer_->Alloc({kind, 512, nullptr, nullptr}, &ptr, &result));
  EXPECT_FALSE(replayer_->Alloc({EBT_ALLOC_ASYNC, 0, stream, nullptr}, &ptr, &result));
  EXPECT_FALSE(replayer_->Alloc({EBT_ALLOC_ASYNC, SIZE_MAX, stream, nullptr}, &ptr, &result));
  const ebbtide_statistics statistics = replayer_->Statistics();
  EXPECT_EQ(statistics.allocations_planned, 1u);
  EXPECT_EQ(statistics.allocations_dynamic, 1u);
  EXPECT_EQ(statistics.allocations_native, 1u);
}

TEST_F(ReplayerTest, ByAnEmptyPlanEverythingIsTheDriversAndNothingIsSaid) {
  Replay({}, {});
  const CUstream stream = NewStream();
  testing::internal::CaptureStderr();
  // More than it takes to find that a plan does not fit.
  for (int turn = 0; turn < 200; ++turn) {
    const Given ordered = AllocateAsync(4096, stream), linear = AllocateLinear(4096);
    EXPECT_FALSE(ordered.served);
    EXPECT_FALSE(linear.served);
    EXPECT_EQ(ordered.result, CUDA_SUCCESS);
    EXPECT_EQ(linear.result, CUDA_SUCCESS);
    CUresult result = CUDA_SUCCESS;
    EXPECT_FALSE(replayer_->Free(ordered.ptr, stream, true, &result));
    EXPECT_EQ(cuMemFreeAsync(ordered.ptr, stream), CUDA_SUCCESS);
    EXPECT_EQ(Free(linear.ptr), CUDA_SUCCESS);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  const ebbtide_statistics statistics = replayer_->Statistics();
  EXPECT_EQ(statistics.allocations_native, 400u);
  EXPECT_EQ(statistics.allocations_planned + statistics.allocations_dynamic, 0u);
  EXPECT_EQ(statistics.device_bytes_peak, 0u);
}

TEST_F(ReplayerTest, ANativeSlotIsTheDrivers) {
  Slot slot = Warm(4096, 0);
  slot.tier = Tier::kNative;
  Replay({slot}, {});
  EXPECT_FALSE(AllocateAsync(4096, NewStream()).served);
}

TEST_F(ReplayerTest, WithoutAContextEverythingIsTheDrivers) {
  Replay({Warm(512, 0)}, {});
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  CUdeviceptr ptr = 0;
  CUresult result = CUDA_SUCCESS;
  size_t free = 0, total = 0;
  EXPECT_FALSE(replayer_->Alloc({EBT_ALLOC_ASYNC, 512, nullptr, nullptr}, &ptr, &result));
  EXPECT_FALSE(replayer_->MemInfo(&free, &total, &result));
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
}

TEST_F(ReplayerTest, AnAddressRangeIsTheBlocksAndNotTheArenas) {
  Replay({Warm(1000, 512)}, {});
  const Given block = AllocateAsync(1000, NewStream());
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CUresult result = CUDA_ERROR_UNKNOWN;
  ASSERT_TRUE(replayer_->AddressRange(&base, &bytes, block.ptr + 999, &result));
  EXPECT_EQ(result, CUDA_SUCCESS);
  EXPECT_EQ(base, block.ptr);
  EXPECT_EQ(bytes, 1000u);
  EXPECT_TRUE(replayer_->AddressRange(nullptr, nullptr, block.ptr, &result));
  // The driver would tell of all that we hold.
  for (CUdeviceptr outside : {block.ptr + 1000, block.ptr - 1}) {
    EXPECT_TRUE(replayer_->AddressRange(&base, &bytes, outside, &result));
    EXPECT_EQ(result, CUDA_ERROR_NOT_FOUND);
  }
}

TEST_F(ReplayerTest, AForeignPointerIsFreedByTheDriver) {
  Replay({Warm(512, 0)}, {});
  const Given block = AllocateAsync(512, NewStream());
  CUdeviceptr foreign = 0;
  ASSERT_EQ(cuMemAlloc(&foreign, 512), CUDA_SUCCESS);
  CUresult result = CUDA_SUCCESS;
  EXPECT_FALSE(replayer_->Free(foreign, nullptr, false, &result));
  EXPECT_EQ(Free(block.ptr + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Free(foreign), CUDA_SUCCESS);
  EXPECT_EQ(Free(block.ptr), CUDA_SUCCESS);
  EXPECT_EQ(Free(block.ptr), CUDA_ERROR_INVALID_VALUE);  // freed already
}

TEST_F(ReplayerTest, FreeAndUsedNeverExceedTheTotal) {
  Replay({Cold(kMiB, kWarm)}, {Warm(2 * kMiB, 0)});
  const CUstream stream = NewStream();
  const Info before = MemInfo();
  uint64_t used = 0;
  for (uint64_t bytes : {kMiB, 2 * kMiB, 100 * kMiB, 3 * kMiB}) {
    ASSERT_TRUE(AllocateAsync(bytes, stream).served);
    used += bytes;
    const Info now = MemInfo();
    EXPECT_EQ(now.total, before.total);
    EXPECT_LE(now.free + used, now.total);
    EXPECT_EQ(PoolValue(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), used);
    EXPECT_GE(PoolValue(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), used);
  }
}

TEST_F(ReplayerTest, MemInfoTakesNullOutputs) {
  Replay({Warm(512, 0)}, {});
  CUresult result = CUDA_ERROR_UNKNOWN;
  size_t value = 0;
  EXPECT_TRUE(replayer_->MemInfo(nullptr, &value, &result));
  EXPECT_EQ(result, CUDA_SUCCESS);
  size_t free = 0, total = 0;
  ASSERT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(value, total);
  EXPECT_TRUE(replayer_->MemInfo(&value, nullptr, &result));
  EXPECT_TRUE(replayer_->MemInfo(nullptr, nullptr, &result));
}

TEST_F(ReplayerTest, WhatIsHeldIdleIsToldAsFree) {
  Replay({Warm(512, 0)}, {});
  const CUstream stream = NewStream();
  const size_t before = MemInfo().free;
  const Given block = AllocateAsync(100 * kMiB, stream);
  EXPECT_EQ(MemInfo().free, before - 100 * kMiB);
  EXPECT_EQ(FreeAsync(block.ptr, stream), CUDA_SUCCESS);
  EXPECT_EQ(MemInfo().free, before);
  EXPECT_GT(replayer_->Statistics().device_bytes, 0u);  // held all the same
}

TEST_F(ReplayerTest, ABudgetIsWhatTheProgramIsTold) {
  Replay({Warm(512, 0)}, {}, true, 64 * kMiB);
  const CUstream stream = NewStream();
  EXPECT_EQ(MemInfo().free, 64 * kMiB);
  const Given block = AllocateAsync(24 * kMiB, stream);
  EXPECT_EQ(MemInfo().free, 40 * kMiB);
  EXPECT_EQ(FreeAsync(block.ptr, stream), CUDA_SUCCESS);
  EXPECT_EQ(MemInfo().free, 64 * kMiB);
}

TEST_F(ReplayerTest, PoolPeaksAreKeptAndReset) {
  Replay({Warm(512, 0)}, {});
  ResetPeak(CU_MEMPOOL_ATTR_USED_MEM_HIGH);  // the driver's own, of tests before
  const CUstream stream = NewStream();
  const Given a = AllocateAsync(kMiB, stream), b = AllocateAsync(2 * kMiB, stream);
  EXPECT_EQ(FreeAsync(b.ptr, stream), CUDA_SUCCESS);
  EXPECT_EQ(PoolValue(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), kMiB);
  EXPECT_EQ(PoolValue(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 3 * kMiB);
  ResetPeak(CU_MEMPOOL_ATTR_USED_MEM_HIGH);
  EXPECT_EQ(PoolValue(CU_MEMPOOL_ATTR_USED_MEM_HIGH), kMiB);
  ResetPeak(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
  EXPECT_EQ(PoolValue(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH),
            PoolValue(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  EXPECT_EQ(FreeAsync(a.ptr, stream), CUDA_SUCCESS);
  EXPECT_EQ(PoolValue(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
}

TEST_F(ReplayerTest, APoolThatOthersCanReachIsTheDrivers) {
  Replay({Warm(512, 0)}, {});
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  const auto exported = reinterpret_cast<CUmemoryPool>(0x10),
             plain = reinterpret_cast<CUmemoryPool>(0x20);
  replayer_->PoolCreated(exported, properties);
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  replayer_->PoolCreated(plain, properties);
  CUdeviceptr ptr = 0;
  CUresult result = CUDA_SUCCESS;
  EXPECT_FALSE(replayer_->Alloc({EBT_ALLOC_POOL, 512, nullptr, exported}, &ptr, &result));
  EXPECT_TRUE(replayer_->Alloc({EBT_ALLOC_POOL, 512, nullptr, plain}, &ptr, &result));
  uint64_t value = 0;
  EXPECT_FALSE(replayer_->PoolGet(exported, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value, &result));
}

TEST_F(ReplayerTest, TrimGivesBackWhatNobodyUses) {
  Replay({Warm(512, 0)}, {});
  const CUstream stream = NewStream();
  const uint64_t before = DeviceBytes();
  const Given kept = AllocateAsync(kMiB, stream), gone = AllocateAsync(100 * kMiB, stream);
  ASSERT_EQ(cuMemsetD8Async(kept.ptr, 7, kMiB, stream), CUDA_SUCCESS);
  EXPECT_EQ(FreeAsync(gone.ptr, stream), CUDA_SUCCESS);
  replayer_->PoolTrim();
  EXPECT_EQ(DeviceBytes() - before, 32 * kMiB);  // the one chunk that `kept` lies in
  unsigned char byte = 0;
  ASSERT_EQ(cuMemcpyDtoH(&byte, kept.ptr + kMiB - 1, 1), CUDA_SUCCESS);
  EXPECT_EQ(byte, 7);
}

TEST_F(ReplayerTest, TrimsTakeNothingFromUnderOtherThreads) {
  Replay({}, {Warm(4096, 0)});
  for (int i = 0; i < 100; ++i)  // a plan that fits
    ASSERT_EQ(FreeAsync(AllocateAsync(4096, nullptr).ptr, nullptr), CUDA_SUCCESS);
  constexpr int kTurns = test::StormOf(1500);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([this, i] {
      ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
      const CUstream stream = NewStream();
      void* host = nullptr;
      ASSERT_EQ(cuMemAllocHost(&host, 64 * kKiB), CUDA_SUCCESS);
      for (int turn = 0; turn < kTurns; ++turn) {
        const Given block = AllocateAsync((1 + (turn + i) % 3) * 20 * kMiB, stream);
        ASSERT_EQ(block.result, CUDA_SUCCESS);
        ASSERT_EQ(cuMemsetD8Async(block.ptr, 1, 4096, stream), CUDA_SUCCESS);
        ASSERT_EQ(cuMemcpyDtoHAsync(host, block.ptr, 64 * kKiB, stream), CUDA_SUCCESS);
        ASSERT_EQ(FreeAsync(block.ptr, stream), CUDA_SUCCESS);
      }
    });
  std::thread trimmer([this, &done] {
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    while (!done) replayer_->PoolTrim();
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  trimmer.join();
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);  // no kernel met an unmapped address
  EXPECT_EQ(
      replayer_->Statistics().allocations_dynamic + replayer_->Statistics().allocations_native,
      3u * kTurns);
  EXPECT_GT(replayer_->Statistics().allocations_dynamic, 3u * kTurns / 2);
}

TEST_F(ReplayerTest, LinearMemoryIsIdleWhateverStreamUsesItFirst) {
  Replay({}, {Warm(2 * kMiB, 0), Warm(kMiB, 0)});
  const CUstream a = NewStream(), b = NewStream();
  void* host = nullptr;
  ASSERT_EQ(cuMemAllocHost(&host, 2 * kMiB), CUDA_SUCCESS);
  const Given first = AllocateAsync(2 * kMiB, a);
  for (int i = 0; i < 20; ++i)
    ASSERT_EQ(cuMemsetD8Async(first.ptr, 0x11, 2 * kMiB, a), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync(host, first.ptr, 2 * kMiB, a), CUDA_SUCCESS);
  ASSERT_EQ(FreeAsync(first.ptr, a), CUDA_SUCCESS);
  const Given second = AllocateLinear(kMiB);
  ASSERT_TRUE(second.served);
  ASSERT_EQ(second.ptr, first.ptr);
  ASSERT_EQ(cuMemsetD8Async(second.ptr, 0x22, kMiB, b), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(static_cast<unsigned char*>(host)[0], 0x11);  // the first block's, to its end
  unsigned char byte = 0;
  ASSERT_EQ(cuMemcpyDtoH(&byte, second.ptr, 1), CUDA_SUCCESS);
  EXPECT_EQ(byte, 0x22);
}

TEST_F(ReplayerTest, ALinearFreeWaitsForTheBlocksWork) {
  Replay({Warm(2 * kMiB, 0)}, {});
  const CUstream stream = NewStream();
  const Given block = AllocateLinear(2 * kMiB);
  ASSERT_TRUE(block.served);
  for (int i = 0; i < 10; ++i)
    ASSERT_EQ(cuMemsetD8Async(block.ptr, 1, 2 * kMiB, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(Free(block.ptr), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
}

TEST_F(ReplayerTest, AFreeThatTheDriverRefusesMayBeRepeated) {
  Replay({Warm(512, 0)}, {});
  const Given block = AllocateLinear(512);
  SetFaults("cuCtxSynchronize:1=900");
  EXPECT_EQ(Free(block.ptr), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(Free(block.ptr), CUDA_SUCCESS);
}

TEST_F(ReplayerTest, AColdBlockHasItsHomeOnTheHost) {
  Replay({Cold(kMiB, kWarm)}, {});
  const CUstream stream = NewStream();
  const uint64_t before = DeviceBytes();
  const Given block = AllocateAsync(kMiB, stream);
  ASSERT_TRUE(block.served);
  EXPECT_EQ(DeviceBytes(), before);
  EXPECT_EQ(replayer_->Statistics().cold_bytes, kMiB);
  ASSERT_EQ(cuMemsetD8Async(block.ptr, 0x5a, kMiB, stream), CUDA_SUCCESS);
  unsigned char byte = 0;
  ASSERT_EQ(cuMemcpyDtoHAsync(&byte, block.ptr + kMiB - 1, 1, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(byte, 0x5a);
  EXPECT_EQ(FreeAsync(block.ptr, stream), CUDA_SUCCESS);
  EXPECT_EQ(replayer_->Statistics().cold_bytes, 0u);
}

TEST_F(ReplayerTest, WithColdOffAColdBlockStaysOnTheDevice) {
  Replay({Cold(kMiB, kWarm)}, {}, /*managed=*/false);
  const uint64_t before = DeviceBytes();
  ASSERT_TRUE(AllocateAsync(kMiB, NewStream()).served);
  EXPECT_EQ(DeviceBytes() - before, 4 * kMiB);  // the cold part, one short chunk
}

TEST_F(ReplayerTest, WithTooLittleHostMemoryOneLineSaysSoAndColdBlocksStay) {
  Replay({Cold(kMiB, kWarm)}, {}, /*managed=*/true, 0, /*host_budget=*/kMiB);
  const uint64_t before = DeviceBytes();
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(AllocateAsync(kMiB, NewStream()).served);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_THAT(said, ::testing::HasSubstr("4.00 MiB"));
  EXPECT_THAT(said, ::testing::HasSubstr("EBBTIDE_HOST_BUDGET"));
  EXPECT_EQ(DeviceBytes() - before, 4 * kMiB);
}

TEST_F(ReplayerTest, AnEndedContextTakesItsMemoryAndThePlanWithIt) {
  Replay({Warm(512, 0)}, {Warm(1024, 512)});
  const Given block = AllocateAsync(512, NewStream());
  ASSERT_TRUE(block.served);
  replayer_->ContextGone(reinterpret_cast<CUcontext>(0x1234));  // another one
  EXPECT_TRUE(AllocateAsync(1024, nullptr).served);
  const uint64_t held = replayer_->Statistics().device_bytes;
  EXPECT_GT(held, 0u);
  const uint64_t before = DeviceBytes();
  replayer_->DeviceReset(0);
  EXPECT_EQ(DeviceBytes(), before - held);
  EXPECT_FALSE(AllocateAsync(512, nullptr).served);
  CUresult result = CUDA_SUCCESS;
  EXPECT_FALSE(replayer_->Free(block.ptr, nullptr, false, &result));
}

}  // namespace
}  // namespace ebt::replay
