// What an engine that swaps would take for granted, shown on a real device: one handle under two
// addresses, host pages used in place under a device address, remapping beside running kernels, and
// whether counters may be awaited before they are written.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/config.h"
#include "src/base/units.h"
#include "tests/gpu/gpu_device.h"

namespace ebt::test {
namespace {

constexpr uint64_t kSlab = 32 * kMiB, kPiece = 4 * kMiB;
constexpr uint64_t kWords = kSlab / sizeof(uint32_t);
constexpr int kBusyLaunches = 60;
constexpr uint64_t kBusyBytes = 256 * kMiB;

using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

class GpuOverlay : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    stream_ = NewStream();
    other_ = NewStream();
    Find("cuMemcpyAsync", &copy_);
    Find("cuMemcpyHtoDAsync_v2", &copy_in_);
    Find("cuStreamWaitValue64_v2", &wait_value_);
    Find("cuMemHostGetDevicePointer_v2", &device_pointer_);
    Find("cuPointerGetAttribute", &attribute_);
    ASSERT_EQ(
        gpu_.driver.fn_cuDeviceGetAttribute(&numa_, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, gpu_.device),
        CUDA_SUCCESS);
  }
  void TearDown() override {
    if (!IsSkipped()) gpu_.driver.fn_cuCtxSynchronize();
    for (CUdeviceptr address : mapped_) gpu_.driver.fn_cuMemUnmap(address, kSlab);
    for (CUdeviceptr address : reserved_) gpu_.driver.fn_cuMemAddressFree(address, kSlab);
    for (auto handle : handles_) gpu_.driver.fn_cuMemRelease(handle);
    if (busy_) gpu_.driver.fn_cuMemFree_v2(busy_);
    GpuTest::TearDown();
  }

  template <typename Function>
  void Find(const char* symbol, Function* function) {
    *function = reinterpret_cast<Function>(gpu_.Symbol(symbol));
    ASSERT_NE(*function, nullptr) << symbol;
  }

  CUmemGenericAllocationHandle Handle(CUmemLocation location) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = location;
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(gpu_.driver.fn_cuMemCreate(&handle, kSlab, &properties, 0), CUDA_SUCCESS);
    handles_.push_back(handle);
    return handle;
  }
  CUmemGenericAllocationHandle OnDevice() {
    return Handle({CU_MEM_LOCATION_TYPE_DEVICE, {gpu_.device}});
  }
  CUmemGenericAllocationHandle OnHost() {
    return Handle({CU_MEM_LOCATION_TYPE_HOST_NUMA, {std::max(numa_, 0)}});
  }
  CUdeviceptr Reserve() {
    CUdeviceptr address = 0;
    EXPECT_EQ(gpu_.driver.fn_cuMemAddressReserve(&address, kSlab, 0, 0x5e5e'0000'0000, 0),
              CUDA_SUCCESS);
    reserved_.push_back(address);
    return address;
  }
  void Map(CUdeviceptr address, CUmemGenericAllocationHandle handle) {
    ASSERT_EQ(gpu_.driver.fn_cuMemMap(address, kSlab, 0, handle, 0), CUDA_SUCCESS);
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {gpu_.device}},
                                 CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    ASSERT_EQ(gpu_.driver.fn_cuMemSetAccess(address, kSlab, &access, 1), CUDA_SUCCESS);
    mapped_.push_back(address);
  }
  void Unmap(CUdeviceptr address) {
    ASSERT_EQ(gpu_.driver.fn_cuMemUnmap(address, kSlab), CUDA_SUCCESS);
    std::erase(mapped_, address);
  }
  CUdeviceptr Mapped(CUmemGenericAllocationHandle handle) {
    const CUdeviceptr address = Reserve();
    Map(address, handle);
    return address;
  }
  void Fill(CUdeviceptr at, uint32_t value, CUstream stream) {
    ASSERT_EQ(gpu_.fn_cuMemsetD32Async(at, value, kWords, stream), CUDA_SUCCESS);
  }
  void FillByKernel(CUdeviceptr at, float value, CUstream stream) {
    uint64_t count = kWords;
    void* arguments[] = {&at, &value, &count};
    ASSERT_EQ(gpu_.fn_cuLaunchKernel(Kernel("ebt_fill"), kWords / 256, 1, 1, 256, 1, 1, 0, stream,
                                     arguments, nullptr),
              CUDA_SUCCESS);
  }
  void After(CUstream later, CUstream earlier) {
    CUevent event = nullptr;
    ASSERT_EQ(gpu_.driver.fn_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    ASSERT_EQ(gpu_.driver.fn_cuEventRecord(event, earlier), CUDA_SUCCESS);
    ASSERT_EQ(gpu_.driver.fn_cuStreamWaitEvent(later, event, 0), CUDA_SUCCESS);
    gpu_.driver.fn_cuEventDestroy_v2(event);
  }
  void Copy(CUdeviceptr to, CUdeviceptr from, CUstream stream) {
    for (uint64_t at = 0; at < kSlab; at += kPiece)
      ASSERT_EQ(copy_(to + at, from + at, kPiece, stream), CUDA_SUCCESS);
  }
  uint64_t Wrong(CUdeviceptr at, uint32_t value) {
    std::vector<uint32_t> words(kWords);
    EXPECT_EQ(gpu_.driver.fn_cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(gpu_.fn_cuMemcpyDtoH_v2(words.data(), at, kSlab), CUDA_SUCCESS);
    return words.size() - static_cast<uint64_t>(std::count(words.begin(), words.end(), value));
  }
  // Both ways with pageable memory, at the sizes where a driver may change its way of copying.
  void SmallCopies(CUdeviceptr at, uint32_t value) {
    for (uint64_t bytes : {uint64_t{4}, uint64_t{4096}, 64 * kKiB, kMiB, kSlab}) {
      SCOPED_TRACE(bytes);
      std::vector<uint32_t> in(bytes / 4, value), out(bytes / 4);
      ASSERT_EQ(copy_in_(at, in.data(), bytes, stream_), CUDA_SUCCESS);
      ASSERT_EQ(gpu_.driver.fn_cuStreamSynchronize(stream_), CUDA_SUCCESS);
      ASSERT_EQ(gpu_.fn_cuMemcpyDtoH_v2(out.data(), at, bytes), CUDA_SUCCESS);
      EXPECT_EQ(in, out);
    }
    Fill(at, value + 1000, stream_);
    EXPECT_EQ(Wrong(at, value + 1000), 0u);
  }
  // Work on `stream` for some milliseconds; every word of busy_ is kBusyLaunches after it.
  void Busy(CUstream stream) {
    ASSERT_EQ(gpu_.driver.fn_cuMemAlloc_v2(&busy_, kBusyBytes), CUDA_SUCCESS);
    for (int i = 1; i <= kBusyLaunches; ++i)
      ASSERT_EQ(gpu_.fn_cuMemsetD32Async(busy_, i, kBusyBytes / 4, stream), CUDA_SUCCESS);
  }

  int numa_ = 0;
  CUstream stream_ = nullptr, other_ = nullptr;
  CUresult (*copy_)(CUdeviceptr, CUdeviceptr, size_t, CUstream) = nullptr;
  CUresult (*copy_in_)(CUdeviceptr, const void*, size_t, CUstream) = nullptr;
  CUresult (*wait_value_)(CUstream, CUdeviceptr, cuuint64_t, unsigned) = nullptr;
  CUresult (*device_pointer_)(CUdeviceptr*, void*, unsigned) = nullptr;
  CUresult (*attribute_)(void*, CUpointer_attribute, CUdeviceptr) = nullptr;
  std::vector<CUmemGenericAllocationHandle> handles_;
  std::vector<CUdeviceptr> mapped_, reserved_;
  CUdeviceptr busy_ = 0;
};

TEST_F(GpuOverlay, TwoMappingsOfOneHandleAreCoherentBetweenOrderedWork) {
  const auto handle = OnDevice();
  const CUdeviceptr a = Mapped(handle), b = Mapped(handle);
  for (uint32_t round = 1; round <= 8; ++round) {
    // A kernel writes one, a memset and the copy engine the other, each reading what was before.
    FillByKernel(a, static_cast<float>(round), stream_);
    After(other_, stream_);
    const CUdeviceptr elsewhere = round == 1 ? Mapped(OnDevice()) : mapped_[2];
    Copy(elsewhere, b, other_);
    After(stream_, other_);
    Fill(b, 100 + round, stream_);
    uint32_t bits = 0;
    const float value = static_cast<float>(round);
    std::memcpy(&bits, &value, sizeof(bits));
    EXPECT_EQ(Wrong(elsewhere, bits), 0u) << round;
    EXPECT_EQ(Wrong(a, 100 + round), 0u) << round;
  }
}

TEST_F(GpuOverlay, BytesSurviveCopiesThroughTheOtherAddress) {
  const auto device = OnDevice();
  const CUdeviceptr arena = Mapped(device), slab = Mapped(device), home = Mapped(OnHost());
  Fill(home, 7, stream_);
  Copy(arena, home, stream_);
  EXPECT_EQ(Wrong(slab, 7), 0u);
  Fill(slab, 8, stream_);
  Copy(home, arena, stream_);
  EXPECT_EQ(Wrong(home, 8), 0u);
}

TEST_F(GpuOverlay, HostPagesUnderADeviceAddressServeKernelsMemsetsAndCopies) {
  const CUdeviceptr slab = Mapped(OnHost()), copy = Mapped(OnDevice());
  const uint64_t used = UsedBytes();
  FillByKernel(slab, 1.0f, stream_);
  EXPECT_EQ(Wrong(slab, 0x3f800000), 0u);
  Fill(slab, 9, stream_);
  EXPECT_EQ(Wrong(slab, 9), 0u);
  Copy(copy, slab, stream_);
  EXPECT_EQ(Wrong(copy, 9), 0u);
  std::vector<uint32_t> words(kWords, 11);
  ASSERT_EQ(copy_in_(slab, words.data(), kSlab, stream_), CUDA_SUCCESS);
  EXPECT_EQ(Wrong(slab, 11), 0u);
  EXPECT_LT(UsedBytes(), used + kSlab / 2) << "host pages cost device memory";
  unsigned type = 0;
  const CUresult asked = attribute_(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, slab);
  Say(absl::StrCat("memory type of host pages under a device address: result ", asked, ", type ",
                   type, " (1 host, 2 device)"));
}

// A driver may serve a copy with the processor, so what an address shows and has shown counts.
TEST_F(GpuOverlay, CopiesOfEverySizeServeWhatAnAddressShowsNow) {
  const auto host = OnHost(), device = OnDevice();
  const CUdeviceptr slab = Reserve();
  uint32_t value = 20;
  for (const auto shown : {host, device, host, device}) {
    Map(slab, shown);
    SmallCopies(slab, ++value);
    Unmap(slab);
  }
}

// In one range, beside slabs that show the other kind. With the processor's access to the host
// pages of one slab the driver crashed at small copies of another one that showed device memory.
TEST_F(GpuOverlay, CopiesOfEverySizeServeSlabsOfBothKindsInOneRange) {
  const auto device = OnDevice(), first = OnHost(), second = OnHost();
  Mapped(device);  // the place that it lies in
  Mapped(first);   // its home
  CUdeviceptr range = 0;
  ASSERT_EQ(gpu_.driver.fn_cuMemAddressReserve(&range, 2 * kSlab, 0, 0x5e5e'0000'0000, 0),
            CUDA_SUCCESS);
  Map(range, first);
  Map(range + kSlab, second);
  SmallCopies(range, 41);
  Unmap(range);
  Map(range, device);
  SmallCopies(range, 42);
  SmallCopies(range + kSlab, 43);
  Unmap(range);
  Map(range, first);
  SmallCopies(range, 44);
  Unmap(range);
  Unmap(range + kSlab);
  gpu_.driver.fn_cuMemAddressFree(range, 2 * kSlab);
}

TEST_F(GpuOverlay, RemappingBesideRunningKernelsNeitherWaitsNorDisturbs) {
  const auto device = OnDevice(), host = OnHost();
  const CUdeviceptr arena = Mapped(device), slab = Mapped(host), home = Mapped(host);
  Fill(arena, 1, stream_);
  Fill(home, 2, stream_);
  ASSERT_EQ(gpu_.driver.fn_cuCtxSynchronize(), CUDA_SUCCESS);
  ASSERT_NO_FATAL_FAILURE(Busy(other_));
  const auto begin = Clock::now();
  double worst = 0;
  for (int i = 0; i < 10; ++i) {
    const auto one = Clock::now();
    Unmap(slab);
    Map(slab, i % 2 == 0 ? device : host);
    worst = std::max(worst, MsSince(one));
  }
  const double ms = MsSince(begin);
  const bool still_busy = gpu_.driver.fn_cuStreamQuery(other_) == CUDA_ERROR_NOT_READY;
  Say(absl::StrCat("remapping 32 MiB beside running kernels: ", ms / 10 * 1e3, " us each, worst ",
                   worst * 1e3, " us; the kernels ", still_busy ? "ran on" : "had ended"));
  EXPECT_EQ(Wrong(slab, 2), 0u);
  Unmap(slab);
  Map(slab, device);
  EXPECT_EQ(Wrong(slab, 1), 0u);
  std::vector<uint32_t> words(kBusyBytes / 4);
  ASSERT_EQ(gpu_.fn_cuMemcpyDtoH_v2(words.data(), busy_, kBusyBytes), CUDA_SUCCESS);
  EXPECT_EQ(std::count(words.begin(), words.end(), kBusyLaunches),
            static_cast<int64_t>(words.size()));
}

// Whether work may wait for a counter that is still to be written: on an H200 an early form of this
// test did not get past 32 streams that did. A thread writes the counter after a while, so that
// this ends whatever the driver does.
TEST_F(GpuOverlay, WhetherWaitsOnCountersHoldUpOtherStreamsIsSaid) {
  void* host = nullptr;
  ASSERT_EQ(gpu_.fn_cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP), CUDA_SUCCESS);
  auto* const value = static_cast<std::atomic<uint64_t>*>(host);
  CUdeviceptr counter = 0;
  ASSERT_EQ(device_pointer_(&counter, host, 0), CUDA_SUCCESS);
  const CUdeviceptr home = Mapped(OnHost()), arena = Mapped(OnDevice());
  Fill(home, 3, stream_);
  ASSERT_EQ(gpu_.driver.fn_cuCtxSynchronize(), CUDA_SUCCESS);
  for (int blocked : {1, 8, 32}) {
    value->store(0);
    std::atomic<bool> over{false}, rescued{false};
    std::thread rescue([&] {
      const auto begin = Clock::now();
      while (!over && MsSince(begin) < 1500)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      rescued = !over;
      value->store(1);
    });
    for (int i = 0; i < blocked; ++i) {
      const CUstream waiting = NewStream();
      EXPECT_EQ(wait_value_(waiting, counter, 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
      EXPECT_EQ(gpu_.fn_cuMemsetD32Async(arena, 5, 256, waiting), CUDA_SUCCESS);
    }
    const CUstream copying = NewStream();
    EXPECT_EQ(copy_(arena, home, kPiece, copying), CUDA_SUCCESS);
    EXPECT_EQ(gpu_.driver.fn_cuStreamSynchronize(copying), CUDA_SUCCESS);
    over = true;
    rescue.join();
    EXPECT_EQ(gpu_.driver.fn_cuCtxSynchronize(), CUDA_SUCCESS);
    Say(absl::StrCat(blocked, " streams waiting for a counter: a copy queued behind them ",
                     rescued ? "was held up until the counter was written" : "passed"));
  }
  gpu_.fn_cuMemFreeHost(host);
}

TEST_F(GpuOverlay, HostMemoryByTheGibibyteIsThere) {
  const auto begin = Clock::now();
  const size_t before = handles_.size();
  uint64_t had = 0;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, {std::max(numa_, 0)}};
  // Half of what is there: the machine must live through the question.
  const uint64_t most = gpu_.simulated ? 256 * kMiB : 12 * kGiB;
  const uint64_t wanted = std::min(most, AvailableHostMemory() / 2) / kSlab * kSlab;
  for (; had < wanted; had += kSlab) {
    CUmemGenericAllocationHandle handle = 0;
    if (gpu_.driver.fn_cuMemCreate(&handle, kSlab, &properties, 0) != CUDA_SUCCESS) break;
    handles_.push_back(handle);
  }
  Say(absl::StrCat(FormatSize(had), " of host memory on node ", numa_,
                   " in handles of 32 MiB took ", MsSince(begin), " ms"));
  EXPECT_EQ(had, wanted);
  for (; handles_.size() > before; handles_.pop_back())
    gpu_.driver.fn_cuMemRelease(handles_.back());
}

TEST_F(GpuOverlay, SpeedOfPiecesIsSaid) {
  const CUdeviceptr home_in = Mapped(OnHost()), home_out = Mapped(OnHost());
  const CUdeviceptr in = Mapped(OnDevice()), out = Mapped(OnDevice());
  for (int both : {0, 1}) {
    ASSERT_EQ(gpu_.driver.fn_cuCtxSynchronize(), CUDA_SUCCESS);
    const auto begin = Clock::now();
    for (int i = 0; i < 32; ++i) {
      Copy(in, home_in, stream_);
      if (both) Copy(home_out, out, other_);
    }
    const double issued = MsSince(begin);
    ASSERT_EQ(gpu_.driver.fn_cuCtxSynchronize(), CUDA_SUCCESS);
    Say(absl::StrCat(both ? "both ways at once, each " : "host to device ",
                     32 * kSlab / 1e6 / MsSince(begin),
                     " GB/s in pieces of 4 MiB; issuing one took ",
                     issued * 1e3 / (32 * kSlab / kPiece) / (1 + both), " us"));
  }
}

}  // namespace
}  // namespace ebt::test
