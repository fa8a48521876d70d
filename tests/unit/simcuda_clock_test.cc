// What the simulated driver promises about time and order. 1 GB/s is one byte a nanosecond.
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/unit/simcuda_fixture.h"

namespace ebt {
namespace {

class SimCudaClock : public SimCuda {
 protected:
  void SetUp() override {
    SimCuda::SetUp();
    ASSERT_EQ(cuEventCreate(&start_, CU_EVENT_DEFAULT), CUDA_SUCCESS);
    ASSERT_EQ(cuEventCreate(&end_, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  }

  // Device milliseconds of what `queue` puts on stream_.
  template <typename Queue>
  float Measure(Queue queue) {
    // The host runs ahead, so that its own calls leave no gaps.
    EXPECT_EQ(Occupy(busy_ == 0 ? busy_ = Allocate(8 * kMiB) : busy_, 2'000'000, stream_),
              CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(start_, stream_), CUDA_SUCCESS);
    queue();
    EXPECT_EQ(cuEventRecord(end_, stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuEventSynchronize(end_), CUDA_SUCCESS);
    float ms = -1;
    EXPECT_EQ(cuEventElapsedTime(&ms, start_, end_), CUDA_SUCCESS);
    return ms;
  }

  CUevent start_ = nullptr, end_ = nullptr;
  CUdeviceptr busy_ = 0;
};

TEST_F(SimCudaClock, AnAsynchronousCopyShowsItsBytesOnlyWhenItsTimeHasCome) {
  constexpr uint64_t kBytes = 11'000'000;  // 200 us at 55 GB/s, and 2.6 us to begin
  CUdeviceptr device = Allocate(kBytes);
  auto* host = static_cast<unsigned char*>(AllocateHost(kBytes));
  ASSERT_EQ(cuMemsetD8(device, 1, kBytes), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync(host, device, kBytes, stream_), CUDA_SUCCESS);
  EXPECT_EQ(host[0], 0);
  simcuda_host_work_ms(0.190);
  EXPECT_EQ(host[0], 0);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
  simcuda_host_work_ms(0.020);
  EXPECT_EQ(host[0], 1);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_SUCCESS);
}

TEST_F(SimCudaClock, PollingEndsByItself) {
  CUdeviceptr device = Allocate(40 * kMiB);
  ASSERT_EQ(Occupy(device, 10'000'000, stream_), CUDA_SUCCESS);  // 1 ms
  int polls = 0;
  while (cuStreamQuery(stream_) == CUDA_ERROR_NOT_READY) ++polls;
  EXPECT_LT(polls, 100);
}

TEST_F(SimCudaClock, CopiesRunAtTheLinksSpeed) {
  CUdeviceptr device = Allocate(11'000'000);
  void* host = AllocateHost(11'000'000);
  const uint64_t before = simcuda_link_bytes_in(0);
  EXPECT_NEAR(Measure([&] { cuMemcpyHtoDAsync(device, host, 11'000'000, stream_); }), 0.2026, 1e-4);
  // Small ones pay for their beginning: 65536 / 55 + 2600 = 3792 ns, 17 GB/s.
  EXPECT_NEAR(Measure([&] { cuMemcpyHtoDAsync(device, host, 65536, stream_); }), 0.003792, 1e-5);
  EXPECT_EQ(simcuda_link_bytes_in(0) - before, 11'065'536u);
}

TEST_F(SimCudaClock, KernelsTakeTheirTrafficsTimeButNeverLessThanTwoMicroseconds) {
  CUdeviceptr device = Allocate(36'000'000);
  void* host = AllocateHost(4'200'000);
  EXPECT_NEAR(Measure([&] { Fill(device, 1, 9'000'000, stream_); }), 0.010, 1e-5);
  EXPECT_NEAR(Measure([&] { Fill(device, 1, 1, stream_); }), 0.002, 1e-5);
  // In place on the host: 4.2 MB at 42 GB/s.
  CUdeviceptr mapped = 0;
  ASSERT_EQ(cuMemHostGetDevicePointer(&mapped, host, 0), CUDA_SUCCESS);
  EXPECT_NEAR(Measure([&] { Fill(mapped, 1, 1'050'000, stream_); }), 0.100, 1e-5);
}

TEST_F(SimCudaClock, ManagedMemoryCostsWhereItLies) {
  constexpr uint64_t kBytes = 24 * kMiB, kFloats = kBytes / 4;
  CUdeviceptr managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, kBytes, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  auto fill = [&] { Fill(managed, 1, kFloats, stream_); };
  const double local = kBytes / 3.6e9;
  EXPECT_NEAR(Measure(fill), local, 1e-4);  // the first touch puts it on the device
  EXPECT_EQ(simcuda_device_bytes(0), kBytes + 8 * kMiB);

  // Out at 12 GB/s, on the calling thread.
  const double before = simcuda_now_ms();
  ASSERT_EQ(cuMemPrefetchAsync(managed, kBytes, {CU_MEM_LOCATION_TYPE_HOST, 0}, 0, stream_),
            CUDA_SUCCESS);
  EXPECT_NEAR(simcuda_now_ms() - before, kBytes / 12e6, 0.05);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(simcuda_device_bytes(0), 8 * kMiB);

  // By faults at 12 GB/s, after which it is on the device.
  EXPECT_NEAR(Measure(fill), kBytes / 12e6 + local, 1e-4);
  EXPECT_NEAR(Measure(fill), local, 1e-4);

  // Preferred on the host and accessed from the device: in place at 42 GB/s, nothing moves.
  ASSERT_EQ(cuMemAdvise(managed, kBytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
                        {CU_MEM_LOCATION_TYPE_HOST, 0}),
            CUDA_SUCCESS);
  ASSERT_EQ(
      cuMemAdvise(managed, kBytes, CU_MEM_ADVISE_SET_ACCESSED_BY, {CU_MEM_LOCATION_TYPE_DEVICE, 0}),
      CUDA_SUCCESS);
  ASSERT_EQ(cuMemPrefetchAsync(managed, kBytes, {CU_MEM_LOCATION_TYPE_HOST, 0}, 0, stream_),
            CUDA_SUCCESS);
  EXPECT_NEAR(Measure(fill), kBytes / 42e6, 1e-4);
  EXPECT_NEAR(Measure(fill), kBytes / 42e6, 1e-4);

  // Back in at 50 GB/s with 75 us to begin.
  EXPECT_NEAR(Measure([&] {
                cuMemPrefetchAsync(managed, kBytes, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, stream_);
              }),
              0.075 + kBytes / 50e6, 1e-4);
  EXPECT_EQ(cuMemPrefetchAsync(managed, 0, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, stream_),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(SimCudaClock, ManagedPagesMakeRoomForAllocations) {
  CUdeviceptr managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, 100 * kMiB, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(Fill(managed, 3, 25 * kMiB, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(simcuda_device_bytes(0), 100 * kMiB);
  Allocate(200 * kMiB);
  EXPECT_EQ(simcuda_device_bytes(0), 256 * kMiB);  // 56 MiB of the pages remain
}

TEST_F(SimCudaClock, TheLegacyStreamWaitsForBlockingStreamsAndHoldsThemBack) {
  CUdeviceptr busy = Allocate(40 * kMiB), word = Allocate(4);
  CUstream blocking = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(Occupy(busy, 10'000'000, blocking), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32Async(word, 1, 1, CU_STREAM_LEGACY), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32Async(word, 2, 1, blocking), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(blocking), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(CU_STREAM_LEGACY), CUDA_SUCCESS);
  uint32_t value = 0;
  ASSERT_EQ(cuMemcpyDtoH(&value, word, 4), CUDA_SUCCESS);
  EXPECT_EQ(value, 2u);

  // A non-blocking stream's work is not waited for.
  ASSERT_EQ(Occupy(busy, 10'000'000, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(CU_STREAM_LEGACY), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
}

TEST_F(SimCudaClock, AValueMayBeAwaitedBeforeItIsWritten) {
  CUstream writer = nullptr;
  ASSERT_EQ(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  CUdeviceptr busy = Allocate(40 * kMiB), counter = Allocate(8);
  ASSERT_EQ(cuMemsetD8(counter, 0, 8), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitValue64(stream_, counter, 5, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(end_, stream_), CUDA_SUCCESS);
  simcuda_host_work_ms(1);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(cuEventRecord(start_, writer), CUDA_SUCCESS);
  ASSERT_EQ(Occupy(busy, 10'000'000, writer), CUDA_SUCCESS);  // 1 ms
  ASSERT_EQ(cuStreamWriteValue64(writer, counter, 5, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuEventSynchronize(end_), CUDA_SUCCESS);
  float ms = 0;
  ASSERT_EQ(cuEventElapsedTime(&ms, start_, end_), CUDA_SUCCESS);
  EXPECT_NEAR(ms, 1.0, 0.01);
}

TEST_F(SimCudaClock, AnotherThreadMayReleaseASynchronizingOne) {
  CUdeviceptr counter = Allocate(8);
  ASSERT_EQ(cuMemsetD8(counter, 0, 8), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitValue64(stream_, counter, 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  std::thread other([&] {
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    CUstream writer = nullptr;
    ASSERT_EQ(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamWriteValue64(writer, counter, 1, 0), CUDA_SUCCESS);
  });
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  other.join();
}

TEST_F(SimCudaClock, AThreadThatSleptWakesAtTheLatestTimeAndHoldsNobodyUp) {
  simcuda_host_work_ms(10);
  const double mine = simcuda_now_ms();
  double others = 0;
  std::thread other([&] {
    cuCtxSetCurrent(context_);
    others = simcuda_now_ms();
    simcuda_host_work_ms(50);  // its own time
  });
  other.join();
  EXPECT_NEAR(others, mine, 0.01);
  EXPECT_NEAR(simcuda_now_ms(), mine, 0.01);
}

TEST_F(SimCudaClock, BothDirectionsShareTheLink) {
  // 4.8 MB each way: the one that begins second finds the link in use, 100 us at 48 GB/s.
  CUstream out = nullptr;
  ASSERT_EQ(cuStreamCreate(&out, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  CUdeviceptr device = Allocate(9'600'000);
  auto* host = static_cast<char*>(AllocateHost(9'600'000));
  ASSERT_EQ(cuMemcpyDtoHAsync(host, device, 4'800'000, out), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(start_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoDAsync(device + 4'800'000, host + 4'800'000, 4'800'000, stream_),
            CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(end_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  float ms = 0;
  ASSERT_EQ(cuEventElapsedTime(&ms, start_, end_), CUDA_SUCCESS);
  EXPECT_NEAR(ms, 0.1026, 0.005);  // and the host's calls in between
}

TEST_F(SimCudaClock, HostFunctionsRunInStreamOrder) {
  auto* word = static_cast<uint32_t*>(AllocateHost(4));
  struct Seen {
    uint32_t* word;
    std::atomic<uint32_t> value{99};
  } seen{word};
  CUdeviceptr mapped = 0;
  ASSERT_EQ(cuMemHostGetDevicePointer(&mapped, word, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32Async(mapped, 1, 1, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(
                stream_,
                [](void* data) {
                  auto* s = static_cast<Seen*>(data);
                  s->value = *s->word;
                },
                &seen),
            CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32Async(mapped, 2, 1, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(seen.value, 1u);
  EXPECT_EQ(*word, 2u);
}

TEST_F(SimCudaClock, EventsOrderStreams) {
  CUstream other = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  CUdeviceptr busy = Allocate(40 * kMiB), word = Allocate(4);
  ASSERT_EQ(Occupy(busy, 10'000'000, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32Async(word, 1, 1, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(start_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(other, start_, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32Async(word, 2, 1, other), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  uint32_t value = 0;
  ASSERT_EQ(cuMemcpyDtoH(&value, word, 4), CUDA_SUCCESS);
  EXPECT_EQ(value, 2u);
}

TEST_F(SimCudaClock, ACapturedGraphReplaysItsWork) {
  CUdeviceptr x = Allocate(4), y = Allocate(4);
  ASSERT_EQ(Fill(x, 1, 1, stream_), CUDA_SUCCESS);
  ASSERT_EQ(Fill(y, 0, 1, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  ASSERT_EQ(cuStreamIsCapturing(stream_, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  float a = 2;
  uint64_t n = 1;
  void* arguments[] = {&y, &x, &a, &n};
  ASSERT_EQ(cuLaunchKernel(Function("ebt_axpy"), 1, 1, 1, 32, 1, 1, 0, stream_, arguments, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  size_t nodes = 0;
  ASSERT_EQ(cuGraphGetNodes(graph, nullptr, &nodes), CUDA_SUCCESS);
  EXPECT_EQ(nodes, 1u);
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  float value = 0;
  ASSERT_EQ(cuMemcpyDtoH(&value, y, 4), CUDA_SUCCESS);
  EXPECT_EQ(value, 4.0f);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(SimCudaClock, AGraphBuiltNodeByNodeRunsItsKernels) {
  CUdeviceptr x = Allocate(4);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  float value = 6;
  uint64_t n = 1;
  void* arguments[] = {&x, &value, &n};
  CUDA_KERNEL_NODE_PARAMS parameters = {};
  parameters.func = Function("ebt_fill");
  parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
  parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.kernelParams = arguments;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddKernelNode(&node, graph, nullptr, 0, &parameters), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  float seen = 0;
  ASSERT_EQ(cuMemcpyDtoH(&seen, x, 4), CUDA_SUCCESS);
  EXPECT_EQ(seen, 6.0f);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

}  // namespace
}  // namespace ebt
