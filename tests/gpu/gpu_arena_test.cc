// Arenas on a real device: what they cost, and whether stream order keeps bytes apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/units.h"
#include "src/memory/arena.h"
#include "src/memory/page_pool.h"
#include "tests/gpu/gpu_device.h"

namespace ebt::memory {
namespace {

constexpr uint64_t kChunk = MappedRange::kChunkBytes;
// What the driver may take or give back for itself meanwhile, page tables among it.
constexpr uint64_t kSlack = 16 * kMiB;

class GpuMappedRange : public test::GpuTest {};

TEST_F(GpuMappedRange, DeviceMemoryFallsByWhatIsMappedAndComesBack) {
  PagePool pool(gpu_.driver, gpu_.device, 0);
  const uint64_t before = SettledBytes();
  auto range = MappedRange::Reserve(pool, 16 * kChunk);
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_LT(UsedBytes(), before + kSlack) << "addresses alone cost memory";
  ASSERT_EQ((*range)->Ensure(0, 4 * kChunk), CUDA_SUCCESS);
  ASSERT_EQ((*range)->Ensure(9 * kChunk + 512, 4 * kChunk), CUDA_SUCCESS);
  const uint64_t mapped = 9 * kChunk;  // 4, and 5 that 4 chunks' bytes lie in
  EXPECT_EQ((*range)->device_bytes(), mapped);
  EXPECT_EQ(pool.bytes(), mapped);
  const uint64_t used = SettledBytes() - before;
  EXPECT_GE(used + kSlack, mapped);
  EXPECT_LE(used, mapped + kSlack);
  Say(absl::StrCat("mapped ", FormatSize(mapped), ", used ", FormatSize(used)));
  EXPECT_EQ((*range)->ReleaseChunks([](uint64_t offset, uint64_t) { return offset == 0; }), kChunk);
  EXPECT_TRUE(test::Await([&] { return UsedBytes() <= before + mapped - kChunk + kSlack; }));
  range->reset();
  EXPECT_EQ(pool.bytes(), 0u);
  EXPECT_TRUE(test::Await([&] { return UsedBytes() <= before + kSlack; }));
}

// Blocks that live for a while on a stream, are copied to the host and freed there in that
// stream's order, so that only the arena keeps the next owner's bytes behind the copy.
class GpuArena : public test::GpuTest {
 protected:
  static constexpr uint64_t kArenaBytes = 256 * kMiB, kLargest = 8 * kMiB;
  static constexpr int kBlocks = 2000, kStreams = 4, kSlots = 16;

  struct Block {
    uint64_t offset, bytes;
    CUstream stream;
    uint32_t value;
  };
  struct Slot {  // pinned memory for one block's bytes
    uint32_t* host = nullptr;
    CUevent copied = nullptr;
    uint64_t words = 0;  // 0: not in use
    uint32_t value = 0;
  };

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    pool_ = std::make_unique<PagePool>(gpu_.driver, gpu_.device, 0);
    auto range = MappedRange::Reserve(*pool_, kArenaBytes);
    ASSERT_TRUE(range.ok()) << range.status();
    arena_ = std::make_unique<Arena>(*std::move(range), ledger_);
    ASSERT_EQ(gpu_.fn_cuMemHostAlloc(&pinned_, kSlots * kLargest, 0), CUDA_SUCCESS);
    for (int i = 0; i < kSlots; ++i) {
      slots_[i].host = static_cast<uint32_t*>(pinned_) + i * (kLargest / sizeof(uint32_t));
      ASSERT_EQ(gpu_.driver.fn_cuEventCreate(&slots_[i].copied, CU_EVENT_DISABLE_TIMING),
                CUDA_SUCCESS);
    }
    for (CUstream& stream : streams_) stream = NewStream();
  }
  void TearDown() override {
    GpuTest::TearDown();
    if (pinned_ == nullptr) return;
    for (Slot& slot : slots_) gpu_.driver.fn_cuEventDestroy_v2(slot.copied);
    gpu_.fn_cuMemFreeHost(pinned_);
  }

  // 4 KiB to 8 MiB, each power of two as likely as the others, in whole words.
  uint64_t RandomBytes() {
    const uint64_t power = 4 * kKiB << random_() % 11;
    return (power + random_() % power) & ~uint64_t{3};
  }

  void Allocate(uint32_t value) {
    Block block = {0, RandomBytes(), streams_[random_() % kStreams], value};
    Arena::Outcome outcome;
    while ((outcome = arena_->Take(block.bytes, block.stream, &block.offset)) ==
           Arena::Outcome::kOccupied) {
      ASSERT_FALSE(live_.empty());
      ASSERT_NO_FATAL_FAILURE(Free(random_() % live_.size()));
    }
    ASSERT_EQ(outcome, Arena::Outcome::kServed);
    ASSERT_EQ(gpu_.fn_cuMemsetD32Async(arena_->base() + block.offset, value,
                                       block.bytes / sizeof(uint32_t), block.stream),
              CUDA_SUCCESS);
    live_.push_back(block);
  }

  void Free(size_t index) {
    const Block block = live_[index];
    live_[index] = live_.back();
    live_.pop_back();
    Slot& slot = slots_[next_slot_++ % kSlots];
    Check(&slot);
    slot.words = block.bytes / sizeof(uint32_t);
    slot.value = block.value;
    ASSERT_EQ(gpu_.fn_cuMemcpyDtoHAsync_v2(slot.host, arena_->base() + block.offset, block.bytes,
                                           block.stream),
              CUDA_SUCCESS);
    ASSERT_EQ(gpu_.driver.fn_cuEventRecord(slot.copied, block.stream), CUDA_SUCCESS);
    arena_->Give(block.offset, block.bytes, block.stream);
  }

  // Counts the words of a slot that are not its block's own.
  void Check(Slot* slot) {
    if (slot->words == 0) return;
    EXPECT_EQ(gpu_.driver.fn_cuEventSynchronize(slot->copied), CUDA_SUCCESS);
    const auto own = std::count(slot->host, slot->host + slot->words, slot->value);
    spoiled_words_ += slot->words - static_cast<uint64_t>(own);
    checked_bytes_ += slot->words * sizeof(uint32_t);
    slot->words = 0;
  }

  StreamLedger ledger_{gpu_.driver};
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<Arena> arena_;
  void* pinned_ = nullptr;
  Slot slots_[kSlots];
  CUstream streams_[kStreams] = {};
  std::vector<Block> live_;
  std::mt19937_64 random_{20240229};
  size_t next_slot_ = 0;
  uint64_t spoiled_words_ = 0, checked_bytes_ = 0;
};

TEST_F(GpuArena, BlocksOfFourStreamsNeverSpoilEachOther) {
  for (int i = 0; i < kBlocks; ++i)
    ASSERT_NO_FATAL_FAILURE(Allocate(static_cast<uint32_t>(i + 1) * 0x9E3779B1u));
  while (!live_.empty()) ASSERT_NO_FATAL_FAILURE(Free(live_.size() - 1));
  for (Slot& slot : slots_) Check(&slot);
  EXPECT_EQ(spoiled_words_, 0u) << "of " << checked_bytes_ / sizeof(uint32_t);
  EXPECT_EQ(arena_->live_bytes(), 0u);
  EXPECT_LE(arena_->device_bytes(), kArenaBytes);
  Say(absl::StrCat(kBlocks, " blocks, ", FormatSize(checked_bytes_), " checked in ",
                   FormatSize(arena_->device_bytes()), " of memory"));
}

}  // namespace
}  // namespace ebt::memory
