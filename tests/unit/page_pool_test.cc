#include "src/memory/page_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/units.h"
#include "tests/unit/simulated_device.h"

namespace ebt::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kChunk = 32 * kMiB;

class PagePoolTest : public test::SimulatedDevice {
 protected:
  // Bytes that the device has lent since the test began.
  uint64_t Lent() const { return DeviceBytes() - before_; }

  const DriverApi& driver_ = test::SimulatedDriver();
  const uint64_t before_ = DeviceBytes();
};

TEST_F(PagePoolTest, CountsWhatItHandsOutAsTheDeviceDoes) {
  PagePool pool(driver_, 0, 0);
  EXPECT_EQ(pool.granularity(), 2 * kMiB);
  CUmemGenericAllocationHandle first = 0, second = 0;
  EXPECT_EQ(pool.Get(4 * kMiB, &first), CUDA_SUCCESS);
  EXPECT_EQ(pool.Get(2 * kMiB, &second), CUDA_SUCCESS);
  EXPECT_EQ(pool.bytes(), 6 * kMiB);
  EXPECT_EQ(Lent(), 6 * kMiB);
  pool.Put(4 * kMiB, first);
  EXPECT_EQ(pool.bytes(), 2 * kMiB);
  EXPECT_EQ(pool.peak_bytes(), 6 * kMiB);
  EXPECT_EQ(Lent(), 2 * kMiB);
  pool.Put(2 * kMiB, second);
  EXPECT_EQ(Lent(), 0u);
}

TEST_F(PagePoolTest, HandlesAreMadeForDirectAccessWhereTheDeviceHasIt) {
  PagePool pool(driver_, 0, 0);
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(pool.Get(2 * kMiB, &handle), CUDA_SUCCESS);
  CUmemAllocationProp properties{};
  ASSERT_EQ(cuMemGetAllocationPropertiesFromHandle(&properties, handle), CUDA_SUCCESS);
  EXPECT_EQ(properties.allocFlags.gpuDirectRDMACapable, 1);
  pool.Put(2 * kMiB, handle);
}

TEST_F(PagePoolTest, TheLimitIsExact) {
  PagePool pool(driver_, 0, 4 * kMiB);
  CUmemGenericAllocationHandle handle = 0, refused = 0;
  EXPECT_EQ(pool.Get(6 * kMiB, &refused), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(pool.Get(4 * kMiB, &handle), CUDA_SUCCESS);
  EXPECT_EQ(pool.Get(2 * kMiB, &refused), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(pool.bytes(), 4 * kMiB);
  EXPECT_EQ(pool.peak_bytes(), 4 * kMiB);
  pool.Put(4 * kMiB, handle);
}

TEST_F(PagePoolTest, ARefusalCountsForNothing) {
  PagePool pool(driver_, 0, 0);
  SetFaults("cuMemCreate:1=2");
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(pool.Get(2 * kMiB, &handle), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(pool.bytes(), 0u);
  EXPECT_EQ(pool.peak_bytes(), 0u);
}

TEST_F(PagePoolTest, ADeviceWithoutVirtualMemoryIsRefusedInWords) {
  SetFaults("cuMemGetAllocationGranularity:1=801");
  PagePool pool(driver_, 0, 0);
  EXPECT_EQ(MappedRange::Reserve(pool, kChunk).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(PagePoolTest, ARefusedReservationIsAnError) {
  PagePool pool(driver_, 0, 0);
  SetFaults("cuMemAddressReserve:1=2");
  const auto range = MappedRange::Reserve(pool, kChunk);
  ASSERT_FALSE(range.ok());
  EXPECT_THAT(range.status().message(), ::testing::HasSubstr("OUT_OF_MEMORY"));
}

class MappedRangeTest : public PagePoolTest {
 protected:
  // Three chunks, the last of 2 MiB.
  MappedRangeTest() { range_ = MappedRange::Reserve(pool_, 2 * kChunk + 2 * kMiB).value(); }

  PagePool pool_{driver_, 0, 0};
  std::unique_ptr<MappedRange> range_;
};

TEST_F(MappedRangeTest, LiesHighAndHoldsNothingAtFirst) {
  EXPECT_GE(range_->base(), 0x5e5e'0000'0000u);
  EXPECT_EQ(range_->size(), 2 * kChunk + 2 * kMiB);
  EXPECT_EQ(range_->device_bytes(), 0u);
  EXPECT_EQ(Lent(), 0u);
  EXPECT_THAT(range_->MappedChunks(), IsEmpty());
}

TEST_F(MappedRangeTest, MapsOnlyTheChunksThatAreUsed) {
  EXPECT_EQ(range_->Ensure(kChunk + 512, 512), CUDA_SUCCESS);
  EXPECT_EQ(range_->device_bytes(), kChunk);
  EXPECT_EQ(Lent(), kChunk);
  EXPECT_EQ(range_->Ensure(kChunk, kChunk), CUDA_SUCCESS);  // there already
  EXPECT_EQ(Lent(), kChunk);
  EXPECT_EQ(range_->Ensure(2 * kChunk - 512, 1024), CUDA_SUCCESS);  // into the short last one
  EXPECT_EQ(Lent(), kChunk + 2 * kMiB);
  EXPECT_THAT(range_->MappedChunks(), ElementsAre(kChunk, 2 * kChunk));
}

TEST_F(MappedRangeTest, NothingNeedsNothing) {
  EXPECT_EQ(range_->Ensure(0, 0), CUDA_SUCCESS);
  EXPECT_EQ(Lent(), 0u);
}

TEST_F(MappedRangeTest, MemoryCanBeUsedAcrossTheBordersOfChunks) {
  ASSERT_EQ(range_->Ensure(0, range_->size()), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8(range_->base() + kChunk - 512, 0x5a, 1024), CUDA_SUCCESS);
  std::vector<unsigned char> bytes(1024);
  ASSERT_EQ(cuMemcpyDtoH(bytes.data(), range_->base() + kChunk - 512, 1024), CUDA_SUCCESS);
  EXPECT_EQ(bytes, std::vector<unsigned char>(1024, 0x5a));
}

TEST_F(MappedRangeTest, ARefusalAtAnyCallLeavesTheChunkAsItWas) {
  for (const char* fault : {"cuMemCreate:1=2", "cuMemMap:1=999", "cuMemSetAccess:1=2"}) {
    SetFaults(fault);
    EXPECT_NE(range_->Ensure(0, 512), CUDA_SUCCESS) << fault;
    EXPECT_EQ(range_->device_bytes(), 0u) << fault;
    EXPECT_EQ(pool_.bytes(), 0u) << fault;
    EXPECT_EQ(Lent(), 0u) << fault;
  }
  SetFaults("");
  EXPECT_EQ(range_->Ensure(0, 512), CUDA_SUCCESS);
}

TEST_F(MappedRangeTest, GivesBackOnlyTheChunksThatAreFree) {
  ASSERT_EQ(range_->Ensure(0, range_->size()), CUDA_SUCCESS);
  EXPECT_EQ(range_->ReleaseChunks([](uint64_t offset, uint64_t) { return offset != kChunk; }),
            kChunk + 2 * kMiB);
  EXPECT_EQ(range_->device_bytes(), kChunk);
  EXPECT_EQ(Lent(), kChunk);
  EXPECT_THAT(range_->MappedChunks(), ElementsAre(kChunk));
  EXPECT_EQ(cuMemsetD8(range_->base() + kChunk, 1, 512), CUDA_SUCCESS);
  EXPECT_EQ(range_->Ensure(0, 512), CUDA_SUCCESS);  // and takes them again
  EXPECT_EQ(Lent(), 2 * kChunk);
}

TEST_F(MappedRangeTest, AChunkHasTheSizeThatWasAskedForAndAHandleThatCanBeMappedTwice) {
  auto range = MappedRange::Reserve(pool_, 10 * kMiB, 4 * kMiB).value();
  EXPECT_EQ(range->chunk_bytes(), 4 * kMiB);
  EXPECT_EQ(range->ChunkBytesAt(8 * kMiB), 2 * kMiB);
  EXPECT_EQ(range->HandleAt(4 * kMiB).generation, 0u);
  ASSERT_EQ(range->Ensure(4 * kMiB, 512), CUDA_SUCCESS);
  EXPECT_EQ(range->device_bytes(), 4 * kMiB);
  const MappedRange::Chunk chunk = range->HandleAt(4 * kMiB);
  CUdeviceptr second = 0;
  ASSERT_EQ(cuMemAddressReserve(&second, 4 * kMiB, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(second, 4 * kMiB, 0, chunk.handle, 0), CUDA_SUCCESS);
  const std::vector<CUmemAccessDesc> access = pool_.Access();
  ASSERT_EQ(cuMemSetAccess(second, 4 * kMiB, access.data(), access.size()), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32(range->base() + 4 * kMiB, 7, 1), CUDA_SUCCESS);
  uint32_t word = 0;
  ASSERT_EQ(cuMemcpyDtoH(&word, second, sizeof word), CUDA_SUCCESS);
  EXPECT_EQ(word, 7u);
  ASSERT_EQ(cuMemUnmap(second, 4 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressFree(second, 4 * kMiB), CUDA_SUCCESS);
  // Another handle at the same place is told from the first.
  ASSERT_EQ(range->ReleaseChunks([](uint64_t, uint64_t) { return true; }), 4 * kMiB);
  EXPECT_EQ(range->HandleAt(4 * kMiB).generation, 0u);
  ASSERT_EQ(range->Ensure(4 * kMiB, 512), CUDA_SUCCESS);
  EXPECT_NE(range->HandleAt(4 * kMiB).generation, chunk.generation);
}

TEST_F(MappedRangeTest, EndsWithNothingLent) {
  ASSERT_EQ(range_->Ensure(0, range_->size()), CUDA_SUCCESS);
  range_.reset();
  EXPECT_EQ(pool_.bytes(), 0u);
  EXPECT_EQ(Lent(), 0u);
}

TEST_F(PagePoolTest, ARefusedExchangeLeavesTheProgramsCaptureMode) {
  PagePool pool(driver_, 0, 0);
  auto range = MappedRange::Reserve(pool, 2 * kChunk).value();
  // The one that begins to map a chunk, the one that ends it.
  for (int call : {1, 2}) {
    SetFaults(("cuThreadExchangeStreamCaptureMode:" + std::to_string(call) + "=2").c_str());
    EXPECT_EQ(range->Ensure((call - 1) * kChunk, 1), CUDA_SUCCESS);
    SetFaults("");
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL) << "call " << call;
  }
}

}  // namespace
}  // namespace ebt::memory
