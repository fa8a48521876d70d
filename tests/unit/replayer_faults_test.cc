// The replayer where things do not go as planned: captures, steps that differ from the recording
// and calls that the driver refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/unit/replayed_program.h"

namespace ebt::replay {
namespace {

// Between BeginCapture and EndCapture as the front reports them.
class ReplayerCaptureTest : public ReplayerTest {
 protected:
  void Begin(CUstream stream) {
    ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    replayer_->CaptureBegun(stream);
  }
  CUresult End(CUstream stream) {
    CUgraph graph = nullptr;
    const CUresult result = cuStreamEndCapture(stream, &graph);
    replayer_->CaptureEnded(stream);
    return result;
  }
  static bool Capturing(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_EQ(cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
  }
};

TEST_F(ReplayerCaptureTest, UnderCaptureAllocationsAreTheDriversGraphNodes) {
  Replay({}, {Warm(4096, 0)});
  const CUstream stream = NewStream(), other = NewStream();
  Begin(stream);
  CUdeviceptr ptr = 0;
  CUresult result = CUDA_SUCCESS;
  EXPECT_FALSE(replayer_->Alloc({EBT_ALLOC_ASYNC, 4096, stream, nullptr}, &ptr, &result));
  EXPECT_TRUE(AllocateAsync(4096, other).served);  // a stream that does not capture
  EXPECT_EQ(End(stream), CUDA_SUCCESS);
  EXPECT_TRUE(AllocateAsync(600, stream).served);
}

// A free becomes a node of the graph, and only memory of the graph's own has one.
TEST_F(ReplayerCaptureTest, UnderCaptureAFreeOfABlockIsRefusedAsNativelyAndTheBlockStays) {
  Replay({Warm(4096, 0)}, {});
  const CUstream stream = NewStream();
  const Given block = AllocateAsync(4096, stream);
  ASSERT_TRUE(block.served);
  CUdeviceptr native = 0;
  ASSERT_EQ(cuMemAllocAsync(&native, 4096, stream), CUDA_SUCCESS);
  Begin(stream);
  const CUresult as_natively = cuMemFreeAsync(native, stream);
  EXPECT_NE(as_natively, CUDA_SUCCESS);
  EXPECT_EQ(FreeAsync(block.ptr, stream), as_natively);
  End(stream);
  EXPECT_EQ(cuMemsetD8(block.ptr, 1, 4096), CUDA_SUCCESS);
  EXPECT_EQ(FreeAsync(block.ptr, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(native, stream), CUDA_SUCCESS);
}

TEST_F(ReplayerCaptureTest, NoOtherStreamIsDrawnIntoTheCapture) {
  Replay({}, {Warm(4096, 0), Warm(2048, 0)});
  const CUstream a = NewStream(), b = NewStream();
  const Given block = AllocateAsync(4096, a);
  ASSERT_EQ(FreeAsync(block.ptr, a), CUDA_SUCCESS);
  Begin(a);
  const Given next = AllocateAsync(2048, b);
  EXPECT_EQ(next.result, CUDA_SUCCESS);
  EXPECT_NE(next.ptr, block.ptr);
  EXPECT_FALSE(Capturing(b));
  EXPECT_TRUE(Capturing(a));
  EXPECT_EQ(End(a), CUDA_SUCCESS);
}

TEST_F(ReplayerCaptureTest, AnEndWithoutABeginHidesNoLaterCapture) {
  Replay({}, {Warm(4096, 0)});
  const CUstream stream = NewStream();
  EXPECT_NE(End(stream), CUDA_SUCCESS);
  Begin(stream);
  CUdeviceptr ptr = 0;
  CUresult result = CUDA_SUCCESS;
  EXPECT_FALSE(replayer_->Alloc({EBT_ALLOC_ASYNC, 4096, stream, nullptr}, &ptr, &result));
  EXPECT_EQ(End(stream), CUDA_SUCCESS);
}

// One cold block of 2 MiB, fetched before launch 2 and sent back after launch 4 of a step of six
// launches, which begins with the allocation of 4096 bytes and has another one of 512.
class ReplayerFetchTest : public ReplayerTest {
 protected:
  ReplayerFetchTest() {
    Slot cold = Cold(2 * kMiB, kWarm);
    cold.use = plan::ColdUse::kPrefetch;
    cold.fetch_launch = 2;
    cold.evict_launch = 4;
    Replay({cold}, {Warm(4096, 0), Warm(512, 4096)});
    stream_ = NewStream();
    EXPECT_TRUE(AllocateAsync(2 * kMiB, stream_).served);
  }
  void Launches(int count) {
    for (int i = 0; i < count; ++i) replayer_->Launch({.stream = stream_});
  }
  // So many moves have been asked for since the test began: each leaves its event at once, in
  // the launching thread.
  uint64_t Requests() const { return simcuda_call_count("cuEventRecord") - events_before_; }
  void AwaitMoved(uint64_t fetched, uint64_t evicted) {
    ebbtide_statistics now{};
    for (int i = 0; i < 3000; ++i) {
      now = replayer_->Statistics();
      if (now.prefetched_bytes >= fetched && now.evicted_bytes >= evicted) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(now.prefetched_bytes, fetched);
    EXPECT_EQ(now.evicted_bytes, evicted);
  }
  void UseBlock(uint64_t bytes) {
    const Given block = AllocateAsync(bytes, stream_);
    EXPECT_TRUE(block.served);
    EXPECT_EQ(FreeAsync(block.ptr, stream_), CUDA_SUCCESS);
  }

  CUstream stream_ = nullptr;
  const uint64_t events_before_ = simcuda_call_count("cuEventRecord");
};

TEST_F(ReplayerFetchTest, MovesHappenAtTheirLaunches) {
  Launches(3);
  EXPECT_EQ(Requests(), 0u);  // set-up moves nothing
  UseBlock(4096);
  Launches(2);
  EXPECT_EQ(Requests(), 0u);
  Launches(1);
  EXPECT_EQ(Requests(), 1u);
  AwaitMoved(2 * kMiB, 0);
  Launches(2);
  EXPECT_EQ(Requests(), 1u);
  Launches(1);
  EXPECT_EQ(Requests(), 2u);
  AwaitMoved(2 * kMiB, 2 * kMiB);
  UseBlock(512);
  UseBlock(4096);
  Launches(6);
  EXPECT_EQ(Requests(), 4u);
  AwaitMoved(4 * kMiB, 4 * kMiB);
}

TEST_F(ReplayerFetchTest, MoreLaunchesThanRecordedMoveNothingTwice) {
  UseBlock(4096);
  Launches(9);
  EXPECT_EQ(Requests(), 2u);
  UseBlock(512);  // recorded at launch 0
  Launches(5);
  EXPECT_EQ(Requests(), 2u);
}

// Whatever of ours the driver refuses, whenever: what the program asked for is served by us or
// by the driver, and its bytes are right.
class ReplayerFaultTest : public ReplayerTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void Use(const Given& block, uint64_t bytes, CUstream stream, unsigned char value) {
    ASSERT_EQ(block.result, CUDA_SUCCESS);
    // The end is what a place too small would lack.
    const uint64_t tail = std::min<uint64_t>(bytes, 4096);
    ASSERT_EQ(cuMemsetD8Async(block.ptr + bytes - tail, value, tail, stream), CUDA_SUCCESS);
    unsigned char read = 0;
    ASSERT_EQ(cuMemcpyDtoHAsync(&read, block.ptr + bytes - 1, 1, stream), CUDA_SUCCESS);
    ASSERT_EQ(Await(stream), CUDA_SUCCESS);
    ASSERT_EQ(read, value);
  }
  // Waits by asking, so that no seeded fault is the test's own.
  static CUresult Await(CUstream stream) {
    CUresult result = CUDA_ERROR_NOT_READY;
    while ((result = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY) simcuda_host_work_ms(0.01);
    return result;
  }
  void RunProgram() {
    Slot cold = Cold(kMiB, kWarm);
    cold.use = plan::ColdUse::kPrefetch;
    cold.fetch_launch = 0;
    cold.evict_launch = 1;
    Replay({cold, Warm(512, 1024)}, {Warm(2 * kMiB, 0), Warm(kMiB, 2 * kMiB)});
    const Given state = AllocateAsync(kMiB, a_);
    Use(state, kMiB, a_, 1);
    Use(AllocateLinear(512), 512, a_, 2);
    for (int turn = 0; turn < 3; ++turn) {
      const Given first = AllocateAsync(2 * kMiB, a_);
      Use(first, 2 * kMiB, a_, 3);
      const Given extra = AllocateAsync(8 * kMiB, b_);
      Use(extra, 8 * kMiB, b_, 4);
      for (int i = 0; i < 3; ++i) replayer_->Launch({.stream = a_});
      ASSERT_EQ(FreeAsync(first.ptr, a_), CUDA_SUCCESS);
      ASSERT_EQ(FreeAsync(extra.ptr, b_), CUDA_SUCCESS);
      const Given second = AllocateAsync(kMiB, turn == 1 ? b_ : a_);
      Use(second, kMiB, turn == 1 ? b_ : a_, 5);
      ASSERT_EQ(FreeAsync(second.ptr, a_), CUDA_SUCCESS);
      std::swap(a_, b_);
      replayer_->PoolTrim();
    }
    Use(state, kMiB, a_, 6);
    ASSERT_EQ(FreeAsync(state.ptr, a_), CUDA_SUCCESS);
  }

  CUstream a_ = NewStream(), b_ = NewStream();
};

TEST_P(ReplayerFaultTest, IsNotSeenByTheProgram) {
  for (const char* when : {":1", ":2", ":3", ":1+", ":%2"}) {
    SCOPED_TRACE(when);
    SetFaults(absl::StrCat(GetParam(), when, "=999").c_str());
    RunProgram();
    SetFaults("");
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    replayer_.reset();
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryCall, ReplayerFaultTest,
    ::testing::Values("cuCtxGetCurrent", "cuCtxGetDevice", "cuDeviceGetMemPool",
                      "cuDeviceTotalMem_v2", "cuMemGetAllocationGranularity", "cuMemAddressReserve",
                      "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease",
                      "cuMemAddressFree", "cuMemGetInfo_v2", "cuMemAllocManaged", "cuMemAdvise",
                      "cuMemPrefetchAsync", "cuEventCreate", "cuEventRecord", "cuEventDestroy_v2",
                      "cuEventSynchronize", "cuStreamWaitEvent", "cuStreamIsCapturing",
                      "cuStreamCreateWithPriority", "cuStreamSynchronize", "cuStreamDestroy_v2",
                      "cuCtxSynchronize", "cuThreadExchangeStreamCaptureMode",
                      "cuDeviceGetAttribute"),
    [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ebt::replay
