// The end of the context in which state is swapped, with copies queued and a thread of ours at
// work.
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>

#include "tests/unit/swapped_program.h"

namespace ebt::replay {
namespace {

class ReplayerSwapContextsTest : public SwappedProgram {
 protected:
  // The next life is native, and right.
  void ExpectNativeLife() {
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleLoadData(&module_, "any image"), CUDA_SUCCESS);
    stream_ = NewStream();
    const Given state = AllocateAsync(kSlab, stream_), ones = AllocateLinear(kSlab);
    EXPECT_FALSE(state.served || ones.served);
    Fill(state.ptr, kFirst, kFloats);
    Fill(ones.ptr, 1, kFloats);
    for (int step = 0; step < 3; ++step) Add(state.ptr, ones.ptr, kFloats);
    EXPECT_EQ(FloatAt(state.ptr, kFloats - 1), kFirst + 3);
    EXPECT_EQ(FreeAsync(state.ptr, stream_), CUDA_SUCCESS);
    EXPECT_EQ(Free(ones.ptr), CUDA_SUCCESS);
    EXPECT_EQ(replayer_->Statistics().device_bytes, 0u);
  }
  const uint64_t before_ = DeviceBytes();
};

TEST_F(ReplayerSwapContextsTest, TheLastReleaseGivesEverythingBack) {
  StartSwapped();
  Steps(3);
  ASSERT_GT(DeviceBytes(), before_);
  testing::internal::CaptureStderr();
  replayer_->PrimaryReleasing(0);
  ASSERT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  const char* const calls[] = {"cuEventDestroy_v2", "cuStreamDestroy_v2", "cuStreamSynchronize",
                               "cuEventSynchronize", "cuCtxSynchronize"};
  uint64_t counts[std::size(calls)];
  for (size_t i = 0; i < std::size(calls); ++i) counts[i] = simcuda_call_count(calls[i]);
  replayer_->PrimaryReleased(0);
  for (size_t i = 0; i < std::size(calls); ++i)
    EXPECT_EQ(simcuda_call_count(calls[i]), counts[i]) << calls[i] << " of what has ended";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(DeviceBytes(), before_);
  ExpectNativeLife();
}

TEST_F(ReplayerSwapContextsTest, WhatWasDoneUntilTheEndIsStillTold) {
  StartSwapped();
  Steps(3);
  const ebbtide_statistics before = replayer_->Statistics();
  ASSERT_GT(before.prefetched_bytes, 0u);
  replayer_->PrimaryReleasing(0);
  ASSERT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  replayer_->PrimaryReleased(0);
  const ebbtide_statistics after = replayer_->Statistics();
  EXPECT_EQ(after.device_bytes, 0u);
  EXPECT_EQ(after.device_bytes_peak, before.device_bytes_peak);
  EXPECT_GE(after.prefetched_bytes, before.prefetched_bytes);
  EXPECT_GE(after.evicted_bytes, before.evicted_bytes);
  EXPECT_EQ(after.allocations_planned, before.allocations_planned);
  EXPECT_EQ(after.steps, before.steps);
  ExpectNativeLife();
}

TEST_F(ReplayerSwapContextsTest, AResetGivesEverythingBack) {
  StartSwapped();
  Steps(3);
  testing::internal::CaptureStderr();
  replayer_->DeviceReset(0);
  ASSERT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(DeviceBytes(), before_);
  ExpectNativeLife();
}

TEST_F(ReplayerSwapContextsTest, AReleaseThatIsNotTheLastLeavesTheStateRight) {
  CUcontext more = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&more, 0), CUDA_SUCCESS);
  StartSwapped();
  Steps(3);
  replayer_->PrimaryReleasing(0);
  ASSERT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  replayer_->PrimaryReleased(0);
  Steps(2);
  ExpectState(5);
}

}  // namespace
}  // namespace ebt::replay
