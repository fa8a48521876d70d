// The replayer where a plan is not the whole of the job's memory: a second device, peers, other
// contexts, foreign pointers, and a device that runs out. Pools: replayer_pools_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "tests/unit/replayed_devices.h"

namespace ebt::replay {
namespace {

TEST_F(ReplayerDevicesTest, ALinearFreeUnderAnotherDevicesContextWaitsForTheBlocksWork) {
  constexpr uint64_t kBytes = 16 * kMiB;
  ReplayLarge({Warm(kBytes, 0)});
  const CUstream stream = NewStream();
  const Given block = AllocateLinear(kBytes);
  ASSERT_TRUE(block.served);
  void* host = nullptr;
  ASSERT_EQ(cuMemAllocHost(&host, kBytes), CUDA_SUCCESS);
  for (int i = 0; i < 20; ++i)  // over 5 ms of the link
    ASSERT_EQ(cuMemcpyHtoDAsync(block.ptr, host, kBytes, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(cuCtxSetCurrent(other_), CUDA_SUCCESS);
  EXPECT_EQ(Free(block.ptr), CUDA_SUCCESS);
  CUcontext current = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, other_);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
}

// The argument: whether memory is asked for and freed in a stream's order.
class ReplayerFullDeviceTest : public ReplayerDevicesTest,
                               public ::testing::WithParamInterface<bool> {};

TEST_P(ReplayerFullDeviceTest, IdlePlannedMemoryIsGivenBackAndComesAgain) {
  ReplayLarge({Warm(kPlannedWarm, 0)});
  const bool ordered = GetParam();
  const CUstream stream = NewStream();
  const uint64_t before = DeviceBytes();
  const auto allocate = [&](uint64_t bytes) {
    return ordered ? AllocateAsync(bytes, stream) : AllocateLinear(bytes);
  };
  const Given planned = allocate(kPlannedWarm);
  ASSERT_TRUE(planned.served);
  ASSERT_EQ(ordered ? FreeAsync(planned.ptr, stream) : Free(planned.ptr), CUDA_SUCCESS);
  ASSERT_EQ(allocate(80 * kMiB).result, CUDA_ERROR_OUT_OF_MEMORY);
  replayer_->PoolTrim();
  EXPECT_EQ(DeviceBytes(), before);
  const Given native = allocate(80 * kMiB);
  EXPECT_EQ(native.result, CUDA_SUCCESS);
  ASSERT_EQ(ordered ? FreeAsync(native.ptr, stream) : Free(native.ptr), CUDA_SUCCESS);
}

TEST_P(ReplayerFullDeviceTest, APlannedBlockInUseKeepsItsChunk) {
  ReplayLarge({Warm(32 * kMiB, 0), Warm(4096, 32 * kMiB)});
  const CUstream stream = NewStream();
  const uint64_t before = DeviceBytes();
  const Given idle = GetParam() ? AllocateAsync(32 * kMiB, stream) : AllocateLinear(32 * kMiB);
  const Given kept = GetParam() ? AllocateAsync(4096, stream) : AllocateLinear(4096);
  ASSERT_TRUE(idle.served && kept.served);
  ASSERT_EQ(kept.ptr - idle.ptr, 32 * kMiB);
  ASSERT_EQ(cuMemsetD8Async(kept.ptr, 7, 4096, stream), CUDA_SUCCESS);
  ASSERT_EQ(GetParam() ? FreeAsync(idle.ptr, stream) : Free(idle.ptr), CUDA_SUCCESS);
  replayer_->PoolTrim();
  EXPECT_EQ(DeviceBytes() - before, 32 * kMiB);
  unsigned char byte = 0;
  ASSERT_EQ(cuMemcpyDtoH(&byte, kept.ptr + 4095, 1), CUDA_SUCCESS);
  EXPECT_EQ(byte, 7);
}

INSTANTIATE_TEST_SUITE_P(BothOrders, ReplayerFullDeviceTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ordered" : "Linear"; });

TEST_F(ReplayerDevicesTest, IdlePlannedMemoryIsGivenBackWhicheverContextIsCurrent) {
  const Slot whole = Warm(kPlannedWarm, 0);
  ReplayLarge({whole, whole, whole});
  const uint64_t before = DeviceBytes();
  CUcontext second = nullptr;
  ASSERT_EQ(cuCtxCreate(&second, nullptr, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPopCurrent(&second), CUDA_SUCCESS);
  for (CUcontext asking : {second, other_, CUcontext{}}) {
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    const Given block = AllocateLinear(kPlannedWarm);
    ASSERT_TRUE(block.served);
    ASSERT_EQ(DeviceBytes() - before, kPlannedWarm);
    ASSERT_EQ(Free(block.ptr), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(asking), CUDA_SUCCESS);
    replayer_->PoolTrim();
    EXPECT_EQ(DeviceBytes(), before);
    CUcontext current = context_;
    ASSERT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, asking);
  }
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy(second), CUDA_SUCCESS);
}

TEST_F(ReplayerDevicesTest, APeersContextReachesWhatIsMappedBeforeAndAfter) {
  ReplayLarge({Warm(4096, 0), Warm(4096, 32 * kMiB)});
  const Given before = AllocateAsync(4096, nullptr);
  EnablePeer();
  const Given after = AllocateAsync(4096, nullptr);  // the second chunk
  const Given dynamic = AllocateAsync(kMiB, nullptr);
  ASSERT_TRUE(before.served && after.served && dynamic.served);
  EXPECT_TRUE(PeerWrites(before.ptr, 1));
  EXPECT_TRUE(PeerWrites(after.ptr, 2));
  EXPECT_TRUE(PeerWrites(dynamic.ptr, 3));
}

TEST_F(ReplayerDevicesTest, APeerThatCameBeforeTheFirstBlockReachesIt) {
  ReplayLarge({Warm(4096, 0)});
  EnablePeer();
  const Given block = AllocateAsync(4096, nullptr);
  ASSERT_TRUE(block.served);
  EXPECT_TRUE(PeerWrites(block.ptr, 1));
}

TEST_F(ReplayerDevicesTest, APeerOfThePoolReachesWhatIsMappedBeforeAndAfter) {
  ReplayLarge({Warm(4096, 0), Warm(4096, 32 * kMiB)});
  const Given before = AllocateAsync(4096, nullptr);
  SetPoolAccess(DefaultPool(0), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const Given after = AllocateAsync(4096, nullptr);
  ASSERT_TRUE(before.served && after.served);
  EXPECT_TRUE(PeerWrites(before.ptr, 1));
  EXPECT_TRUE(PeerWrites(after.ptr, 2));
}

TEST_F(ReplayerDevicesTest, APeerOfThePoolThatCameBeforeTheFirstBlockReachesIt) {
  ReplayLarge({Warm(4096, 0)});
  SetPoolAccess(DefaultPool(0), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const Given block = AllocateAsync(4096, nullptr);
  ASSERT_TRUE(block.served);
  EXPECT_TRUE(PeerWrites(block.ptr, 1));
}

TEST_F(ReplayerDevicesTest, APeerOfAPoolOfTheProgramsOwnReachesItsBlocks) {
  ReplayLarge({Warm(4096, 0)});
  const CUmemoryPool pool = NewPool(0, CU_MEM_HANDLE_TYPE_NONE, true);
  SetPoolAccess(pool, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const Given block = AllocateFrom(pool, 4096, nullptr);
  ASSERT_TRUE(block.served);
  EXPECT_TRUE(PeerWrites(block.ptr, 1));
}

TEST_F(ReplayerDevicesTest, NobodyReachesPlannedMemoryUnasked) {
  ReplayLarge({Warm(4096, 0)});
  SetPoolAccess(DefaultPool(0), CU_MEM_ACCESS_FLAGS_PROT_NONE);
  SetPoolAccess(NewPool(0, CU_MEM_HANDLE_TYPE_NONE, false), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const Given block = AllocateAsync(4096, nullptr);
  ASSERT_TRUE(block.served);
  const CUmemLocation peer = {CU_MEM_LOCATION_TYPE_DEVICE, {1}};
  unsigned long long flags = 7;
  ASSERT_EQ(cuMemGetAccess(&flags, &peer, block.ptr), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

TEST_F(ReplayerDevicesTest, PointerAttributesAndAddressRangeTellOfTheBlock) {
  ReplayLarge({Cold(1000, kPlannedWarm), Cold(1000, kPlannedWarm + 1024), Warm(1000, 1024)});
  const CUmemoryPool standard = DefaultPool(0);
  AllocateAsync(1000, nullptr);  // so that the next one is in the middle
  const Given cold = AllocateAsync(1000, nullptr), warm = AllocateLinear(1000),
              dynamic = AllocateAsync(1000, nullptr);
  ASSERT_EQ(replayer_->Statistics().cold_bytes, 2048u);
  for (const auto& [block, pool] :
       {std::pair(cold, standard), std::pair(warm, CUmemoryPool{}), std::pair(dynamic, standard)}) {
    ASSERT_TRUE(block.served);
    for (CUdeviceptr ptr : {block.ptr, block.ptr + 999}) {
      CUdeviceptr base = 0;
      size_t bytes = 0;
      CUresult result = CUDA_ERROR_UNKNOWN;
      EXPECT_TRUE(replayer_->AddressRange(&base, &bytes, ptr, &result));
      EXPECT_EQ(base, block.ptr);
      EXPECT_EQ(bytes, 1000u);
      EXPECT_EQ(Attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, ptr), block.ptr);
      EXPECT_EQ(Attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, ptr), 1000u);
      EXPECT_EQ(Attribute<CUmemoryPool>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ptr), pool);
      EXPECT_EQ(Attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, ptr), 0u);
      EXPECT_EQ(Attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr), CU_MEMORYTYPE_DEVICE);
      EXPECT_EQ(Attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, ptr), ptr);
    }
  }
}

TEST_F(ReplayerDevicesTest, OfAForeignPointerTheDriversAnswerStands) {
  ReplayLarge({Warm(1000, 0)});
  ASSERT_TRUE(AllocateAsync(1000, nullptr).served);
  CUdeviceptr managed = 0, pooled = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, 4 * kMiB, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&pooled, 1024, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(Attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed + 100), 1u);
  EXPECT_EQ(Attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, managed + 100), managed);
  EXPECT_EQ(Attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, managed + 100), 4 * kMiB);
  EXPECT_EQ(Attribute<CUmemoryPool>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pooled), DefaultPool(0));
  EXPECT_EQ(Attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, pooled), 1024u);
}

TEST_F(ReplayerDevicesTest, AStreamDestroyedDuringItsCaptureBlocksTrimmingNoLonger) {
  ReplayLarge({Warm(512, 0)});
  const uint64_t before = DeviceBytes();
  const Given block = AllocateAsync(kMiB, nullptr);
  ASSERT_TRUE(block.served);
  EXPECT_EQ(FreeAsync(block.ptr, nullptr), CUDA_SUCCESS);
  const CUstream stream = NewStream();
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  replayer_->CaptureBegun(stream);
  replayer_->PoolTrim();
  EXPECT_EQ(DeviceBytes() - before, 32 * kMiB);  // nothing is drained under a capture
  replayer_->StreamDestroyed(stream);
  // The driver's side of it: a destroyed stream captures no more.
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  replayer_->PoolTrim();
  EXPECT_EQ(DeviceBytes(), before);
}

}  // namespace
}  // namespace ebt::replay
