// Whatever the driver refuses, the bytes are right.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/swap_fixture.h"

namespace ebt::tier {
namespace {

class SwapFaultsTest : public SwapFixture, public ::testing::WithParamInterface<const char*> {
 protected:
  // As UseWarm, but the place may be held by a slab that could not leave.
  void TryWarm(uint64_t offset, CUstream stream) {
    auto outcome = arena_->TakeAt(offset, kSlab, stream);
    if (outcome == memory::Arena::Outcome::kOccupied && engine_->MakeRoom(offset, kSlab))
      outcome = arena_->TakeAt(offset, kSlab, stream);
    if (outcome != memory::Arena::Outcome::kServed) return;
    Fill(arena_->base() + offset, -1.0F, kFloats, stream);
    arena_->Give(offset, kSlab, stream);
  }
  void Step() {
    for (size_t slab : {0, 1}) {
      engine_->Fetch(slab, stream_);
      DoubleSlab(slab, stream_);
      engine_->Evict(slab, stream_);
      TryWarm(0, stream_);
    }
    DoubleSlab(0, stream_);  // off plan
  }
};

TEST_P(SwapFaultsTest, ARefusalCostsTimeAndNoByte) {
  const std::string symbol = GetParam();
  // The calls of two steps, one refused at a time.
  for (int call = 1; call <= 24; ++call) {
    MakeEngine({0, 0});
    FillSlab(0, 1.0F, stream_);
    FillSlab(1, 3.0F, stream_);
    ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    SetFaults((symbol + ":" + std::to_string(call) + "=2").c_str());
    Step();
    Step();
    SetFaults("");
    Step();
    // 0 is doubled twice a step, 1 once.
    EXPECT_EQ(Read(0, stream_), All(64.0F)) << symbol << " call " << call;
    EXPECT_EQ(Read(1, stream_), All(24.0F)) << symbol << " call " << call;
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS) << symbol << " call " << call;
    engine_.reset();
    EXPECT_TRUE(arena_->IsFree(0, 4 * kSlab)) << symbol << " call " << call;
  }
}

INSTANTIATE_TEST_SUITE_P(EachCall, SwapFaultsTest,
                         ::testing::Values("cuMemcpyAsync", "cuEventRecord", "cuStreamWaitEvent",
                                           "cuEventCreate", "cuEventQuery", "cuEventSynchronize",
                                           "cuEventElapsedTime", "cuMemMap", "cuMemUnmap",
                                           "cuMemSetAccess", "cuMemCreate", "cuStreamIsCapturing"));

TEST_F(SwapFixture, CopiesThatAreAlwaysRefusedLeaveTheSlabInPlace) {
  MakeEngine({0});
  FillSlab(0, 1.0F, stream_);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  SetFaults("cuMemcpyAsync:1+=999");
  for (int step = 0; step < 3; ++step) {
    engine_->Fetch(0, stream_);
    DoubleSlab(0, stream_);
    engine_->Evict(0, stream_);
  }
  EXPECT_TRUE(arena_->IsFree(0, kSlab));
  SetFaults("");
  EXPECT_EQ(Read(0, stream_), All(8.0F));
}

TEST_F(SwapFixture, ACopyOutThatIsAlwaysRefusedKeepsTheSlabOnTheDevice) {
  MakeEngine({0});
  FillSlab(0, 1.0F, stream_);
  engine_->Fetch(0, stream_);
  DoubleSlab(0, stream_);
  SetFaults("cuMemcpyAsync:1+=999");
  engine_->Evict(0, stream_);
  EXPECT_FALSE(engine_->MakeRoom(0, kSlab));
  EXPECT_FALSE(arena_->IsFree(0, kSlab));
  DoubleSlab(0, stream_);
  SetFaults("");
  EXPECT_EQ(Read(0, stream_), All(4.0F));
  engine_->Evict(0, stream_);
  EXPECT_TRUE(engine_->MakeRoom(0, kSlab));
  EXPECT_EQ(Read(0, stream_), All(4.0F));
}

TEST_F(SwapFixture, HostPagesThatCannotBeMappedInPlaceMakeTheSlabComeToTheDevice) {
  MakeEngine({0});
  FillSlab(0, 1.0F, stream_);
  engine_->Fetch(0, stream_);
  DoubleSlab(0, stream_);
  engine_->Evict(0, stream_);
  SetFaults("cuMemUnmap:1+=999");
  EXPECT_EQ(Read(0, stream_), All(2.0F));
  EXPECT_EQ(engine_->Counters().device_bytes, kSlab);
}

TEST_F(SwapFixture, ACopyOutThatCannotBeWaitedForIsStillSeenDoneBeforeAUseInPlace) {
  for (const char* fault :
       {"cuEventSynchronize:1+=999", "cuEventSynchronize:1+=999,cuEventQuery:1+=999"}) {
    MakeEngine({0});
    FillSlab(0, 1.0F, stream_);
    engine_->Fetch(0, stream_);
    DoubleSlab(0, stream_);
    engine_->Evict(0, stream_);
    SetFaults(fault);
    DoubleSlab(0, NewStream());
    SetFaults("");
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(Read(0, stream_), All(4.0F)) << fault;
    engine_.reset();
  }
}

TEST_F(SwapFixture, ARefusedExchangeLeavesTheProgramsCaptureMode) {
  MakeEngine({0});
  FillSlab(0, 1.0F, stream_);
  for (int call : {1, 2}) {
    SetFaults(("cuThreadExchangeStreamCaptureMode:" + std::to_string(call) + "=2").c_str());
    engine_->RenewAccess();
    SetFaults("");
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL) << "call " << call;
  }
}

}  // namespace
}  // namespace ebt::tier
