#include "src/tier/trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/units.h"
#include "tests/unit/simulated_device.h"

namespace ebt::tier {
namespace {

constexpr uint64_t kGranule = 2 * kMiB;

class TrialTest : public test::SimulatedDevice {
 protected:
  TrialTest() {
    trial_ =
        Trial::Create(driver_, context_, 0, 4 * kGranule, kGranule, [this](const Fault& fault) {
          faults_.push_back(fault);
        }).value();
    EXPECT_EQ(trial_->Ensure(0, 2 * kGranule), CUDA_SUCCESS);
    stream_ = NewStream();
  }
  ~TrialTest() override {
    // The fixture's own check wants a device that works: one that has faulted is left as it is.
    trial_.reset();
  }

  // Work that writes `bytes` at `offset`, having named only `named`.
  CUresult Write(const std::vector<Extent>& named, uint64_t offset, uint64_t bytes, int value) {
    trial_->Begin(named, "fill", false);
    const CUresult result =
        cuMemsetD8Async(trial_->base() + offset, static_cast<unsigned char>(value), bytes, stream_);
    trial_->Queued();
    return result;
  }
  int ByteAt(uint64_t offset) {
    unsigned char byte = 0;
    trial_->Begin({{offset, 1}}, "copy", false);
    EXPECT_EQ(cuMemcpyDtoH(&byte, trial_->base() + offset, 1), CUDA_SUCCESS);
    trial_->Queued();
    return byte;
  }
  bool Mapped(uint64_t offset) const {
    unsigned long long flags = 0;
    const CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    return cuMemGetAccess(&flags, &location, trial_->base() + offset) == CUDA_SUCCESS;
  }

  const DriverApi& driver_ = test::SimulatedDriver();
  std::vector<Fault> faults_;
  std::unique_ptr<Trial> trial_;
  CUstream stream_ = nullptr;
};

TEST_F(TrialTest, NothingIsMappedUntilItIsNamed) {
  EXPECT_EQ(trial_->size(), 4 * kGranule);
  EXPECT_FALSE(Mapped(0));
  trial_->Begin({{512, 512}}, "fill", false);
  EXPECT_TRUE(Mapped(0));
  EXPECT_FALSE(Mapped(kGranule));
  trial_->Queued();
}

TEST_F(TrialTest, BytesSurviveWhileTheyAreUnmapped) {
  ASSERT_EQ(Write({{0, kMiB}}, 0, kMiB, 0x11), CUDA_SUCCESS);
  ASSERT_EQ(Write({{kGranule, kMiB}}, kGranule, kMiB, 0x22), CUDA_SUCCESS);
  EXPECT_FALSE(Mapped(0));
  EXPECT_EQ(ByteAt(kMiB - 1), 0x11);
  EXPECT_EQ(ByteAt(kGranule), 0x22);
  EXPECT_TRUE(faults_.empty());
}

TEST_F(TrialTest, AnExtentAcrossGranulesMapsBoth) {
  EXPECT_EQ(Write({{kGranule - 512, 1024}}, kGranule - 512, 1024, 0x33), CUDA_SUCCESS);
  EXPECT_EQ(ByteAt(kGranule + 511), 0x33);
}

TEST_F(TrialTest, WhatIsNamedAgainIsNotMappedTwice) {
  ASSERT_EQ(Write({{0, 512}}, 0, 512, 1), CUDA_SUCCESS);
  const uint64_t mapped = simcuda_call_count("cuMemMap");
  ASSERT_EQ(Write({{0, 512}}, 0, 512, 2), CUDA_SUCCESS);
  EXPECT_EQ(simcuda_call_count("cuMemMap"), mapped);
}

TEST_F(TrialTest, MemoryComesFromTheHostWhereTheDriverCan) {
  int supported = 0;
  cuDeviceGetAttribute(&supported,
                       CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
  EXPECT_EQ(trial_->device_bytes(), supported ? 0 : 2 * kGranule);
}

TEST_F(TrialTest, ARefusedHostHandleIsHadFromTheDevice) {
  SetFaults("cuMemCreate:1=801");
  EXPECT_EQ(trial_->Ensure(2 * kGranule, 512), CUDA_SUCCESS);
  EXPECT_EQ(trial_->device_bytes(), kGranule);
}

TEST_F(TrialTest, CapturedWorkIsReportedAndKeepsItsBlockMapped) {
  trial_->Begin({{0, 512}}, "matmul", true);
  trial_->Queued();
  ASSERT_EQ(faults_.size(), 1u);
  EXPECT_EQ(faults_[0].kind, Fault::Kind::kCaptured);
  EXPECT_EQ(faults_[0].work, "matmul");
  ASSERT_EQ(faults_[0].captured.size(), 1u);
  EXPECT_EQ(faults_[0].captured[0].bytes, 512u);
  ASSERT_EQ(Write({{kGranule, 512}}, kGranule, 512, 1), CUDA_SUCCESS);
  EXPECT_TRUE(Mapped(0));
}

TEST_F(TrialTest, NothingIsWaitedForDuringACapture) {
  ASSERT_EQ(Write({{0, 512}}, 0, 512, 1), CUDA_SUCCESS);
  const uint64_t waits = simcuda_call_count("cuCtxSynchronize");
  trial_->Begin({}, "matmul", true);
  trial_->Queued();
  EXPECT_EQ(simcuda_call_count("cuCtxSynchronize"), waits);
  EXPECT_TRUE(Mapped(0));
  EXPECT_TRUE(faults_.empty());
}

TEST_F(TrialTest, AFailedWaitIsReportedOnceWithTheWorkBefore) {
  ASSERT_EQ(Write({}, 0, 0, 0), CUDA_SUCCESS);
  SetFaults("cuCtxSynchronize:1+=700");
  trial_->Begin({}, "next", false);
  trial_->Queued();
  trial_->Begin({}, "later", false);
  trial_->Queued();
  trial_->Check();
  ASSERT_EQ(faults_.size(), 1u);
  EXPECT_EQ(faults_[0].kind, Fault::Kind::kAccess);
  EXPECT_EQ(faults_[0].work, "fill");
  EXPECT_EQ(faults_[0].error, CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(TrialTest, CheckReportsBeforeTheNextWork) {
  ASSERT_EQ(Write({}, 0, 0, 0), CUDA_SUCCESS);
  SetFaults("cuCtxSynchronize:1=719");
  trial_->Check();
  ASSERT_EQ(faults_.size(), 1u);
  EXPECT_EQ(faults_[0].error, CUDA_ERROR_LAUNCH_FAILED);
}

TEST_F(TrialTest, ADriverThatIsGoneIsNoFault) {
  ASSERT_EQ(Write({}, 0, 0, 0), CUDA_SUCCESS);
  SetFaults("cuCtxSynchronize:1=4");
  trial_->Check();
  EXPECT_TRUE(faults_.empty());
}

TEST_F(TrialTest, AfterAFaultEverythingStaysMapped) {
  ASSERT_EQ(Write({}, 0, 0, 0), CUDA_SUCCESS);
  SetFaults("cuCtxSynchronize:1=700");
  trial_->Check();
  SetFaults("");
  EXPECT_TRUE(Mapped(0));
  EXPECT_TRUE(Mapped(kGranule));
  EXPECT_EQ(trial_->Ensure(2 * kGranule, 512), CUDA_SUCCESS);
  EXPECT_TRUE(Mapped(2 * kGranule));
}

TEST_F(TrialTest, ARefusedMappingIsTheTrialsOwnFault) {
  SetFaults("cuMemMap:1=2");
  trial_->Begin({{0, 512}}, "fill", false);
  trial_->Queued();
  ASSERT_EQ(faults_.size(), 1u);
  EXPECT_EQ(faults_[0].kind, Fault::Kind::kDriver);
  EXPECT_EQ(faults_[0].error, CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(TrialTest, WorkOfTwoThreadsTakesTurns) {
  const int rounds = test::StormOf(200);
  auto write = [this, rounds](uint64_t at, int value) {
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    for (int i = 0; i < rounds; ++i) ASSERT_EQ(Write({{at, 512}}, at, 512, value), CUDA_SUCCESS);
  };
  std::thread other(write, kGranule, 2);
  write(0, 1);
  other.join();
  EXPECT_EQ(ByteAt(0), 1);
  EXPECT_EQ(ByteAt(kGranule), 2);
  EXPECT_TRUE(faults_.empty());
}

TEST_F(TrialTest, ARangeThatCannotBeMappedInPiecesIsRefused) {
  EXPECT_FALSE(Trial::Create(driver_, context_, 0, kGranule, kMiB, nullptr).ok());
  EXPECT_FALSE(Trial::Create(driver_, context_, 0, kGranule + 512, kGranule, nullptr).ok());
  SetFaults("cuMemAddressReserve:1=2");
  EXPECT_FALSE(Trial::Create(driver_, context_, 0, kGranule, kGranule, nullptr).ok());
}

TEST_F(TrialTest, ARefusalLeavesTheProgramsContextAndItsCaptureMode) {
  for (const char* fault :
       {"cuCtxGetCurrent:1=2", "cuCtxSetCurrent:1=2", "cuCtxSetCurrent:2=2",
        "cuThreadExchangeStreamCaptureMode:1=2", "cuThreadExchangeStreamCaptureMode:2=2"}) {
    SetFaults(fault);
    EXPECT_EQ(Write({{0, 16}}, 0, 16, 7), CUDA_SUCCESS) << fault;
    SetFaults("");
    CUcontext current = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, context_) << fault;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL) << fault;
  }
}

}  // namespace
}  // namespace ebt::tier
