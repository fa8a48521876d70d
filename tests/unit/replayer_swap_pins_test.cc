// What may be used at any time from now on leaves the plan: its slab is on the host and in place
// for good.
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "tests/unit/swapped_program.h"

namespace ebt::replay {
namespace {

class ReplayerSwapPinsTest : public SwappedProgram {
 protected:
  // Work that no hook sees, as a graph's or a tensor map's: adds the ones to the first block.
  void AddUnseen() {
    CUdeviceptr y = first_, x = ones_;
    float one = 1;
    uint64_t n = kFloats;
    void* params[] = {&y, &x, &one, &n};
    EXPECT_EQ(cuLaunchKernel(Function("ebt_axpy"), kFloats / 256, 1, 1, 256, 1, 1, 0, stream_,
                             params, nullptr),
              CUDA_SUCCESS);
  }
  // A step with unseen work at each of its launches, four times.
  void StepWithUnseenWork() {
    const CUdeviceptr activation = Allocated(kActivation);
    Fill(activation, 2, 2 * kFloats);
    AddUnseen();
    Fill(activation, 3, 2 * kFloats);
    EXPECT_EQ(FreeAsync(activation, stream_), CUDA_SUCCESS);
    AddUnseen();
    UpdateFirst();
    AddUnseen();
    UpdateSecond();
    Close();
    AddUnseen();
  }
  // Ends the run: the first slab is in place for good, the second one on plan in every step.
  void ExpectPinned(int steps, float first) {
    const report::RunLog log = End();
    EXPECT_EQ(log.Number("in_place_slabs"), 1);
    EXPECT_GE(log.Number("hits"), steps);
    EXPECT_LT(log.Number("hits"), 2 * steps);
    EXPECT_EQ(Read(first_), All(first));
    EXPECT_EQ(Read(second_), All(kSecond + static_cast<float>(steps)));
  }

  CUgraphExec Instantiated(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
    return exec;
  }
  void LaunchGraph(CUgraphExec exec) {
    replayer_->GraphLaunch(stream_);
    EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  }
  // What `queue` puts into a stream that captures.
  template <typename Queue>
  CUgraphExec Captured(Queue&& queue) {
    const CUstream stream = NewStream();
    EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    replayer_->CaptureBegun(stream);
    queue(stream);
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    replayer_->CaptureEnded(stream);
    return Instantiated(graph);
  }
};

TEST_F(ReplayerSwapPinsTest, ATensorMapTakenOutsideTheStayPins) {
  StartSwapped();
  Steps(2);
  replayer_->AddressTaken(first_ + 4096, "a tensor map");
  StepWithUnseenWork();
  StepWithUnseenWork();
  ExpectPinned(4, kFirst + 4 + 8);
}

TEST_F(ReplayerSwapPinsTest, ATensorMapTakenDuringTheStayPins) {
  StartSwapped();
  Steps(2);
  Forward();
  UpdateFirst();
  replayer_->AddressTaken(first_, "a tensor map");
  AddUnseen();
  UpdateSecond();
  Close();
  StepWithUnseenWork();
  ExpectPinned(4, kFirst + 4 + 5);
}

TEST_F(ReplayerSwapPinsTest, ATensorMapTakenBeforeTheFirstStepPins) {
  StartSwapped();
  replayer_->AddressTaken(first_, "a tensor map");
  for (int step = 0; step < 3; ++step) StepWithUnseenWork();
  ExpectPinned(3, kFirst + 3 + 12);
}

TEST_F(ReplayerSwapPinsTest, AnAddressOfNoSwappedBlockPinsNothing) {
  StartSwapped();
  Steps(2);
  replayer_->AddressTaken(ones_, "a tensor map");
  replayer_->AddressTaken(first_ - 1, "a tensor map");
  replayer_->AddressTaken(0, "a tensor map");
  Steps(2);
  const report::RunLog log = End();
  EXPECT_EQ(log.Number("in_place_slabs"), 0);
  EXPECT_EQ(log.Number("hits"), 8);
  ExpectState(4);
}

TEST_F(ReplayerSwapPinsTest, AGraphCapturedOutsideTheStaySeesTheRightBytesWheneverItIsLaunched) {
  StartSwapped();
  Steps(2);
  const CUgraphExec graph =
      Captured([this](CUstream stream) { Add(first_, ones_, kFloats, stream); });
  LaunchGraph(graph);
  Step();
  const CUdeviceptr activation = Allocated(kActivation);
  Fill(activation, 2, 2 * kFloats);
  LaunchGraph(graph);  // a launch of the step, too
  EXPECT_EQ(FreeAsync(activation, stream_), CUDA_SUCCESS);
  UpdateFirst();
  LaunchGraph(graph);
  UpdateSecond();
  Close();
  LaunchGraph(graph);
  Step();
  ExpectPinned(5, kFirst + 5 + 4);
}

TEST_F(ReplayerSwapPinsTest, AGraphCapturedDuringTheStaySeesTheRightBytesWheneverItIsLaunched) {
  StartSwapped();
  Steps(2);
  Forward();
  UpdateFirst();
  const CUgraphExec graph =
      Captured([this](CUstream stream) { Add(first_, ones_, kFloats, stream); });
  UpdateSecond();
  Close();
  LaunchGraph(graph);
  Step();
  LaunchGraph(graph);
  ExpectPinned(4, kFirst + 4 + 2);
}

TEST_F(ReplayerSwapPinsTest, ACapturedCopyAndMemsetPinWhatTheyName) {
  StartSwapped();
  Steps(2);
  const CUgraphExec graph = Captured([this](CUstream stream) {
    Queue({EBT_COPY_DTOD, first_, ones_, 1024, stream, 0, 1024, 1024},
          [&] { return cuMemcpyDtoDAsync(first_, ones_, 1024, stream); });
    const uint64_t bytes = kSlab - 1024;
    Queue({EBT_COPY_MEMSET, first_ + 1024, 0, bytes, stream, 0, bytes, 0},
          [&] { return cuMemsetD8Async(first_ + 1024, 0, bytes, stream); });
  });
  Steps(2);
  LaunchGraph(graph);
  Step();
  const report::RunLog log = End();
  EXPECT_EQ(log.Number("in_place_slabs"), 1);
  // Ones, then nothings, and a step's one on top.
  EXPECT_EQ(Read(first_), (std::vector<float>{2, 1, 1}));
  EXPECT_EQ(Read(second_), All(kSecond + 5));
}

TEST_F(ReplayerSwapPinsTest, NothingMovesIntoACapture) {
  StartSwapped();
  Steps(2);
  CUgraphExec graph = nullptr;
  graph = Captured([this](CUstream stream) {
    // The points of these launches are passed over.
    for (int launch = 0; launch < kLaunches; ++launch) Fill(ones_, 1, kFloats, stream);
  });
  LaunchGraph(graph);
  Steps(2);
  const report::RunLog log = End();
  EXPECT_EQ(log.Number("in_place_slabs"), 0);
  ExpectState(4);
}

TEST_F(ReplayerSwapPinsTest, WorkOnThePerThreadStreamPins) {
  StartSwapped();
  Steps(2);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  std::thread other([this] {
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    for (int i = 0; i < 3; ++i) Add(first_, ones_, kFloats, CU_STREAM_PER_THREAD);
    ASSERT_EQ(cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
  });
  other.join();
  Add(first_, ones_, kFloats, CU_STREAM_PER_THREAD);
  ASSERT_EQ(cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
  Steps(2);
  ExpectPinned(4, kFirst + 4 + 4);
}

TEST_F(ReplayerSwapPinsTest, WorkOnTheLegacyStreamDoesNotPin) {
  StartSwapped();
  Steps(2);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  Add(first_, ones_, kFloats, nullptr);
  ASSERT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  Steps(2);
  const report::RunLog log = End();
  EXPECT_EQ(log.Number("in_place_slabs"), 0);
  EXPECT_EQ(log.Number("off_plan"), 1);
  EXPECT_EQ(Read(first_), All(kFirst + 5));
}

}  // namespace
}  // namespace ebt::replay
