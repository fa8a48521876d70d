// Explicit graphs: kernel, copy, memset, memory and child nodes, their setters, the update of an
// executable graph, and a captured graph that allocates.
#include "program.cuh"

namespace {

struct Axpys {  // one kernel node's arguments, alive as long as it is set
  float* y;
  const float* x;
  float a;
  size_t n;
  void* arguments[4] = {&y, &x, &a, &n};
};

cudaKernelNodeParams KernelNode(Axpys* axpy) {
  cudaKernelNodeParams node = {};
  node.func = reinterpret_cast<void*>(&Axpy);
  node.gridDim = dim3(kBlocks);
  node.blockDim = dim3(kThreads);
  node.kernelParams = axpy->arguments;
  return node;
}

cudaMemsetParams MemsetNode(float* p, unsigned value) {
  cudaMemsetParams node = {};
  node.dst = p;
  node.elementSize = 1;
  node.width = kBytes;
  node.height = 1;
  node.value = value;
  return node;
}

// memset of t -> t += 1 * x -> y = t, with the nodes to set later.
struct Chain {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaGraphNode_t memset, kernel, copy;
};

void AddNodes(Chain* chain, float* t, Axpys* axpy, float* y) {
  REQUIRE(cudaGraphCreate(&chain->graph, 0));
  const cudaMemsetParams memset = MemsetNode(t, 0);
  REQUIRE(cudaGraphAddMemsetNode(&chain->memset, chain->graph, nullptr, 0, &memset));
  const cudaKernelNodeParams kernel = KernelNode(axpy);
  REQUIRE(cudaGraphAddKernelNode(&chain->kernel, chain->graph, &chain->memset, 1, &kernel));
  REQUIRE(cudaGraphAddMemcpyNode1D(&chain->copy, chain->graph, &chain->kernel, 1, y, t, kBytes,
                                   cudaMemcpyDeviceToDevice));
}

// A graph with memory of its own: allocates, fills, adds to y by a child graph, frees.
cudaGraphExec_t WithMemory(float* y, const float* x) {
  cudaGraph_t graph, child;
  REQUIRE(cudaGraphCreate(&graph, 0));
  cudaMemAllocNodeParams memory = {};
  memory.poolProps.allocType = cudaMemAllocationTypePinned;
  memory.poolProps.location.type = cudaMemLocationTypeDevice;
  memory.poolProps.location.id = 0;
  memory.bytesize = kBytes;
  cudaGraphNode_t allocate, fill, add, run, release;
  REQUIRE(cudaGraphAddMemAllocNode(&allocate, graph, nullptr, 0, &memory));
  auto* own = static_cast<float*>(memory.dptr);
  const cudaMemsetParams memset = MemsetNode(own, 0);
  REQUIRE(cudaGraphAddMemsetNode(&fill, graph, &allocate, 1, &memset));
  REQUIRE(cudaGraphCreate(&child, 0));
  Axpys into_own = {own, x, 0.25f, kCount}, into_y = {y, own, 2.0f, kCount};
  const cudaKernelNodeParams first = KernelNode(&into_own), second = KernelNode(&into_y);
  REQUIRE(cudaGraphAddKernelNode(&add, child, nullptr, 0, &first));
  cudaGraphNode_t behind;
  REQUIRE(cudaGraphAddKernelNode(&behind, child, &add, 1, &second));
  REQUIRE(cudaGraphAddChildGraphNode(&run, graph, &fill, 1, child));
  REQUIRE(cudaGraphAddMemFreeNode(&release, graph, &run, 1, own));
  cudaGraphExec_t executable;
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0));
  return executable;
}

// What a stream's capture makes of launches, a copy and stream-ordered memory.
cudaGraphExec_t Captured(cudaStream_t stream, float* y, const float* x) {
  cudaGraph_t graph;
  void* memory = nullptr;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  REQUIRE(cudaMallocAsync(&memory, kBytes, stream));
  auto* own = static_cast<float*>(memory);
  REQUIRE(cudaMemcpyAsync(own, x, kBytes, cudaMemcpyDeviceToDevice, stream));
  Halve<<<kBlocks, kThreads, 0, stream>>>(own, own, kCount);
  Axpy<<<kBlocks, kThreads, 0, stream>>>(y, own, 1.0f, kCount);
  REQUIRE(cudaFreeAsync(memory, stream));
  REQUIRE(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable;
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0));
  REQUIRE(cudaGraphDestroy(graph));
  return executable;
}

// Changes what the chain does, in one of three ways by turns.
void Change(Chain* chain, float* t, Axpys* axpy, float* y, int step) {
  axpy->a = static_cast<float>(step % 5);
  const cudaKernelNodeParams kernel = KernelNode(axpy);
  if (step % 3 == 0) {
    const cudaMemsetParams memset = MemsetNode(t, step % 2);
    REQUIRE(cudaGraphExecKernelNodeSetParams(chain->executable, chain->kernel, &kernel));
    REQUIRE(cudaGraphExecMemsetNodeSetParams(chain->executable, chain->memset, &memset));
  } else if (step % 3 == 1) {
    REQUIRE(cudaGraphExecMemcpyNodeSetParams1D(chain->executable, chain->copy, y, t, kBytes / 2,
                                               cudaMemcpyDeviceToDevice));
  } else {
    REQUIRE(cudaGraphKernelNodeSetParams(chain->kernel, &kernel));
    cudaGraphExecUpdateResultInfo info = {};
    REQUIRE(cudaGraphExecUpdate(chain->executable, chain->graph, &info));
  }
}

}  // namespace

int main() {
  float *x = Allocated(kBytes), *y = Allocated(kBytes), *t = Allocated(kBytes);
  cudaStream_t stream;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Fill<<<kBlocks, kThreads>>>(x, 2.0f, kCount);
  REQUIRE(cudaMemset(y, 0, kBytes));
  REQUIRE(cudaDeviceSynchronize());
  Axpys axpy = {t, x, 1.0f, kCount};
  Chain chain;
  AddNodes(&chain, t, &axpy, y);
  REQUIRE(cudaGraphInstantiate(&chain.executable, chain.graph, 0));
  const cudaGraphExec_t with_memory = WithMemory(y, x);
  const cudaGraphExec_t captured = Captured(stream, y, x);
  Sum sum;
  for (int step = 0; step < kSteps; ++step) {
    float* temporary = Allocated(2 * kBytes);
    Change(&chain, t, &axpy, y, step);
    REQUIRE(cudaGraphLaunch(chain.executable, stream));
    Halve<<<kBlocks, kThreads, 0, stream>>>(temporary, y, kCount);
    REQUIRE(cudaGraphLaunch(with_memory, stream));
    Axpy<<<kBlocks, kThreads, 0, stream>>>(y, temporary, 0.5f, kCount);
    REQUIRE(cudaGraphLaunch(captured, stream));
    REQUIRE(cudaStreamSynchronize(stream));
    sum.AddDevice(y, kCount);
    REQUIRE(cudaFree(temporary));
  }
  for (cudaGraphExec_t executable : {chain.executable, with_memory, captured}) {
    REQUIRE(cudaGraphExecDestroy(executable));
  }
  REQUIRE(cudaGraphDestroy(chain.graph));
  REQUIRE(cudaDeviceGraphMemTrim(0));
  for (float* p : {x, y, t}) REQUIRE(cudaFree(p));
  REQUIRE(cudaStreamDestroy(stream));
  sum.Print();
  return 0;
}
