// The replayer with a plan whose cold blocks are swapped: what it keeps to and what it tells.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "tests/unit/swapped_program.h"

namespace ebt::replay {
namespace {

using ::testing::HasSubstr;

class ReplayerSwapTest : public SwappedProgram {
 protected:
  static plan::Clearance ClearanceHere(std::vector<uint64_t> sites) {
    plan::Clearance clearance;
    clearance.sites = std::move(sites);
    clearance.gpu = "NVIDIA H200 (simulated)";
    EXPECT_EQ(cuDriverGetVersion(&clearance.driver_version), CUDA_SUCCESS);
    clearance.ebbtide = EBBTIDE_VERSION;
    return clearance;
  }
  static int Lines(const std::string& said) {
    return static_cast<int>(std::count(said.begin(), said.end(), '\n'));
  }
  // Starts the run; what it said to people.
  std::string SaidBy(const ReplayOptions& options, const plan::Plan& plan) {
    ::testing::internal::CaptureStderr();
    Start(options, plan);
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(ReplayerSwapTest, StepsRunOnPlan) {
  StartSwapped();
  Steps(20);
  const report::RunLog log = End();
  // Two slabs a step, each fetched once and touched there.
  EXPECT_EQ(log.Number("fetches"), 40);
  EXPECT_EQ(log.Number("hits"), 40);
  EXPECT_EQ(log.Number("bytes_in"), 40.0 * kSlab);
  EXPECT_EQ(log.Number("bytes_out"), 40.0 * kSlab);
  EXPECT_EQ(log.Number("off_plan"), 0);
  EXPECT_EQ(log.Number("missed_room") + log.Number("missed_busy"), 0);
  EXPECT_EQ(log.Number("steps"), 20);
  // Three blocks of the set-up, an activation a step.
  EXPECT_EQ(log.Number("planned"), 23);
  EXPECT_EQ(log.Number("dynamic") + log.Number("native"), 0);
  ExpectState(20);
}

TEST_F(ReplayerSwapTest, TheStateNeedsNoDeviceMemoryOfItsOwn) {
  const uint64_t before = DeviceBytes();
  StartSwapped();
  Steps(3);
  EXPECT_EQ(DeviceBytes() - before, kOnDevice);
  EXPECT_EQ(replayer_->Statistics().device_bytes_peak, kOnDevice);
  EXPECT_EQ(replayer_->Statistics().cold_bytes, 2 * kSlab);
  ExpectState(3);
}

TEST_F(ReplayerSwapTest, FreeAndUsedNeverExceedWhatWasFree) {
  size_t before = 0, total = 0;
  ASSERT_EQ(cuMemGetInfo(&before, &total), CUDA_SUCCESS);
  StartSwapped();
  for (int step = 0; step < 3; ++step) {
    Step();
    EXPECT_EQ(PoolValue(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 3 * kSlab);
    EXPECT_LE(MemInfo().free + 3 * kSlab, before);
  }
}

TEST_F(ReplayerSwapTest, AServedAllocationAsksTheDriverForNothing) {
  StartSwapped();
  Steps(2);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  const CUdeviceptr warmed = Allocated(512);
  const uint64_t modes = simcuda_call_count("cuThreadExchangeStreamCaptureMode");
  const CUdeviceptr block = Allocated(512);
  EXPECT_EQ(simcuda_call_count("cuThreadExchangeStreamCaptureMode"), modes);
  EXPECT_EQ(FreeAsync(block, stream_), CUDA_SUCCESS);
  EXPECT_EQ(FreeAsync(warmed, stream_), CUDA_SUCCESS);
}

TEST_F(ReplayerSwapTest, ABlockInPlaceLooksLikeDeviceMemory) {
  StartSwapped();
  const CUpointer_attribute names[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  // What a driver could say of host pages.
  uint64_t values[] = {CU_MEMORYTYPE_HOST, static_cast<unsigned>(-2), 1, 4 * kSlab};
  const uint64_t expected[] = {CU_MEMORYTYPE_DEVICE, 0, 0, kSlab};
  for (int i = 0; i < 4; ++i) {
    CUresult result = CUDA_SUCCESS;
    EXPECT_TRUE(replayer_->PointerAttribute(names[i], &values[i], first_ + 4096, &result));
    EXPECT_EQ(result, CUDA_SUCCESS);
    EXPECT_EQ(values[i], expected[i]) << names[i];
  }
}

TEST_F(ReplayerSwapTest, WithColdOffTheStateIsOnTheDevice) {
  const uint64_t before = DeviceBytes();
  Start(Options(Cold::kOff));
  Steps(3);
  EXPECT_EQ(DeviceBytes() - before, kOnDevice + 2 * kSlab);
  const report::RunLog log = End();
  EXPECT_EQ(log.cold_off, 2 * kSlab);
  EXPECT_EQ(log.cold_swap + log.cold_managed, 0u);
  EXPECT_EQ(log.Number("fetches"), 0);
  ExpectState(3);
}

TEST_F(ReplayerSwapTest, WithColdManagedNothingIsSwapped) {
  Start(Options(Cold::kManaged));
  Steps(3);
  const report::RunLog log = End();
  EXPECT_EQ(log.cold_managed, 2 * kSlab);
  EXPECT_EQ(log.cold_swap + log.cold_off, 0u);
  EXPECT_EQ(log.Number("fetches"), 0);
  ExpectState(3);
}

TEST_F(ReplayerSwapTest, OnlyClearedSitesAreSwappedWithColdAuto) {
  plan::Plan plan = ThePlan();
  plan.cleared = {ClearanceHere({kFirstSite})};
  EXPECT_EQ(SaidBy(Options(Cold::kAuto), plan), "");
  Steps(5);
  const report::RunLog log = End();
  EXPECT_EQ(log.cold_swap, kSlab);
  EXPECT_EQ(log.cold_managed, kSlab);
  EXPECT_EQ(log.cold_off, 0u);
  EXPECT_EQ(log.gpu, "NVIDIA H200 (simulated)");
  EXPECT_EQ(log.Number("hits"), 5);
  // Nothing is moved for a slab without a block.
  EXPECT_EQ(log.Number("fetches"), 5);
  EXPECT_EQ(log.Number("bytes_in"), 5.0 * kSlab);
  ExpectState(5);
}

TEST_F(ReplayerSwapTest, WithoutClearancesNothingIsSwappedWithColdAuto) {
  EXPECT_EQ(SaidBy(Options(Cold::kAuto), ThePlan()), "");
  Steps(3);
  const report::RunLog log = End();
  EXPECT_EQ(log.cold_swap, 0u);
  EXPECT_EQ(log.cold_managed, 2 * kSlab);
  ExpectState(3);
}

TEST_F(ReplayerSwapTest, ClearancesForElsewhereCountForNothingAndOneLineSaysSo) {
  plan::Plan plan = ThePlan();
  plan.cleared.resize(3, ClearanceHere({kFirstSite, kSecondSite}));
  plan.cleared[0].gpu = "NVIDIA H100";
  plan.cleared[1].driver_version -= 10;
  plan.cleared[2].ebbtide = "0.0.9";
  const std::string said = SaidBy(Options(Cold::kAuto), plan);
  EXPECT_EQ(Lines(said), 1) << said;
  EXPECT_THAT(said, HasSubstr("on NVIDIA H100, not NVIDIA H200 (simulated)"));
  EXPECT_THAT(said, HasSubstr("nor do 2 more"));
  Steps(3);
  EXPECT_EQ(End().cold_swap, 0u);
  ExpectState(3);
}

TEST_F(ReplayerSwapTest, WithTooLittleHostMemoryForSlabsOneLineSaysSoAndColdBlocksAreManaged) {
  ReplayOptions options = Options(Cold::kSwap);
  // Half slabs: two of them fit where two slabs do not.
  options.host_budget = kSlab;
  const std::string said = SaidBy(options, ThePlan(kSlab / 2));
  EXPECT_EQ(Lines(said), 1) << said;
  EXPECT_THAT(said, HasSubstr("no cold block is swapped"));
  EXPECT_THAT(said, HasSubstr("EBBTIDE_HOST_BUDGET"));
  Steps(3);
  const report::RunLog log = End();
  EXPECT_EQ(log.cold_managed, kSlab);
  EXPECT_EQ(log.cold_swap + log.cold_off, 0u);
  ExpectState(3);
}

TEST_F(ReplayerSwapTest, WithTooLittleHostMemoryForAnyOneLineSaysSoAndColdBlocksStay) {
  ReplayOptions options = Options(Cold::kSwap);
  options.host_budget = kSlab;
  const std::string said = SaidBy(options, ThePlan());
  EXPECT_EQ(Lines(said), 1) << said;
  EXPECT_THAT(said,
              HasSubstr("cold blocks stay on the device: 4.00 MiB of host memory are needed"));
  Steps(3);
  const report::RunLog log = End();
  EXPECT_EQ(log.cold_off, 2 * kSlab);
  EXPECT_EQ(log.cold_swap + log.cold_managed, 0u);
  ExpectState(3);
}

TEST_F(ReplayerSwapTest, ARefusedHandleOfHostMemoryIsOneLineAndColdBlocksAreManaged) {
  SetFaults("cuMemCreate:2");
  const std::string said = SaidBy(Options(Cold::kSwap), ThePlan());
  SetFaults("");
  EXPECT_EQ(Lines(said), 1) << said;
  EXPECT_THAT(said, HasSubstr("no cold block is swapped: slab 1 of 2"));
  EXPECT_THAT(said, HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
  Steps(3);
  EXPECT_EQ(End().cold_managed, 2 * kSlab);
  ExpectState(3);
}

TEST_F(ReplayerSwapTest, AfterTheEndNothingMovesAndTouchesAreServed) {
  StartSwapped();
  Steps(4);
  const report::RunLog log = End();
  const uint64_t in = simcuda_link_bytes_in(0);
  ExpectState(4);
  Steps(3);
  ExpectState(7);
  // Six reads of the first look, six of the second, of four bytes: those go over the link if at
  // all, slabs do not.
  EXPECT_LT(simcuda_link_bytes_in(0) - in, kSlab);
  replayer_->Finish();
  EXPECT_EQ(report::ReadRunLog(folder_ + "/run.log")->Number("hits"), log.Number("hits"));
}

TEST_F(ReplayerSwapTest, ASlabThatLeavesMakesRoomForThePlannedBlock) {
  StartSwapped();
  Step();
  const CUdeviceptr place = Allocated(kActivation);
  ASSERT_EQ(FreeAsync(place, stream_), CUDA_SUCCESS);
  for (int step = 0; step < 5; ++step) {
    // The last launch is missing, so the slabs are on the device when the next step wants their
    // place.
    const CUdeviceptr activation = Allocated(kActivation);
    EXPECT_EQ(activation, place);
    Fill(activation, 2, 2 * kFloats);
    Fill(activation, 3, 2 * kFloats);
    ASSERT_EQ(FreeAsync(activation, stream_), CUDA_SUCCESS);
    UpdateFirst();
    UpdateSecond();
  }
  const report::RunLog log = End();
  EXPECT_EQ(log.Number("dynamic"), 0);
  EXPECT_EQ(log.Number("hits"), 12);
  ExpectState(6);
}

TEST_F(ReplayerSwapTest, ABlockOnASlabIsFreedAndAllocatedAgain) {
  plan::Plan plan = ThePlan();
  // A step hands its second block to the next one, which frees it and allocates another.
  plan.step.push_back(State(kSlab, kOnDevice + kSlab, kSecondSite));
  plan.step.back().launch = 3;
  Start(Options(Cold::kSwap), plan);
  const CUdeviceptr place = second_;
  for (int step = 1; step <= 6; ++step) {
    Forward();
    Add(first_, second_, kFloats);
    ASSERT_EQ(FreeAsync(second_, stream_), CUDA_SUCCESS);
    second_ = Allocated(kSlab);
    EXPECT_EQ(second_, place);
    Fill(second_, static_cast<float>(step), kFloats);
    Close();
  }
  const report::RunLog log = End();
  EXPECT_EQ(log.Number("hits"), 12);
  EXPECT_EQ(log.Number("off_plan"), 0);
  // 20 from the set-up, then 1 to 5.
  EXPECT_EQ(Read(first_), All(kFirst + 20 + 15));
  EXPECT_EQ(Read(second_), All(6));
}

}  // namespace
}  // namespace ebt::replay
