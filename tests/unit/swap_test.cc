#include "src/tier/swap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/swap_fixture.h"

namespace ebt::tier {
namespace {

using ::testing::HasSubstr;

class SwapTest : public SwapFixture {
 protected:
  // Two slabs share one place, a warm block lies there in between: one step.
  void Step() {
    for (size_t slab : {0, 1}) {
      engine_->Fetch(slab, stream_);
      DoubleSlab(slab, stream_);
      engine_->Evict(slab, stream_);
    }
    UseWarm(0, stream_);
  }
};

TEST_F(SwapTest, IsInPlaceOnTheHostFromTheStart) {
  const uint64_t before = DeviceBytes();
  MakeEngine({0, 0});
  EXPECT_EQ(engine_->size(), 2 * kSlab);
  FillSlab(1, 3.0F, stream_);
  EXPECT_EQ(Read(1, stream_), All(3.0F));
  EXPECT_EQ(DeviceBytes(), before);
  EXPECT_EQ(engine_->Counters().in_place_slabs, 2u);
  EXPECT_EQ(engine_->Counters().off_plan, 0u);
}

TEST_F(SwapTest, ASteadyStepMapsNothingAndWaitsForNothingOnTheHost) {
  MakeEngine({0, 0});
  FillSlab(0, 1.0F, stream_);
  FillSlab(1, 3.0F, stream_);
  const uint64_t before = DeviceBytes();
  Step();
  const uint64_t mapped = MappingCalls(), waited = HostWaits();
  for (int step = 1; step < 5; ++step) Step();
  EXPECT_EQ(MappingCalls(), mapped);
  EXPECT_EQ(HostWaits(), waited);
  // Two slabs and a warm block in the memory of one.
  EXPECT_EQ(DeviceBytes() - before, kSlab);
  SwapCounters counters = engine_->Counters();
  EXPECT_EQ(counters.fetches, 10u);
  EXPECT_EQ(counters.hits, 10u);
  EXPECT_EQ(counters.bytes_in, 10 * kSlab);
  EXPECT_EQ(counters.bytes_out, 10 * kSlab);
  EXPECT_EQ(counters.missed_room + counters.missed_busy + counters.off_plan, 0u);
  EXPECT_EQ(counters.waits_arrival, 10u);
  EXPECT_EQ(counters.waits_departure, 5u);  // of the warm block, once a step
  EXPECT_EQ(counters.peak_device_bytes, kSlab);
  EXPECT_EQ(counters.device_bytes, 0u);
  // Doubled five times.
  EXPECT_EQ(Read(0, stream_), All(32.0F));
  EXPECT_EQ(Read(1, stream_), All(96.0F));
  EXPECT_EQ(engine_->Counters().off_plan, 2u);
}

TEST_F(SwapTest, ATouchDuringTheStayRunsOnTheDevice) {
  MakeEngine({0});
  FillSlab(0, 1.0F, stream_);
  engine_->Fetch(0, stream_);
  DoubleSlab(0, stream_);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  float value = 0;
  ASSERT_EQ(cuMemcpyDtoH(&value, arena_->base(), sizeof value), CUDA_SUCCESS);
  EXPECT_EQ(value, 2.0F);
  EXPECT_EQ(engine_->Counters().device_bytes, kSlab);
}

TEST_F(SwapTest, TheSecondTouchOfAStreamCallsNoDriver) {
  MakeEngine({0});
  engine_->Fetch(0, stream_);
  engine_->Touch(0, kSlab, stream_, false);
  engine_->Touched(0, kSlab, stream_, false);
  const uint64_t waits = simcuda_call_count("cuStreamWaitEvent*");
  const uint64_t modes = simcuda_call_count("cuThreadExchangeStreamCaptureMode");
  engine_->Touch(0, kSlab, stream_, false);
  engine_->Touched(0, kSlab, stream_, false);
  EXPECT_EQ(simcuda_call_count("cuStreamWaitEvent*"), waits);
  EXPECT_EQ(simcuda_call_count("cuThreadExchangeStreamCaptureMode"), modes);
}

TEST_F(SwapTest, ATouchOutsideTheStayFindsTheBytesInPlaceAndTheNextFetchEndsThat) {
  MakeEngine({0, 0});
  FillSlab(0, 1.0F, stream_);
  Step();
  DoubleSlab(0, stream_);  // in place
  EXPECT_EQ(engine_->Counters().off_plan, 1u);
  EXPECT_EQ(engine_->Counters().in_place_slabs, 1u);
  Step();
  EXPECT_EQ(engine_->Counters().in_place_slabs, 0u);
  EXPECT_EQ(engine_->Counters().fetches, 4u);
  EXPECT_EQ(Read(0, stream_), All(8.0F));
}

TEST_F(SwapTest, EveryStreamWaitsForTheArrivalAndTheCopyOutForEveryStream) {
  MakeEngine({0, 0});
  FillSlab(0, 1.0F, stream_);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  const CUstream other = NewStream();
  for (int step = 0; step < 3; ++step) {
    engine_->Fetch(0, stream_);
    engine_->Touch(0, kSlab, stream_, false);
    Scale(Address(0), 1.0F, kFloats / 2, stream_);
    engine_->Touched(0, kSlab, stream_, false);
    engine_->Touch(0, kSlab, other, false);
    Scale(Address(0) + kSlab / 2, 1.0F, kFloats / 2, other);
    engine_->Touched(0, kSlab, other, false);
    engine_->Evict(0, stream_);
    UseWarm(0, other);
  }
  EXPECT_EQ(engine_->Counters().waits_arrival, 6u);
  EXPECT_EQ(engine_->Counters().hits, 3u);
  EXPECT_EQ(Read(0, stream_), All(8.0F));
}

TEST_F(SwapTest, AFetchThatFindsNoRoomLeavesTheSlabInPlace) {
  MakeEngine({0});
  FillSlab(0, 1.0F, stream_);
  ASSERT_EQ(arena_->TakeAt(kSlab / 2, 512, stream_), memory::Arena::Outcome::kServed);
  engine_->Fetch(0, stream_);
  DoubleSlab(0, stream_);
  engine_->Evict(0, stream_);
  EXPECT_EQ(engine_->Counters().missed_room, 1u);
  EXPECT_EQ(engine_->Counters().fetches, 0u);
  EXPECT_EQ(Read(0, stream_), All(2.0F));
  arena_->Give(kSlab / 2, 512, stream_);
  engine_->Fetch(0, stream_);
  EXPECT_EQ(engine_->Counters().fetches, 1u);
}

TEST_F(SwapTest, ATouchInFlightDelaysTheEvict) {
  MakeEngine({0});
  FillSlab(0, 1.0F, stream_);
  engine_->Fetch(0, stream_);
  engine_->Touch(0, kSlab, stream_, false);
  engine_->Evict(0, stream_);
  EXPECT_FALSE(engine_->MakeRoom(0, kSlab));
  Scale(Address(0), 1.0F, kFloats, stream_);
  engine_->Touched(0, kSlab, stream_, false);
  EXPECT_TRUE(engine_->MakeRoom(0, kSlab));
  EXPECT_TRUE(arena_->IsFree(0, kSlab));
  UseWarm(0, stream_);
  EXPECT_EQ(Read(0, stream_), All(2.0F));
}

TEST_F(SwapTest, ASlabThatNobodyTouchedComesBackAsItWas) {
  MakeEngine({0});
  FillSlab(0, 5.0F, stream_);
  for (int step = 0; step < 2; ++step) {
    engine_->Fetch(0, stream_);
    engine_->Evict(0, stream_);
    UseWarm(0, stream_);
  }
  EXPECT_EQ(engine_->Counters().hits, 0u);
  EXPECT_EQ(Read(0, stream_), All(5.0F));
}

TEST_F(SwapTest, ACapturedTouchPinsTheSlabInPlace) {
  MakeEngine({0, kSlab});
  FillSlab(0, 1.0F, stream_);
  engine_->Fetch(0, stream_);
  DoubleSlab(0, stream_);
  engine_->Touch(0, kSlab, stream_, true);
  engine_->Touched(0, kSlab, stream_, true);
  EXPECT_TRUE(arena_->IsFree(0, kSlab));
  UseWarm(0, stream_);
  engine_->Fetch(0, stream_);
  EXPECT_EQ(engine_->Counters().fetches, 1u);
  EXPECT_EQ(engine_->Counters().off_plan, 0u);
  EXPECT_EQ(engine_->Counters().in_place_slabs, 2u);
  EXPECT_EQ(Read(0, stream_), All(2.0F));
}

TEST_F(SwapTest, ASlabWhoseStreamIsBeingCapturedIsHeldOnTheDevice) {
  MakeEngine({0});
  FillSlab(0, 1.0F, stream_);
  engine_->Fetch(0, stream_);
  DoubleSlab(0, stream_);
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  engine_->Touch(0, kSlab, stream_, true);
  Scale(Address(0), 1.0F, kFloats, stream_);
  engine_->Touched(0, kSlab, stream_, true);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  engine_->Evict(0, stream_);
  EXPECT_FALSE(arena_->IsFree(0, kSlab));
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(Read(0, stream_), All(4.0F));
}

TEST_F(SwapTest, WorkOnAPerThreadStreamPinsTheSlab) {
  MakeEngine({0});
  FillSlab(0, 1.0F, stream_);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  engine_->Fetch(0, stream_);
  engine_->Touch(0, 4, CU_STREAM_PER_THREAD, false);
  engine_->Touched(0, 4, CU_STREAM_PER_THREAD, false);
  engine_->Fetch(0, stream_);
  EXPECT_EQ(engine_->Counters().in_place_slabs, 1u);
  EXPECT_EQ(Read(0, stream_), All(1.0F));
}

TEST_F(SwapTest, AStreamMayEndDuringTheStay) {
  MakeEngine({0, 0});
  FillSlab(0, 1.0F, stream_);
  for (int step = 0; step < 2; ++step) {
    const CUstream passing = NewStream();
    engine_->Fetch(0, stream_);
    DoubleSlab(0, passing);
    ledger_->StreamDestroyed(passing);
    ASSERT_EQ(cuStreamDestroy(passing), CUDA_SUCCESS);
    engine_->Evict(0, stream_);
    UseWarm(0, stream_);
  }
  EXPECT_EQ(engine_->Counters().hits, 2u);
  EXPECT_EQ(Read(0, stream_), All(4.0F));
}

TEST_F(SwapTest, AnArenaThatGaveItsMemoryBackIsFollowed) {
  MakeEngine({0});
  FillSlab(0, 1.0F, stream_);
  engine_->Fetch(0, stream_);
  DoubleSlab(0, stream_);
  engine_->Evict(0, stream_);
  ASSERT_TRUE(engine_->MakeRoom(0, kSlab));
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  ASSERT_EQ(range_->ReleaseChunks([](uint64_t, uint64_t) { return true; }), kSlab);
  UseWarm(0, stream_);
  engine_->Fetch(0, stream_);
  DoubleSlab(0, stream_);
  engine_->Evict(0, stream_);
  UseWarm(0, stream_);
  EXPECT_EQ(engine_->Counters().fetches, 2u);
  EXPECT_EQ(Read(0, stream_), All(4.0F));
  EXPECT_TRUE(engine_->Backs(0));
  EXPECT_FALSE(engine_->Backs(kSlab));
}

TEST_F(SwapTest, ASlabStillInUseInPlaceIsNotFetchedAndAtLastPinned) {
  MakeEngine({0});
  CUdeviceptr word = 0;
  ASSERT_EQ(cuMemAlloc(&word, 512), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32(word, 0, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitValue32(stream_, word, 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  FillSlab(0, 7.0F, stream_);
  const CUstream other = NewStream();
  for (int step = 0; step < 4; ++step) engine_->Fetch(0, other);
  EXPECT_EQ(engine_->Counters().missed_busy, 3u);
  ASSERT_EQ(cuStreamWriteValue32(other, word, 1, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  engine_->Fetch(0, other);
  EXPECT_EQ(engine_->Counters().fetches, 0u);
  EXPECT_EQ(Read(0, stream_), All(7.0F));
}

TEST_F(SwapTest, ATouchOfSeveralSlabsTreatsEachAsItIs) {
  MakeEngine({0, kSlab, 2 * kSlab});
  for (size_t slab : {0, 1, 2}) FillSlab(slab, 1.0F, stream_);
  engine_->Fetch(0, stream_);
  engine_->Fetch(1, stream_);
  engine_->Evict(1, stream_);
  engine_->Touch(0, 3 * kSlab, stream_, false);  // staying, left, in place
  Scale(Address(0), 1.0F, 3 * kFloats, stream_);
  engine_->Touched(0, 3 * kSlab, stream_, false);
  EXPECT_EQ(engine_->Counters().off_plan, 1u);
  EXPECT_EQ(engine_->Counters().in_place_slabs, 2u);
  for (size_t slab : {0, 1, 2}) EXPECT_EQ(Read(slab, stream_), All(2.0F));
}

TEST_F(SwapTest, ARangeBeyondTheEndIsClippedAndAnEmptyOneIsNothing) {
  MakeEngine({0});
  for (auto [offset, bytes] : {std::pair<uint64_t, uint64_t>{0, 0}, {kSlab, 4}, {4, UINT64_MAX}}) {
    engine_->Touch(offset, bytes, stream_, false);
    engine_->Touched(offset, bytes, stream_, false);
  }
  engine_->Pin(kSlab, 1);
  engine_->Fetch(0, stream_);
  EXPECT_EQ(engine_->Counters().fetches, 1u);
}

TEST_F(SwapTest, ThreadsMayTouchFetchEvictAndAskForRoomAtOnce) {
  MakeEngine({0, 0, kSlab, kSlab});
  for (size_t slab : {0, 1, 2, 3}) FillSlab(slab, 1.0F, stream_);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  constexpr int kRounds = test::StormOf(100);
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (size_t first : {0, 2}) {
    threads.emplace_back([this, first] {
      ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
      const CUstream stream = NewStream();
      for (int round = 0; round < kRounds; ++round) {
        const size_t slab = first + round % 2;
        engine_->Fetch(slab, stream);
        DoubleSlab(slab, stream);
        engine_->Touch(slab * kSlab, kSlab, stream, false);
        Scale(Address(slab), -0.5F, kFloats, stream);
        engine_->Touched(slab * kSlab, kSlab, stream, false);
        engine_->Evict(slab, stream);
      }
      ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    });
  }
  threads.emplace_back([this, &over] {
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    const CUstream stream = NewStream();
    while (!over) {
      if (arena_->TakeAt(0, 2 * kSlab, stream) == memory::Arena::Outcome::kServed) {
        Fill(arena_->base(), -1.0F, 2 * kFloats, stream);
        arena_->Give(0, 2 * kSlab, stream);
      } else {
        engine_->MakeRoom(0, 2 * kSlab);
      }
      RightOfWay& out = engine_->application(Mover::Direction::kOut);
      out.End(out.Begin(stream), stream, false);
      engine_->Counters();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  });
  threads[0].join();
  threads[1].join();
  over = true;
  threads[2].join();
  // Doubled and halved again as often.
  for (size_t slab : {0, 1, 2, 3}) EXPECT_EQ(Read(slab, stream_), All(1.0F));
}

TEST_F(SwapTest, EndsWithCopiesPendingAndGivesThePlacesBack) {
  MakeEngine({0, kSlab});
  const uint64_t live = arena_->live_bytes();
  engine_->Fetch(0, stream_);
  engine_->Fetch(1, stream_);
  engine_->Evict(1, stream_);
  engine_.reset();
  EXPECT_EQ(arena_->live_bytes(), live);
}

TEST_F(SwapTest, WhatCannotBeAStayIsRefusedInWords) {
  const auto create = [this](uint64_t slab, std::vector<uint64_t> stays) {
    return SwapEngine::Create(driver_, *arena_, *range_, *ledger_,
                              {slab, std::move(stays), &ThreadGuard})
        .status();
  };
  EXPECT_THAT(create(2 * kMiB, {0}).message(), HasSubstr("4.00 MiB a handle"));
  EXPECT_THAT(create(kSlab, {kSlab + 512}).message(), HasSubstr("cannot stay"));
  EXPECT_THAT(create(kSlab, {4 * kSlab}).message(), HasSubstr("cannot stay"));
  EXPECT_FALSE(create(kSlab, {}).ok());
}

TEST_F(SwapTest, ADeviceWithoutHostHandlesIsRefusedInWords) {
  DriverApi driver = driver_;
  driver.fn_cuDeviceGetAttribute = [](int* value, CUdevice_attribute, CUdevice) {
    *value = -1;
    return CUDA_SUCCESS;
  };
  memory::PagePool pool(driver, 0, 0);
  auto range = memory::MappedRange::Reserve(pool, kSlab, kSlab).value();
  const auto engine =
      SwapEngine::Create(driver, *arena_, *range, *ledger_, {kSlab, {0}, &ThreadGuard});
  EXPECT_THAT(engine.status().message(), HasSubstr("host memory"));
}

TEST_F(SwapTest, ARefusalAtAnyCallOfTheStartIsAnErrorAndLeavesNothingBehind) {
  for (const char* symbol : {"cuMemGetAllocationGranularity", "cuMemAddressReserve", "cuMemCreate",
                             "cuMemMap", "cuStreamCreateWithPriority", "cuEventCreate",
                             "cuCtxSetCurrent", "cuDeviceGetAttribute", "cuCtxGetCurrent"}) {
    for (int call : {1, 2, 3, 4}) {
      SetFaults((std::string(symbol) + ":" + std::to_string(call) + "=2").c_str());
      const uint64_t made = simcuda_call_count("cuMemCreate");
      const uint64_t released = simcuda_call_count("cuMemRelease");
      const uint64_t maps = simcuda_call_count("cuMemMap");
      const uint64_t unmaps = simcuda_call_count("cuMemUnmap");
      auto engine =
          SwapEngine::Create(driver_, *arena_, *range_, *ledger_, {kSlab, {0, 0}, &ThreadGuard});
      if (engine.ok()) engine->reset();
      SetFaults("");
      const bool create = std::string(symbol) == "cuMemCreate";
      const bool map = std::string(symbol) == "cuMemMap";
      const uint64_t refused = engine.ok() ? 0 : 1;
      EXPECT_EQ(simcuda_call_count("cuMemCreate") - made - (create ? refused : 0),
                simcuda_call_count("cuMemRelease") - released)
          << symbol << call;
      EXPECT_EQ(simcuda_call_count("cuMemMap") - maps - (map ? refused : 0),
                simcuda_call_count("cuMemUnmap") - unmaps)
          << symbol << call;
    }
  }
}

}  // namespace
}  // namespace ebt::tier
