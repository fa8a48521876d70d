#include "src/tier/right_of_way.h"

#include <gtest/gtest.h>

#include "tests/unit/simulated_device.h"

namespace ebt::tier {
namespace {

class RightOfWayTest : public test::SimulatedDevice {
 protected:
  RightOfWayTest() {
    EXPECT_EQ(cuMemAlloc(&word_, 512), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD32(word_, 0, 1), CUDA_SUCCESS);
  }
  ~RightOfWayTest() override { Open(); }

  // What the stream does from now on waits until Open.
  void Shut(CUstream stream) {
    ASSERT_EQ(cuStreamWaitValue32(stream, word_, 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  }
  void Open() { ASSERT_EQ(cuStreamWriteValue32(NewStream(), word_, 1, 0), CUDA_SUCCESS); }

  CUdeviceptr word_ = 0;
  RightOfWay way_{test::SimulatedDriver()};
};

TEST_F(RightOfWayTest, NobodyIsDueAtFirst) { EXPECT_FALSE(way_.Due()); }

TEST_F(RightOfWayTest, ACopyIsDueFromItsCallUntilItIsDone) {
  const CUstream stream = NewStream();
  const size_t copy = way_.Begin(stream);
  EXPECT_TRUE(way_.Due());
  Shut(stream);  // the copy that takes its time
  way_.End(copy, stream, false);
  EXPECT_TRUE(way_.Due());
  Open();
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_FALSE(way_.Due());
}

TEST_F(RightOfWayTest, ACopyThatWaitsForOtherWorkIsNotDue) {
  const CUstream stream = NewStream();
  Shut(stream);
  way_.End(way_.Begin(stream), stream, false);
  EXPECT_FALSE(way_.Due());
}

TEST_F(RightOfWayTest, ACopyThatIsDoneWhenItsCallReturnsNeedsNoSecondEvent) {
  const CUstream stream = NewStream();
  const size_t copy = way_.Begin(stream);
  const uint64_t recorded = simcuda_call_count("cuEventRecord");
  Shut(stream);
  way_.End(copy, stream, true);
  EXPECT_EQ(simcuda_call_count("cuEventRecord"), recorded);
  EXPECT_FALSE(way_.Due());
}

TEST_F(RightOfWayTest, SixteenCopiesAreKnownAndNoMore) {
  const CUstream stream = NewStream();
  Shut(stream);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(way_.Begin(stream), i);
    way_.End(i, stream, false);
  }
  EXPECT_EQ(way_.Begin(stream), RightOfWay::kNone);
  way_.End(RightOfWay::kNone, stream, false);
  Open();
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_FALSE(way_.Due());
  EXPECT_EQ(way_.Begin(stream), 0u);
}

TEST_F(RightOfWayTest, WhatTheDriverRefusesIsNotKnownAndHoldsNobodyUp) {
  const CUstream stream = NewStream();
  for (const char* fault : {"cuEventCreate:1=2", "cuEventRecord:1=400"}) {
    SetFaults(fault);
    EXPECT_EQ(way_.Begin(stream), RightOfWay::kNone) << fault;
  }
  SetFaults("");
  const size_t copy = way_.Begin(stream);
  SetFaults("cuEventRecord:1=400");
  way_.End(copy, stream, false);
  SetFaults("");
  EXPECT_FALSE(way_.Due());
}

}  // namespace
}  // namespace ebt::tier
