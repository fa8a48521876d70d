// The replayer and the life of contexts: those that end, those that only seem to, several of them
// and none at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/replayed_devices.h"

namespace ebt::replay {
namespace {

class ReplayerContextsTest : public ReplayerDevicesTest {
 protected:
  ~ReplayerContextsTest() override {
    // The tests that end the primary context leave another one to the fixture.
    if (!retained_again_) return;
    CUcontext context = nullptr;
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  }
  // As PrimaryCtxRelease of hooks/context.h.
  CUresult Release(CUdevice device) {
    replayer_->PrimaryReleasing(device);
    const CUresult result = cuDevicePrimaryCtxRelease(device);
    replayer_->PrimaryReleased(device);
    return result;
  }
  static bool PrimaryIsActive() {
    unsigned flags = 0;
    int active = 0;
    EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
    return active != 0;
  }
  unsigned char ByteOf(CUdeviceptr ptr) {
    unsigned char byte = 0;
    EXPECT_EQ(cuMemcpyDtoH(&byte, ptr, 1), CUDA_SUCCESS);
    return byte;
  }
  // A cold and a warm block with streams' orders, ended and not, between them.
  void Live() {
    ReplayLarge({Cold(4096, kPlannedWarm), Warm(4096, 0), Warm(4096, 4096)});
    const CUstream stream = NewStream(), ended = NewStream();
    ASSERT_TRUE(AllocateAsync(4096, stream).served);
    const Given freed = AllocateAsync(4096, ended);
    ASSERT_TRUE(freed.served);
    ASSERT_EQ(cuMemsetD8Async(freed.ptr, 1, 4096, ended), CUDA_SUCCESS);
    ASSERT_EQ(FreeAsync(freed.ptr, ended), CUDA_SUCCESS);
    replayer_->StreamDestroyed(ended);  // leaves an event
    ASSERT_EQ(cuStreamDestroy(ended), CUDA_SUCCESS);
    kept_ = AllocateLinear(4096);
    ASSERT_TRUE(kept_.served);
    ASSERT_EQ(cuMemsetD8(kept_.ptr, 7, 4096), CUDA_SUCCESS);
  }
  // Whatever it is: the driver serves it, and its bytes are right.
  void ExpectNativeLife() {
    const CUstream stream = NewStream();
    for (uint64_t bytes : {4096ul, 80 * kMiB, 0ul}) {  // the second: more than was held
      const bool ordered = bytes > 0;
      const Given block = ordered ? AllocateAsync(bytes, stream) : AllocateLinear(4096);
      EXPECT_FALSE(block.served);
      ASSERT_EQ(block.result, CUDA_SUCCESS);
      EXPECT_EQ(cuMemsetD8Async(block.ptr, 9, 4096, stream), CUDA_SUCCESS);
      EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
      EXPECT_EQ(ByteOf(block.ptr), 9);
      EXPECT_EQ(ordered ? FreeAsync(block.ptr, stream) : Free(block.ptr), CUDA_SUCCESS);
      EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    }
    EXPECT_EQ(PoolValue(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
    size_t free = 0;
    CUresult result = CUDA_SUCCESS;
    EXPECT_FALSE(replayer_->MemInfo(&free, nullptr, &result));
  }
  void BeginAgain() {
    CUcontext again = nullptr;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&again, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(again), CUDA_SUCCESS);
  }

  Given kept_;
  bool retained_again_ = false;
};

TEST_F(ReplayerContextsTest, TheLastReleaseEndsThePlanAndASecondLifeIsNative) {
  const uint64_t before = DeviceBytes();
  Live();
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(Release(0), CUDA_SUCCESS);
  retained_again_ = true;
  // At their end most processes give their contexts back: that is no news.
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ASSERT_FALSE(PrimaryIsActive());
  EXPECT_EQ(DeviceBytes(), before);  // what we held is not missing afterwards
  BeginAgain();
  ExpectNativeLife();
  // The old addresses are nobody's.
  EXPECT_EQ(Free(kept_.ptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ReplayerContextsTest, AfterTheLastReleaseNothingOfTheContextIsUsed) {
  Live();
  const char* const calls[] = {"cuEventDestroy_v2",   "cuStreamDestroy_v2", "cuEventRecord",
                               "cuEventSynchronize",  "cuStreamWaitEvent",  "cuStreamSynchronize",
                               "cuMemPrefetchAsync",  "cuCtxSynchronize",   "cuMemFree_v2",
                               "cuStreamIsCapturing", "cuEventQuery"};
  std::vector<uint64_t> before;
  for (const char* call : calls) before.push_back(simcuda_call_count(call));
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(Release(0), CUDA_SUCCESS);
  ::testing::internal::GetCapturedStderr();
  retained_again_ = true;
  for (size_t i = 0; i < std::size(calls); ++i)
    EXPECT_EQ(simcuda_call_count(calls[i]), before[i]) << calls[i];
  BeginAgain();
}

TEST_F(ReplayerContextsTest, AReleaseThatIsNotTheLastChangesNothing) {
  CUcontext more = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&more, 0), CUDA_SUCCESS);
  Live();
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(Release(0), CUDA_SUCCESS);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ASSERT_TRUE(PrimaryIsActive());
  EXPECT_EQ(ByteOf(kept_.ptr), 7);
  EXPECT_TRUE(AllocateAsync(4096, nullptr).served);
}

TEST_F(ReplayerContextsTest, AnotherDevicesContextMayEndInEveryWay) {
  Live();
  ::testing::internal::CaptureStderr();
  replayer_->DeviceReset(1);
  ASSERT_EQ(cuDevicePrimaryCtxReset(1), CUDA_SUCCESS);
  CUcontext another = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&another, 1), CUDA_SUCCESS);
  ASSERT_EQ(Release(1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxCreate(&another, nullptr, 0, 1), CUDA_SUCCESS);
  replayer_->ContextGone(another);
  ASSERT_EQ(cuCtxDestroy(another), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(ByteOf(kept_.ptr), 7);
  EXPECT_TRUE(AllocateAsync(4096, nullptr).served);
}

TEST_F(ReplayerContextsTest, APrimaryContextIsNotDestroyedByItsHandle) {
  Live();
  ::testing::internal::CaptureStderr();
  replayer_->ContextGone(context_);
  EXPECT_EQ(cuCtxDestroy(context_), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(ByteOf(kept_.ptr), 7);
  EXPECT_TRUE(AllocateAsync(4096, nullptr).served);
}

TEST_F(ReplayerContextsTest, AResetEndsThePlanAndASecondLifeIsNative) {
  const uint64_t before = DeviceBytes();
  Live();
  ::testing::internal::CaptureStderr();
  replayer_->DeviceReset(0);
  ASSERT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
  retained_again_ = true;
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(DeviceBytes(), before);
  BeginAgain();
  ExpectNativeLife();
}

// A context of the program's own making, which the plan is kept in.
class ReplayerOwnContextTest : public ReplayerContextsTest {
 protected:
  ReplayerOwnContextTest() {
    EXPECT_EQ(cuCtxCreate(&own_, nullptr, 0, 0), CUDA_SUCCESS);
    Live();
  }
  CUcontext own_ = nullptr;
};

TEST_F(ReplayerOwnContextTest, TheEndOfThePrimaryOneChangesNothing) {
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(Release(0), CUDA_SUCCESS);
  retained_again_ = true;
  ASSERT_FALSE(PrimaryIsActive());
  replayer_->DeviceReset(0);
  ASSERT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(ByteOf(kept_.ptr), 7);
  EXPECT_TRUE(AllocateAsync(4096, nullptr).served);
  cuCtxSynchronize();
  replayer_.reset();
  ASSERT_EQ(cuCtxDestroy(own_), CUDA_SUCCESS);
}

TEST_F(ReplayerOwnContextTest, ItsOwnEndEndsThePlan) {
  ::testing::internal::CaptureStderr();
  replayer_->ContextGone(own_);
  ASSERT_EQ(cuCtxDestroy(own_), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  ExpectNativeLife();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "ebbtide: the context that the plan was kept in is destroyed: the program runs on "
            "natively from here\n");
}

TEST_F(ReplayerContextsTest, WithoutACurrentContextMemoryIsFreedAndNoneIsServed) {
  Live();
  const Given block = AllocateAsync(4096, nullptr);
  ASSERT_TRUE(block.served);
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  for (int kind : {EBT_ALLOC_ASYNC, EBT_ALLOC_LINEAR}) {
    CUdeviceptr ptr = 0;
    CUresult result = CUDA_SUCCESS;
    EXPECT_FALSE(replayer_->Alloc({kind, 4096, nullptr, nullptr}, &ptr, &result));
  }
  EXPECT_EQ(Free(kept_.ptr), CUDA_SUCCESS);
  EXPECT_EQ(FreeAsync(block.ptr, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
  CUcontext current = context_;
  ASSERT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, nullptr);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  const Given next = AllocateAsync(4096, nullptr);
  ASSERT_TRUE(next.served);
  EXPECT_EQ(cuMemsetD8(next.ptr, 1, 4096), CUDA_SUCCESS);
}

TEST_F(ReplayerContextsTest, AFirstAllocationWithoutAContextDoesNotEndThePlan) {
  ReplayLarge({Warm(4096, 0)});
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  CUdeviceptr ptr = 0;
  CUresult result = CUDA_SUCCESS;
  EXPECT_FALSE(replayer_->Alloc({EBT_ALLOC_LINEAR, 4096, nullptr, nullptr}, &ptr, &result));
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_TRUE(AllocateLinear(4096).served);
}

// Each thread has a stream of its own behind one handle: a block that one thread has freed while
// its work is still queued must not be written by another one's before that.
TEST_F(ReplayerContextsTest, PerThreadStreamsOfManyThreadsKeepTheirBytesApart) {
  constexpr int kThreads = 4, kTurns = 25;
  constexpr uint64_t kBytes = 64 * kKiB;
  ReplayLarge({Warm(4096, 0)});  // by an empty plan all would be the driver's
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
      for (int turn = 0; turn < kTurns; ++turn) {
        const auto value = static_cast<unsigned char>(thread * kTurns + turn);
        const Given block = AllocateAsync(kBytes, CU_STREAM_PER_THREAD);
        ASSERT_TRUE(block.served);
        ASSERT_EQ(cuMemsetD8Async(block.ptr, value, kBytes, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
        unsigned char first = 0, last = 0;
        ASSERT_EQ(cuMemcpyDtoHAsync(&first, block.ptr, 1, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
        ASSERT_EQ(cuMemcpyDtoHAsync(&last, block.ptr + kBytes - 1, 1, CU_STREAM_PER_THREAD),
                  CUDA_SUCCESS);
        ASSERT_EQ(FreeAsync(block.ptr, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
        ASSERT_EQ(cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
        EXPECT_EQ(first, value);
        EXPECT_EQ(last, value);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(replayer_->Statistics().allocations_dynamic, uint64_t{kThreads} * kTurns);
}

}  // namespace
}  // namespace ebt::replay
