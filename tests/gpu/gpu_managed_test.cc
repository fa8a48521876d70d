// Managed memory whose home is the host, on a real device: what it costs, what kernels make of it
// in place, and what fetching and evicting move.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/units.h"
#include "src/memory/page_pool.h"
#include "src/tier/managed.h"
#include "tests/gpu/gpu_device.h"

namespace ebt::tier {
namespace {

using Direction = Prefetcher::Direction;

constexpr uint64_t kBytes = 256 * kMiB, kQuarter = kBytes / 4;
// Page tables and what else of the device an idle range may cost.
constexpr uint64_t kIdleCost = 32 * kMiB;

int* Guard() {
  thread_local int guard = 0;
  return &guard;
}

uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value); }

class GpuManagedRange : public test::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    stream_ = NewStream();
    adam_ = Kernel("ebt_adam");
    ASSERT_NO_FATAL_FAILURE(WarmUp());
    before_ = SettledBytes();
    auto range = ManagedRange::Create(gpu_.driver, gpu_.device, kBytes);
    ASSERT_TRUE(range.ok()) << range.status();
    range_ = *std::move(range);
  }
  void TearDown() override {
    GpuTest::TearDown();
    if (!range_) return;
    EXPECT_EQ(gpu_.driver.fn_cuMemFree_v2(range_->base()), CUDA_SUCCESS);
  }

  // What the driver loads and sets aside for memsets and the kernel is there from now on.
  void WarmUp() {
    CUdeviceptr word = 0;
    ASSERT_EQ(gpu_.driver.fn_cuMemAlloc_v2(&word, sizeof(uint32_t)), CUDA_SUCCESS);
    ASSERT_NO_FATAL_FAILURE(Fill(word, sizeof(uint32_t), 7));
    ASSERT_NO_FATAL_FAILURE(Adam({}, 0));
    EXPECT_EQ(Wrong(word, sizeof(uint32_t), 7), 0u);
    ASSERT_EQ(gpu_.driver.fn_cuMemFree_v2(word), CUDA_SUCCESS);
  }
  struct Tensors {
    CUdeviceptr p = 0, g = 0, m = 0, v = 0;
  };
  // With beta1 = beta2 = 1/2, lr = eps = 1 and no bias correction all results below are exact.
  void Adam(Tensors tensors, uint64_t elements) {
    float lr = 1, beta1 = 0.5f, beta2 = 0.5f, eps = 1, bias1 = 1, bias2 = 1;
    void* arguments[] = {&tensors.p, &tensors.g, &tensors.m, &tensors.v, &lr,      &beta1,
                         &beta2,     &eps,       &bias1,     &bias2,     &elements};
    const auto blocks = static_cast<unsigned>(std::max<uint64_t>(1, elements / 256));
    ASSERT_EQ(
        gpu_.fn_cuLaunchKernel(adam_, blocks, 1, 1, 256, 1, 1, 0, stream_, arguments, nullptr),
        CUDA_SUCCESS);
  }
  // Of the device's memory in use, what the range and its use have added.
  uint64_t Cost() const {
    const uint64_t used = UsedBytes();
    return used > before_ ? used - before_ : 0;
  }
  void Fill(CUdeviceptr at, uint64_t bytes, uint32_t value) {
    ASSERT_EQ(gpu_.fn_cuMemsetD32Async(at, value, bytes / sizeof(uint32_t), stream_), CUDA_SUCCESS);
  }
  // How many of the words differ from `value`.
  uint64_t Wrong(CUdeviceptr at, uint64_t bytes, uint32_t value) {
    std::vector<uint32_t> words(bytes / sizeof(uint32_t));
    EXPECT_EQ(gpu_.driver.fn_cuStreamSynchronize(stream_), CUDA_SUCCESS);
    EXPECT_EQ(gpu_.fn_cuMemcpyDtoH_v2(words.data(), at, bytes), CUDA_SUCCESS);
    return words.size() - static_cast<uint64_t>(std::count(words.begin(), words.end(), value));
  }

  uint64_t before_ = 0;
  std::unique_ptr<ManagedRange> range_;
  CUstream stream_ = nullptr;
  CUfunction adam_ = nullptr;
};

TEST_F(GpuManagedRange, CostsTheDeviceNextToNothingEvenWhenUsed) {
  EXPECT_LT(Cost(), kIdleCost);
  EXPECT_EQ(range_->device_bytes(), 0u);
  for (uint32_t i = 0; i < 4; ++i)
    ASSERT_NO_FATAL_FAILURE(Fill(range_->base() + i * kQuarter, kQuarter, 0xabcd0000 + i));
  ASSERT_EQ(gpu_.driver.fn_cuStreamSynchronize(stream_), CUDA_SUCCESS);
  const uint64_t cost = Cost();
  EXPECT_LT(cost, kIdleCost) << "a memset brought the range to the device";
  for (uint32_t i = 0; i < 4; ++i)
    EXPECT_EQ(Wrong(range_->base() + i * kQuarter, kQuarter, 0xabcd0000 + i), 0u);
  Say(absl::StrCat(FormatSize(kBytes), " at home on the host cost the device ", FormatSize(cost)));
}

TEST_F(GpuManagedRange, MoreThanTheCardHasFreeIsRefused) {
  size_t free_bytes = 0, total_bytes = 0;
  ASSERT_EQ(gpu_.driver.fn_cuMemGetInfo_v2(&free_bytes, &total_bytes), CUDA_SUCCESS);
  // Twice the card: whatever is freed meanwhile, the driver is not asked for it.
  const auto range = ManagedRange::Create(gpu_.driver, gpu_.device, 2 * total_bytes);
  EXPECT_EQ(range.status().code(), absl::StatusCode::kResourceExhausted);
}

// Weights and gradients on the device, both of Adam's moments at home on the host.
class GpuAdamInPlace : public GpuManagedRange {
 protected:
  static constexpr uint64_t kTensorBytes = kBytes / 2, kElements = kTensorBytes / sizeof(float);

  void SetUp() override {
    GpuManagedRange::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_EQ(gpu_.driver.fn_cuMemAlloc_v2(&all_.p, kTensorBytes), CUDA_SUCCESS);
    ASSERT_EQ(gpu_.driver.fn_cuMemAlloc_v2(&all_.g, kTensorBytes), CUDA_SUCCESS);
    all_.m = range_->base();
    all_.v = all_.m + kTensorBytes;
  }
  void TearDown() override {
    GpuManagedRange::TearDown();
    for (CUdeviceptr tensor : {all_.p, all_.g}) {
      if (tensor == 0) continue;
      EXPECT_EQ(gpu_.driver.fn_cuMemFree_v2(tensor), CUDA_SUCCESS);
    }
  }

  float TimedAdamMs() {
    float ms = 0;
    CUevent events[2] = {};
    for (CUevent& event : events)
      EXPECT_EQ(gpu_.driver.fn_cuEventCreate(&event, CU_EVENT_DEFAULT), CUDA_SUCCESS);
    EXPECT_EQ(gpu_.driver.fn_cuEventRecord(events[0], stream_), CUDA_SUCCESS);
    Adam(all_, kElements);
    EXPECT_EQ(gpu_.driver.fn_cuEventRecord(events[1], stream_), CUDA_SUCCESS);
    EXPECT_EQ(gpu_.driver.fn_cuEventSynchronize(events[1]), CUDA_SUCCESS);
    EXPECT_EQ(gpu_.driver.fn_cuEventElapsedTime(&ms, events[0], events[1]), CUDA_SUCCESS);
    for (CUevent event : events) gpu_.driver.fn_cuEventDestroy_v2(event);
    return ms;
  }

  Tensors all_;
};

TEST_F(GpuAdamInPlace, StepIsExactAndNothingMovesToTheDevice) {
  // g = 4, p = 5: m' = m/2 + 2, v' = v/2 + 8, p' = 5 - m' / (sqrt(v') + 1).
  struct Case {
    float m, v, m_after, v_after, p_after;
  };
  const Case cases[] = {
      {2, 2, 3, 9, 4.25f}, {2, 82, 3, 49, 4.625f}, {6, 2, 5, 9, 3.75f}, {6, 82, 5, 49, 4.375f}};
  const uint64_t part = kTensorBytes / 4;
  ASSERT_NO_FATAL_FAILURE(Fill(all_.p, kTensorBytes, Bits(5)));
  ASSERT_NO_FATAL_FAILURE(Fill(all_.g, kTensorBytes, Bits(4)));
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_NO_FATAL_FAILURE(Fill(all_.m + i * part, part, Bits(cases[i].m)));
    ASSERT_NO_FATAL_FAILURE(Fill(all_.v + i * part, part, Bits(cases[i].v)));
  }
  ASSERT_NO_FATAL_FAILURE(Adam(all_, kElements));
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(Wrong(all_.m + i * part, part, Bits(cases[i].m_after)), 0u) << i;
    EXPECT_EQ(Wrong(all_.v + i * part, part, Bits(cases[i].v_after)), 0u) << i;
    EXPECT_EQ(Wrong(all_.p + i * part, part, Bits(cases[i].p_after)), 0u) << i;
  }
  EXPECT_LT(Cost(), 2 * kTensorBytes + kIdleCost);
}

TEST_F(GpuAdamInPlace, SpeedIsSaid) {
  for (CUdeviceptr tensor : {all_.p, all_.g, all_.m, all_.v})
    ASSERT_NO_FATAL_FAILURE(Fill(tensor, kTensorBytes, Bits(1)));
  float best = std::numeric_limits<float>::max();
  for (int i = 0; i < 5; ++i) best = std::min(best, TimedAdamMs());
  ASSERT_GT(best, 0);
  const double gigabytes = static_cast<double>(kBytes) / 1e9;
  Say(absl::StrCat("Adam with its moments in place on the host: ", gigabytes / best * 1e3,
                   " GB/s each way, ", best, " ms"));
}

class GpuPrefetcher : public GpuManagedRange {
 protected:
  static constexpr uint64_t kMoved = kBytes / 2;

  void SetUp() override {
    GpuManagedRange::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    prefetcher_ =
        std::make_unique<Prefetcher>(gpu_.driver, gpu_.context, gpu_.device, *range_, &Guard);
    for (uint32_t i = 0; i < 4; ++i)
      ASSERT_NO_FATAL_FAILURE(Fill(range_->base() + i * kQuarter, kQuarter, i + 1));
  }
  void TearDown() override {
    prefetcher_.reset();
    GpuManagedRange::TearDown();
  }

  void Move(Direction direction, uint64_t offset, uint64_t bytes) {
    const auto moved = [this, direction] {
      return direction == Direction::kFetch ? prefetcher_->fetched_bytes()
                                            : prefetcher_->evicted_bytes();
    };
    const uint64_t target = moved() + bytes;
    prefetcher_->Request(direction, offset, bytes, stream_);
    ASSERT_TRUE(test::Await([&] { return moved() == target; })) << "the driver refused the move";
    ASSERT_EQ(gpu_.driver.fn_cuCtxSynchronize(), CUDA_SUCCESS);
  }
  void ExpectQuarters(const std::vector<uint32_t>& values) {
    for (uint64_t i = 0; i < 4; ++i)
      EXPECT_EQ(Wrong(range_->base() + i * kQuarter, kQuarter, values[i]), 0u) << i;
  }
  // Whether somebody else can have `bytes` of device memory now.
  bool OthersCanHave(uint64_t bytes) {
    memory::PagePool pool(gpu_.driver, gpu_.device, 0);
    std::vector<std::pair<uint64_t, CUmemGenericAllocationHandle>> handles;
    while (bytes > 0) {
      const uint64_t part = std::min(bytes, kGiB);
      CUmemGenericAllocationHandle handle = 0;
      if (pool.Get(part, &handle) != CUDA_SUCCESS) break;
      handles.emplace_back(part, handle);
      bytes -= part;
    }
    for (const auto& [part, handle] : handles) pool.Put(part, handle);
    return bytes == 0;
  }

  std::unique_ptr<Prefetcher> prefetcher_;
};

TEST_F(GpuPrefetcher, FetchedBytesLieOnTheDeviceAndSurviveTheRoundTrip) {
  ASSERT_NO_FATAL_FAILURE(Move(Direction::kFetch, kQuarter, kMoved));
  EXPECT_GE(Cost(), kMoved / 4 * 3) << "it did not come to the device";
  EXPECT_TRUE(test::Await([&] { return range_->device_bytes() == kMoved; }));
  ExpectQuarters({1, 2, 3, 4});
  ASSERT_NO_FATAL_FAILURE(Fill(range_->base() + kQuarter, kQuarter, 20));
  ASSERT_NO_FATAL_FAILURE(Move(Direction::kEvict, kQuarter, kMoved));
  EXPECT_TRUE(test::Await([&] { return range_->device_bytes() == 0; }));
  ExpectQuarters({1, 20, 3, 4});
  ASSERT_NO_FATAL_FAILURE(Fill(range_->base() + 2 * kQuarter, kQuarter, 30));
  ExpectQuarters({1, 20, 30, 4});
}

// A driver may count evicted pages as used until somebody wants them; then it must hand them out.
TEST_F(GpuPrefetcher, EvictedMemoryIsThereForOthers) {
  ASSERT_NO_FATAL_FAILURE(Move(Direction::kFetch, 0, kBytes));
  const uint64_t fetched = Cost();
  ASSERT_NO_FATAL_FAILURE(Move(Direction::kEvict, 0, kBytes));
  const auto has_fallen = [&] { return Cost() + kBytes / 4 * 3 <= fetched; };
  const bool fell = test::Await(has_fallen);
  Say(absl::StrCat("device memory of the range: fetched ", FormatSize(fetched), ", evicted ",
                   FormatSize(Cost()), fell ? "" : " (counted as used until others want it)"));
  if (fell) return;
  size_t free_bytes = 0, total_bytes = 0;
  ASSERT_EQ(gpu_.driver.fn_cuMemGetInfo_v2(&free_bytes, &total_bytes), CUDA_SUCCESS);
  const uint64_t wanted = (free_bytes + kBytes / 4) / (2 * kMiB) * (2 * kMiB);
  EXPECT_TRUE(OthersCanHave(wanted))
      << "evicted pages are lost to everybody: " << FormatSize(wanted) << " cannot be had with "
      << FormatSize(free_bytes) << " free";
  ExpectQuarters({1, 2, 3, 4});
}

}  // namespace
}  // namespace ebt::tier
