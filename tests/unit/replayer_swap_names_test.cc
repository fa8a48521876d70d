// What is named other than by a launch or a single copy: nodes of graphs built by hand, batches of
// copies, and what the driver is asked of memory that is the program's own.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/unit/swapped_program.h"

namespace ebt::replay {
namespace {

class ReplayerSwapNamesTest : public SwappedProgram {
 protected:
  // The launch that a kernel's node will be: y += the ones.
  struct AddNode {
    AddNode(CUdeviceptr y, CUdeviceptr x, uint64_t floats) : y(y), x(x), n(floats) {}
    ebt_launch Launch(CUfunction function) {
      ebt_launch launch{};
      launch.function = function;
      launch.grid[0] = static_cast<unsigned>(n / 256);
      launch.grid[1] = launch.grid[2] = launch.block[1] = launch.block[2] = 1;
      launch.block[0] = 256;
      launch.params = params;
      return launch;
    }
    CUdeviceptr y, x;
    float one = 1;
    uint64_t n;
    void* params[4] = {&y, &x, &one, &n};
  };
  CUgraphExec Instantiated(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
    return exec;
  }
  CUgraphExec AddsToFirst() {
    AddNode node(first_, ones_, kFloats);
    const ebt_launch launch = node.Launch(Function("ebt_axpy"));
    replayer_->NodeMade(launch);
    CUDA_KERNEL_NODE_PARAMS params{};
    params.func = static_cast<CUfunction>(launch.function);
    params.gridDimX = launch.grid[0];
    params.blockDimX = launch.block[0];
    params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = node.params;
    CUgraph graph = nullptr;
    CUgraphNode made = nullptr;
    EXPECT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphAddKernelNode(&made, graph, nullptr, 0, &params), CUDA_SUCCESS);
    return Instantiated(graph);
  }
  void LaunchGraph(CUgraphExec exec) {
    replayer_->GraphLaunch(stream_);
    EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  }
  // Copies of equal parts, from the block of ones.
  void Batch(std::vector<CUdeviceptr> dsts, size_t bytes) { Batch(dsts, bytes, stream_); }
  void Batch(std::vector<CUdeviceptr> dsts, size_t bytes, CUstream stream) {
    std::vector<CUdeviceptr> srcs(dsts.size(), ones_);
    std::vector<size_t> sizes(dsts.size(), bytes);
    const bool touches = replayer_->Copies(dsts.size(), [&](size_t i) {
      return ebt_copy{EBT_COPY_UNIFIED, dsts[i], srcs[i], bytes, stream, 0, bytes, bytes};
    });
    EXPECT_TRUE(touches);
    CUmemcpyAttributes attributes{};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    size_t index = 0;
    EXPECT_EQ(cuMemcpyBatchAsync(dsts.data(), srcs.data(), sizes.data(), dsts.size(), &attributes,
                                 &index, 1, stream),
              CUDA_SUCCESS);
    replayer_->Touched();
  }
  void ExpectInPlace(int slabs) { EXPECT_EQ(End().Number("in_place_slabs"), slabs); }
};

TEST_F(ReplayerSwapNamesTest, AKernelsNodeSeesTheRightBytesWheneverItsGraphIsLaunched) {
  StartSwapped();
  Steps(2);
  const CUgraphExec graph = AddsToFirst();
  LaunchGraph(graph);
  Step();
  const CUdeviceptr activation = Allocated(kActivation);
  Fill(activation, 2, 2 * kFloats);
  LaunchGraph(graph);
  EXPECT_EQ(FreeAsync(activation, stream_), CUDA_SUCCESS);
  UpdateFirst();
  UpdateSecond();
  Close();
  LaunchGraph(graph);
  Step();
  ExpectInPlace(1);
  EXPECT_EQ(Read(first_), All(kFirst + 5 + 3));
  EXPECT_EQ(Read(second_), All(kSecond + 5));
}

TEST_F(ReplayerSwapNamesTest, AKernelsNodeMadeDuringTheStayPins) {
  StartSwapped();
  Steps(2);
  Forward();
  UpdateFirst();
  const CUgraphExec graph = AddsToFirst();
  UpdateSecond();
  Close();
  LaunchGraph(graph);
  Step();
  ExpectInPlace(1);
  EXPECT_EQ(Read(first_), All(kFirst + 4 + 1));
}

TEST_F(ReplayerSwapNamesTest, ANodeMadeInNoContextPins) {
  StartSwapped();
  Steps(2);
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  replayer_->NodeMade(ebt_copy{EBT_COPY_MEMSET, first_, 0, 64, nullptr, 0, 64, 0});
  CUcontext current = context_;
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, nullptr);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  Steps(2);
  ExpectInPlace(1);
  ExpectState(4);
}

TEST_F(ReplayerSwapNamesTest, BothSidesOfACopysNodePin) {
  StartSwapped();
  Steps(2);
  replayer_->NodeMade(ebt_copy{EBT_COPY_DTOD, first_ + 64, second_ + 128, 64, nullptr, 0, 64, 64});
  Steps(2);
  ExpectInPlace(2);
  ExpectState(4);
}

TEST_F(ReplayerSwapNamesTest, ANodeThatNamesNoSwappedBlockPinsNothing) {
  StartSwapped();
  Steps(2);
  AddNode node(ones_, ones_, kFloats);
  replayer_->NodeMade(node.Launch(Function("ebt_axpy")));
  replayer_->NodeMade(ebt_copy{EBT_COPY_DTOD, ones_, 0, 64, nullptr, 0, 64, 0});
  replayer_->NodeMade(ebt_copy{EBT_COPY_DTOD, first_, 0, 0, nullptr, 0, 0, 0});
  Steps(2);
  const report::RunLog log = End();
  EXPECT_EQ(log.Number("in_place_slabs"), 0);
  EXPECT_EQ(log.Number("hits"), 8);
  ExpectState(4);
}

TEST_F(ReplayerSwapNamesTest, EveryCopyOfABatchFindsItsBlock) {
  StartSwapped();
  Steps(2);
  const CUdeviceptr activation = Allocated(kActivation);
  Fill(activation, 2, 2 * kFloats);
  // The first and the last float of both blocks; the middle stays.
  const uint64_t last = kSlab - sizeof(float);
  Batch({first_, first_ + last, second_, second_ + last}, sizeof(float));
  Fill(activation, 3, 2 * kFloats);
  EXPECT_EQ(FreeAsync(activation, stream_), CUDA_SUCCESS);
  UpdateFirst();
  UpdateSecond();
  Close();
  Step();
  const report::RunLog log = End();
  EXPECT_EQ(log.Number("in_place_slabs"), 0);
  EXPECT_EQ(Read(first_), (std::vector<float>{1 + 2, kFirst + 4, 1 + 2}));
  EXPECT_EQ(Read(second_), (std::vector<float>{1 + 2, kSecond + 4, 1 + 2}));
}

TEST_F(ReplayerSwapNamesTest, ABatchDuringTheStayIsOnPlan) {
  StartSwapped();
  Steps(2);
  Forward();
  UpdateFirst();
  Batch({first_, first_ + kSlab / 2}, kSlab / 2);
  UpdateSecond();
  Close();
  Step();
  const report::RunLog log = End();
  EXPECT_EQ(log.Number("off_plan"), 0);
  EXPECT_EQ(Read(first_), All(1 + 1));
  EXPECT_EQ(Read(second_), All(kSecond + 4));
}

TEST_F(ReplayerSwapNamesTest, ABatchThatIsCapturedPins) {
  StartSwapped();
  Steps(2);
  const CUstream stream = NewStream();
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  replayer_->CaptureBegun(stream);
  Batch({first_, second_}, kSlab, stream);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  replayer_->CaptureEnded(stream);
  const CUgraphExec exec = Instantiated(graph);
  Step();
  LaunchGraph(exec);
  Step();
  ExpectInPlace(2);
  EXPECT_EQ(Read(first_), All(1 + 1));
  EXPECT_EQ(Read(second_), All(1 + 1));
}

// Advice and prefetches are for managed memory, which is never served: of a block of ours the
// driver refuses them as it does of its own.
TEST_F(ReplayerSwapNamesTest, ManagedMemorysCallsAreRefusedAsNatively) {
  StartSwapped();
  Steps(2);
  CUdeviceptr native = 0;
  ASSERT_EQ(cuMemAlloc(&native, kSlab), CUDA_SUCCESS);
  const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  int attribute = 0;
  for (CUdeviceptr ours : {first_, ones_}) {
    EXPECT_EQ(cuMemAdvise(ours, kSlab, CU_MEM_ADVISE_SET_READ_MOSTLY, here),
              cuMemAdvise(native, kSlab, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    EXPECT_EQ(cuMemPrefetchAsync(ours, kSlab, here, 0, stream_),
              cuMemPrefetchAsync(native, kSlab, here, 0, stream_));
    EXPECT_EQ(cuStreamAttachMemAsync(stream_, ours, 0, CU_MEM_ATTACH_GLOBAL),
              cuStreamAttachMemAsync(stream_, native, 0, CU_MEM_ATTACH_GLOBAL));
    EXPECT_EQ(cuMemRangeGetAttribute(&attribute, sizeof attribute,
                                     CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, ours, kSlab),
              cuMemRangeGetAttribute(&attribute, sizeof attribute,
                                     CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, native, kSlab));
  }
  Steps(2);
  ExpectState(4);
}

}  // namespace
}  // namespace ebt::replay
