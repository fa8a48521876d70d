#include "src/memory/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "src/base/units.h"
#include "src/memory/page_pool.h"
#include "tests/unit/simulated_device.h"

namespace ebt::memory {
namespace {

using Outcome = Arena::Outcome;

constexpr uint64_t kChunk = MappedRange::kChunkBytes;

class ArenaTest : public test::SimulatedDevice {
 protected:
  void Make(uint64_t bytes, const DriverApi& ledger_driver = test::SimulatedDriver()) {
    ledger_ = std::make_unique<StreamLedger>(ledger_driver);
    arena_ = std::make_unique<Arena>(MappedRange::Reserve(pool_, bytes).value(), *ledger_);
  }

  PagePool pool_{test::SimulatedDriver(), 0, 0};
  std::unique_ptr<StreamLedger> ledger_;
  std::unique_ptr<Arena> arena_;
};

TEST_F(ArenaTest, RoundsBlocksUpAndCountsThem) {
  Make(kChunk);
  const CUstream stream = NewStream();
  EXPECT_EQ(arena_->TakeAt(0, 1, stream), Outcome::kServed);
  EXPECT_EQ(arena_->TakeAt(512, 513, stream), Outcome::kServed);
  EXPECT_EQ(arena_->live_bytes(), 1536u);
  EXPECT_EQ(arena_->TakeAt(1024, 1, stream), Outcome::kOccupied);
  EXPECT_FALSE(arena_->IsFree(0, 512));
  EXPECT_TRUE(arena_->IsFree(1536, 512));
  arena_->Give(512, 513, stream);
  EXPECT_EQ(arena_->live_bytes(), 512u);
  EXPECT_EQ(arena_->TakeAt(1024, 1, stream), Outcome::kServed);
}

TEST_F(ArenaTest, CompactBlocksFillWhatWasUsedBeforeItGrows) {
  Make(2 * kChunk);
  const CUstream stream = NewStream();
  uint64_t offset = 1;
  // Nothing has been used, but the floor is the caller's.
  EXPECT_EQ(arena_->TakeCompact(2048, 1024, stream, &offset), Outcome::kServed);
  EXPECT_EQ(offset, 0u);
  EXPECT_EQ(arena_->TakeCompact(2048, 1536, stream, &offset), Outcome::kServed);
  EXPECT_EQ(offset, 1024u) << "grows by 512 bytes, not by 1536";
  EXPECT_EQ(arena_->TakeAt(4096, 512, stream), Outcome::kServed);
  arena_->Give(0, 1024, stream);
  // Two runs, 1024 bytes at 0 and 1536 at 2560: the smaller one that holds.
  EXPECT_EQ(arena_->TakeCompact(2048, 1536, stream, &offset), Outcome::kServed);
  EXPECT_EQ(offset, 2560u);
  EXPECT_EQ(arena_->TakeCompact(2048, 1000, std::nullopt, &offset), Outcome::kServed);
  EXPECT_EQ(offset, 0u);
}

TEST_F(ArenaTest, WhatHadNoMemoryIsNoHoleToPrefer) {
  Make(4 * kChunk);
  const CUstream stream = NewStream();
  uint64_t offset = 0;
  EXPECT_EQ(arena_->TakeCompact(0, kChunk, stream, &offset), Outcome::kServed);
  SetFaults("cuMemCreate:1+=2");
  EXPECT_EQ(arena_->TakeCompact(0, 512, stream, &offset), Outcome::kNoMemory);
  arena_->Give(0, kChunk, stream);
  // The first chunk is mapped and free; the bytes behind it are not.
  EXPECT_EQ(arena_->TakeCompact(0, 512, stream, &offset), Outcome::kServed);
  EXPECT_EQ(offset, 0u);
  SetFaults("");
}

TEST_F(ArenaTest, BlocksWithinARangeTakeItsLowestPlaceOrNone) {
  Make(kChunk);
  const CUstream stream = NewStream();
  uint64_t offset = 0;
  EXPECT_EQ(arena_->TakeWithin(1024, 3072, 1024, stream, &offset), Outcome::kServed);
  EXPECT_EQ(offset, 1024u);
  EXPECT_EQ(arena_->TakeWithin(1024, 3072, 1000, stream, &offset), Outcome::kServed);
  EXPECT_EQ(offset, 2048u);
  EXPECT_EQ(arena_->TakeWithin(1024, 3072, 1, stream, &offset), Outcome::kOccupied);
  arena_->Give(1024, 1024, stream);
  EXPECT_EQ(arena_->TakeWithin(1024, 3072, 1, stream, &offset), Outcome::kServed);
  EXPECT_EQ(offset, 1024u);
}

TEST_F(ArenaTest, HoldsOnlyTheChunksThatBlocksLieIn) {
  const uint64_t before = DeviceBytes();
  Make(4 * kChunk);
  EXPECT_EQ(arena_->TakeAt(2 * kChunk, 512, NewStream()), Outcome::kServed);
  EXPECT_EQ(arena_->device_bytes(), kChunk);
  EXPECT_EQ(DeviceBytes() - before, kChunk);
}

TEST_F(ArenaTest, ABlockThatIsTooLargeForAnyRunIsOccupied) {
  Make(kChunk);
  uint64_t offset = 77;
  EXPECT_EQ(arena_->Take(kChunk + 1, NewStream(), &offset), Outcome::kOccupied);
  EXPECT_EQ(arena_->Take(UINT64_MAX, NewStream(), &offset), Outcome::kOccupied);
  EXPECT_EQ(arena_->TakeAt(0, UINT64_MAX, NewStream()), Outcome::kOccupied);
  EXPECT_EQ(offset, 77u);
  EXPECT_EQ(arena_->live_bytes(), 0u);
}

TEST_F(ArenaTest, WhenTheDeviceIsFullThePlaceStaysFree) {
  Make(2 * kChunk);
  const CUstream stream = NewStream();
  SetFaults("cuMemCreate:1=2");
  EXPECT_EQ(arena_->TakeAt(0, 512, stream), Outcome::kNoMemory);
  EXPECT_TRUE(arena_->IsFree(0, 2 * kChunk));
  EXPECT_EQ(arena_->device_bytes(), 0u);
  EXPECT_EQ(arena_->TakeAt(0, 512, stream), Outcome::kServed);
}

TEST_F(ArenaTest, WhatCannotBeOrderedStaysAsItWas) {
  Make(kChunk);
  const CUstream a = NewStream(), b = NewStream();
  ASSERT_EQ(arena_->TakeAt(0, 1024, a), Outcome::kServed);
  arena_->Give(0, 1024, a);
  for (const char* fault :
       {"cuEventCreate:1=2", "cuEventRecord:1=400", "cuStreamWaitEvent:1=400"}) {
    SetFaults(fault);
    EXPECT_EQ(arena_->TakeAt(0, 512, b), Outcome::kNotOrdered) << fault;
    EXPECT_TRUE(arena_->IsFree(0, kChunk));
  }
  SetFaults("");
  const uint64_t waits = simcuda_call_count("cuStreamWaitEvent");
  EXPECT_EQ(arena_->TakeAt(0, 512, b), Outcome::kServed);  // still a's
  EXPECT_EQ(simcuda_call_count("cuStreamWaitEvent"), waits + 1);
  EXPECT_EQ(arena_->TakeAt(512, 512, a), Outcome::kServed);
  EXPECT_EQ(simcuda_call_count("cuStreamWaitEvent"), waits + 1);
}

TEST_F(ArenaTest, AClaimKeepsEverybodyOff) {
  Make(kChunk);
  const CUstream a = NewStream(), b = NewStream();
  ASSERT_EQ(arena_->TakeAt(0, 512, a), Outcome::kServed);
  arena_->Give(0, 512, a);
  const std::vector<Piece> claimed = arena_->Claim(0, kChunk);
  ASSERT_EQ(claimed.size(), 2u);
  EXPECT_EQ(arena_->TakeAt(0, 512, a), Outcome::kOccupied);
  EXPECT_TRUE(arena_->Claim(0, 512).empty());
  arena_->Unclaim(claimed);
  const uint64_t waits = simcuda_call_count("cuStreamWaitEvent");
  EXPECT_EQ(arena_->TakeAt(0, 512, b), Outcome::kServed);
  EXPECT_EQ(simcuda_call_count("cuStreamWaitEvent"), waits + 1);
}

TEST_F(ArenaTest, MemoryForAnyStreamIsIdleWhenItIsHandedOut) {
  Make(kChunk);
  const CUstream a = NewStream();
  ASSERT_EQ(arena_->TakeAt(0, 16 * kMiB, a), Outcome::kServed);
  ASSERT_EQ(cuMemsetD8Async(arena_->base(), 1, 16 * kMiB, a), CUDA_SUCCESS);
  arena_->Give(0, 16 * kMiB, a);
  ASSERT_EQ(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(arena_->TakeIdleAt(0, 512), Outcome::kServed);
  EXPECT_EQ(cuStreamQuery(a), CUDA_SUCCESS);
}

TEST_F(ArenaTest, AfterADrainNobodyWaits) {
  Make(kChunk);
  const CUstream a = NewStream(), b = NewStream();
  ASSERT_EQ(arena_->TakeAt(0, 512, a), Outcome::kServed);
  arena_->Give(0, 512, a);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  arena_->SetAllIdle();
  const uint64_t waits = simcuda_call_count("cuStreamWaitEvent");
  EXPECT_EQ(arena_->TakeAt(0, 512, b), Outcome::kServed);
  arena_->GiveIdle(0, 512);
  EXPECT_EQ(arena_->TakeAt(0, 512, a), Outcome::kServed);
  EXPECT_EQ(simcuda_call_count("cuStreamWaitEvent"), waits);
}

// One thread's blocks: each is filled with its own number by work of its stream and copied to
// the host by work of the stream that it is freed on. Nothing waits on the host in between, so
// bytes that another block wrote too early show.
class Workload {
 public:
  Workload(Arena& arena, uint32_t seed, std::vector<CUstream> streams)
      : arena_(arena), streams_(std::move(streams)), random_(seed), next_number_(seed << 24) {
    void* host = nullptr;
    EXPECT_EQ(cuMemAllocHost(&host, kCopies * kLargest), CUDA_SUCCESS);
    host_ = static_cast<unsigned char*>(host);
    EXPECT_EQ(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  }

  // Returns how many blocks were not what they should be.
  int Run(int operations) {
    for (int i = 0; i < operations; ++i) {
      if (live_.empty() || Random(2) == 0) {
        Allocate();
      } else {
        Free(Random(live_.size()));
      }
    }
    while (!live_.empty()) Free(live_.size() - 1);
    Check();
    return spoiled_;
  }

 private:
  static constexpr size_t kCopies = 256;
  static constexpr uint64_t kLargest = 16 * kKiB;
  struct Block {
    uint64_t offset, bytes;
    CUstream stream;
    uint32_t number;
  };
  struct Copy {
    uint64_t bytes;
    uint32_t number;
  };

  size_t Random(size_t below) { return random_() % below; }

  void Allocate() {
    Block block{0, 4 * (1 + Random(kLargest / 4)), streams_[Random(streams_.size())],
                next_number_++};
    Outcome outcome;
    if (Random(4) == 0) {
      block.offset = 512 * Random(arena_.size() / 512);
      outcome = arena_.TakeAt(block.offset, block.bytes, block.stream);
    } else {
      outcome = arena_.Take(block.bytes, block.stream, &block.offset);
    }
    if (outcome != Outcome::kServed) {
      EXPECT_EQ(outcome, Outcome::kOccupied);
      return;
    }
    EXPECT_EQ(
        cuMemsetD32Async(arena_.base() + block.offset, block.number, block.bytes / 4, block.stream),
        CUDA_SUCCESS);
    live_.push_back(block);
  }

  void Free(size_t at) {
    Block block = live_[at];
    live_.erase(live_.begin() + at);
    if (Random(4) == 0) {  // the program itself hands it on to another stream
      const CUstream other = streams_[Random(streams_.size())];
      EXPECT_EQ(cuEventRecord(event_, block.stream), CUDA_SUCCESS);
      EXPECT_EQ(cuStreamWaitEvent(other, event_, 0), CUDA_SUCCESS);
      block.stream = other;
    }
    EXPECT_EQ(cuMemcpyDtoHAsync(host_ + copies_.size() * kLargest, arena_.base() + block.offset,
                                block.bytes, block.stream),
              CUDA_SUCCESS);
    arena_.Give(block.offset, block.bytes, block.stream);
    copies_.push_back({block.bytes, block.number});
    if (copies_.size() == kCopies) Check();
  }

  void Check() {
    for (CUstream stream : streams_) EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    for (size_t i = 0; i < copies_.size(); ++i) {
      const auto* words = reinterpret_cast<const uint32_t*>(host_ + i * kLargest);
      const auto is_number = [&](uint32_t word) { return word == copies_[i].number; };
      spoiled_ += !std::all_of(words, words + copies_[i].bytes / 4, is_number);
    }
    copies_.clear();
  }

  Arena& arena_;
  const std::vector<CUstream> streams_;
  std::mt19937 random_;
  uint32_t next_number_;
  unsigned char* host_ = nullptr;
  CUevent event_ = nullptr;
  std::vector<Block> live_;
  std::vector<Copy> copies_;
  int spoiled_ = 0;
};

TEST_F(ArenaTest, NoBlockIsEverSpoiledByAnother) {
  Make(2 * kMiB);
  Workload work(*arena_, 1, {NewStream(), NewStream(), NewStream(), CU_STREAM_PER_THREAD, nullptr});
  EXPECT_EQ(work.Run(test::StormOf(100'000)), 0);
  EXPECT_EQ(arena_->live_bytes(), 0u);
}

TEST_F(ArenaTest, WithoutOrderBlocksWouldBeSpoiled) {
  // The workload must be able to tell: the same with waits that do not happen.
  DriverApi careless = test::SimulatedDriver();
  careless.fn_cuStreamWaitEvent = [](CUstream, CUevent, unsigned) { return CUDA_SUCCESS; };
  Make(2 * kMiB, careless);
  Workload work(*arena_, 1, {NewStream(), NewStream(), NewStream()});
  EXPECT_GT(work.Run(5'000), 0);
}

TEST_F(ArenaTest, ThreadsDoNotSpoilEachOthersBlocks) {
  Make(2 * kMiB);
  std::vector<std::thread> threads;
  for (uint32_t seed = 1; seed <= 4; ++seed)
    threads.emplace_back([this, seed] {
      ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
      Workload work(*arena_, seed, {NewStream(), NewStream(), CU_STREAM_PER_THREAD});
      EXPECT_EQ(work.Run(test::StormOf(25'000)), 0);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena_->live_bytes(), 0u);
}

TEST_F(ArenaTest, StreamsThatComeAndGoKeepTheOrder) {
  Make(2 * kMiB);
  int spoiled = 0;
  for (uint32_t turn = 1; turn <= 50; ++turn) {
    const std::vector<CUstream> streams = {NewStream(), NewStream()};
    spoiled += Workload(*arena_, turn, streams).Run(100);
    for (CUstream stream : streams) {
      uint64_t offset = 0;
      ASSERT_EQ(arena_->Take(256 * kKiB, stream, &offset), Outcome::kServed);
      ASSERT_EQ(cuMemsetD8Async(arena_->base() + offset, 0xee, 256 * kKiB, stream), CUDA_SUCCESS);
      arena_->Give(offset, 256 * kKiB, stream);
      ledger_->StreamDestroyed(stream);
      ASSERT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
    }
  }
  EXPECT_EQ(spoiled, 0);
}

}  // namespace
}  // namespace ebt::memory
