#include "src/tier/managed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "src/base/units.h"
#include "tests/unit/simulated_device.h"

namespace ebt::tier {
namespace {

using ::testing::HasSubstr;

int* Guard() {
  thread_local int guard = 0;
  return &guard;
}

class ManagedRangeTest : public test::SimulatedDevice {
 protected:
  const DriverApi& driver_ = test::SimulatedDriver();
};

TEST_F(ManagedRangeTest, HasItsHomeOnTheHost) {
  const uint64_t before = DeviceBytes();
  auto range = ManagedRange::Create(driver_, 0, 64 * kMiB);
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_EQ(DeviceBytes(), before);
  EXPECT_EQ((*range)->size(), 64 * kMiB);
  EXPECT_EQ((*range)->device_bytes(), 0u);
  EXPECT_EQ((*range)->Ensure(0, 64 * kMiB), CUDA_SUCCESS);
}

TEST_F(ManagedRangeTest, AKernelUsesItInPlace) {
  const uint64_t before = DeviceBytes();
  auto range = ManagedRange::Create(driver_, 0, 2 * kMiB);
  ASSERT_TRUE(range.ok()) << range.status();
  const CUstream stream = NewStream();
  ASSERT_EQ(cuMemsetD32Async((*range)->base(), 0xabcd1234, 1024, stream), CUDA_SUCCESS);
  std::vector<uint32_t> words(1024);
  ASSERT_EQ(cuMemcpyDtoHAsync(words.data(), (*range)->base(), 4096, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(words, std::vector<uint32_t>(1024, 0xabcd1234));
  EXPECT_EQ(DeviceBytes(), before);
}

TEST_F(ManagedRangeTest, MoreThanTheCardHasFreeIsRefusedUnasked) {
  size_t free_bytes = 0, total = 0;
  ASSERT_EQ(cuMemGetInfo(&free_bytes, &total), CUDA_SUCCESS);
  const uint64_t asked = simcuda_call_count("cuMemAllocManaged");
  const auto range = ManagedRange::Create(driver_, 0, free_bytes + 1);
  EXPECT_EQ(range.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(simcuda_call_count("cuMemAllocManaged"), asked);
}

TEST_F(ManagedRangeTest, ARefusalAtAnyCallIsAnErrorAndLeavesNothingBehind) {
  const uint64_t before = DeviceBytes();
  for (const char* fault :
       {"cuMemGetInfo_v2:1=999", "cuMemAllocManaged:1=2", "cuMemAdvise:1=801", "cuMemAdvise:2=801",
        "cuMemPrefetchAsync:1=2", "cuStreamSynchronize:1=999", "cuStreamCreateWithPriority:1=2"}) {
    SetFaults(fault);
    const uint64_t made = simcuda_call_count("cuMemAllocManaged");
    const uint64_t freed = simcuda_call_count("cuMemFree_v2");
    EXPECT_FALSE(ManagedRange::Create(driver_, 0, 2 * kMiB).ok()) << fault;
    const uint64_t granted = simcuda_call_count("cuMemAllocManaged") - made;
    const bool refused = std::string_view(fault).starts_with("cuMemAllocManaged");
    EXPECT_EQ(simcuda_call_count("cuMemFree_v2") - freed, refused ? 0 : granted) << fault;
    EXPECT_EQ(DeviceBytes(), before);
  }
}

TEST_F(ManagedRangeTest, ADeviceThatCannotShareIsRefusedInWords) {
  DriverApi driver = driver_;
  driver.fn_cuDeviceGetAttribute = [](int* value, CUdevice_attribute, CUdevice) {
    *value = 0;
    return CUDA_SUCCESS;
  };
  const auto range = ManagedRange::Create(driver, 0, 2 * kMiB);
  EXPECT_THAT(range.status().message(), HasSubstr("concurrentManagedAccess"));
}

class PrefetcherTest : public ManagedRangeTest {
 protected:
  using Direction = Prefetcher::Direction;

  PrefetcherTest() {
    range_ = ManagedRange::Create(driver_, 0, 8 * kMiB).value();
    prefetcher_ = std::make_unique<Prefetcher>(driver_, context_, 0, *range_, &Guard);
    before_ = DeviceBytes();
  }
  // Until the prefetcher's thread has asked for so many bytes in all.
  void AwaitMoved(uint64_t fetched, uint64_t evicted) {
    for (int i = 0; i < 5000 && (prefetcher_->fetched_bytes() < fetched ||
                                 prefetcher_->evicted_bytes() < evicted);
         ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(prefetcher_->fetched_bytes(), fetched);
    EXPECT_EQ(prefetcher_->evicted_bytes(), evicted);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }

  std::unique_ptr<ManagedRange> range_;
  std::unique_ptr<Prefetcher> prefetcher_;
  uint64_t before_ = 0;
};

TEST_F(PrefetcherTest, FetchesToTheDeviceAndSendsBack) {
  const CUstream stream = NewStream();
  prefetcher_->Request(Direction::kFetch, 2 * kMiB, 4 * kMiB, stream);
  AwaitMoved(4 * kMiB, 0);
  EXPECT_EQ(DeviceBytes() - before_, 4 * kMiB);
  EXPECT_EQ(range_->device_bytes(), 4 * kMiB);
  prefetcher_->Request(Direction::kEvict, 2 * kMiB, 4 * kMiB, stream);
  AwaitMoved(4 * kMiB, 4 * kMiB);
  EXPECT_EQ(DeviceBytes(), before_);
  EXPECT_EQ(range_->device_bytes(), 0u);
}

TEST_F(PrefetcherTest, KeepsTheOrderOfRequestsAndTheBytes) {
  const CUstream stream = NewStream();
  ASSERT_EQ(cuMemsetD8Async(range_->base(), 0x11, 8 * kMiB, stream), CUDA_SUCCESS);
  for (int turn = 0; turn < 4; ++turn) {
    prefetcher_->Request(Direction::kFetch, 0, 8 * kMiB, stream);
    ASSERT_EQ(cuMemsetD8Async(range_->base() + turn * kMiB, 0x20 + turn, kMiB, stream),
              CUDA_SUCCESS);
    prefetcher_->Request(Direction::kEvict, 0, 8 * kMiB, stream);
  }
  AwaitMoved(32 * kMiB, 32 * kMiB);
  EXPECT_EQ(DeviceBytes(), before_);
  std::vector<unsigned char> bytes(8 * kMiB);
  ASSERT_EQ(cuMemcpyDtoH(bytes.data(), range_->base(), 8 * kMiB), CUDA_SUCCESS);
  for (int mib = 0; mib < 8; ++mib) {
    const unsigned char value = mib < 4 ? 0x20 + mib : 0x11;
    EXPECT_EQ(bytes[mib * kMiB], value);
    EXPECT_EQ(bytes[(mib + 1) * kMiB - 1], value);
  }
}

TEST_F(PrefetcherTest, MovesOnlyBehindWhatTheStreamHasQueued) {
  // The stream is held by a word in memory; a move behind it must not begin before.
  CUdeviceptr word = 0;
  ASSERT_EQ(cuMemAlloc(&word, 512), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32(word, 0, 1), CUDA_SUCCESS);
  before_ = DeviceBytes();
  const CUstream held = NewStream();
  ASSERT_EQ(cuStreamWaitValue32(held, word, 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  prefetcher_->Request(Direction::kFetch, 0, 2 * kMiB, held);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  simcuda_host_work_ms(50);
  EXPECT_EQ(DeviceBytes(), before_);
  ASSERT_EQ(cuStreamWriteValue32(NewStream(), word, 1, 0), CUDA_SUCCESS);
  AwaitMoved(2 * kMiB, 0);
  EXPECT_EQ(DeviceBytes() - before_, 2 * kMiB);
}

TEST_F(PrefetcherTest, ARefusedMoveIsDroppedAndTheNextOneHappens) {
  const CUstream stream = NewStream();
  SetFaults("cuMemPrefetchAsync:1=2");
  prefetcher_->Request(Direction::kFetch, 0, 2 * kMiB, stream);
  prefetcher_->Request(Direction::kFetch, 2 * kMiB, 2 * kMiB, stream);
  AwaitMoved(2 * kMiB, 0);
  EXPECT_EQ(DeviceBytes() - before_, 2 * kMiB);
}

TEST_F(PrefetcherTest, ARequestThatCannotBeOrderedIsDropped) {
  SetFaults("cuEventCreate:1=2");
  prefetcher_->Request(Direction::kFetch, 0, 2 * kMiB, nullptr);
  SetFaults("cuEventRecord:1=400");
  prefetcher_->Request(Direction::kFetch, 0, 2 * kMiB, nullptr);
  SetFaults("");
  prefetcher_->Request(Direction::kFetch, 4 * kMiB, 2 * kMiB, nullptr);
  AwaitMoved(2 * kMiB, 0);
}

TEST_F(PrefetcherTest, EndsAtOnceWithRequestsPending) {
  const CUstream stream = NewStream();
  for (int i = 0; i < 200; ++i)
    prefetcher_->Request(i % 2 == 0 ? Direction::kFetch : Direction::kEvict, 0, 8 * kMiB, stream);
  prefetcher_.reset();
}

TEST_F(PrefetcherTest, EndsThoughItsThreadNeverGotAContext) {
  SetFaults("cuCtxSetCurrent:1+=201");
  Prefetcher lame(driver_, context_, 0, *range_, &Guard);
  lame.Request(Direction::kFetch, 0, 2 * kMiB, NewStream());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(lame.fetched_bytes(), 0u);
}

}  // namespace
}  // namespace ebt::tier
