// Streams and events: two streams and the thread's own one, ordered by events, with pinned,
// pitched and managed memory, copies both ways and memsets.
#include "program.cuh"

namespace {

struct Buffers {
  float *x, *y, *pitched, *managed, *pinned;
  size_t pitch;
};

constexpr size_t kWidth = 1000, kHeight = 64;  // bytes and rows of the pitched copy

Buffers Allocate() {
  Buffers b = {Allocated(kBytes), Allocated(kBytes), nullptr, nullptr, nullptr, 0};
  void* p = nullptr;
  REQUIRE(cudaMallocPitch(&p, &b.pitch, kWidth, kHeight));
  b.pitched = static_cast<float*>(p);
  REQUIRE(cudaMallocManaged(&p, kBytes));
  b.managed = static_cast<float*>(p);
  REQUIRE(cudaMallocHost(&p, kBytes));
  b.pinned = static_cast<float*>(p);
  return b;
}

void Step(const Buffers& b, const cudaStream_t* streams, cudaEvent_t* events, int step, Sum* sum) {
  float* temporary = Allocated(kBytes);
  for (size_t i = 0; i < kCount; ++i) b.pinned[i] = static_cast<float>(step + i % 17);
  REQUIRE(cudaMemcpyAsync(temporary, b.pinned, kBytes, cudaMemcpyHostToDevice, streams[0]));
  Axpy<<<kBlocks, kThreads, 0, streams[0]>>>(b.x, temporary, 0.25f, kCount);
  REQUIRE(cudaEventRecord(events[0], streams[0]));
  REQUIRE(cudaStreamWaitEvent(streams[1], events[0], 0));
  Halve<<<kBlocks, kThreads, 0, streams[1]>>>(b.y, b.x, kCount);
  REQUIRE(cudaMemcpyAsync(b.managed, b.y, kBytes, cudaMemcpyDeviceToDevice, streams[1]));
  Axpy<<<kBlocks, kThreads, 0, streams[1]>>>(b.managed, b.x, 2.0f, kCount);
  REQUIRE(cudaMemset2DAsync(b.pitched, b.pitch, step, kWidth, kHeight, streams[1]));
  REQUIRE(cudaEventRecord(events[1], streams[1]));
  REQUIRE(cudaStreamWaitEvent(cudaStreamPerThread, events[1], 0));
  REQUIRE(cudaMemsetAsync(temporary, 0, kBytes / 2, cudaStreamPerThread));
  Fill<<<kBlocks, kThreads, 0, cudaStreamPerThread>>>(temporary, 1.0f, kCount / 3);
  Axpy<<<kBlocks, kThreads, 0, cudaStreamPerThread>>>(b.y, temporary, 0.125f, kCount);
  REQUIRE(cudaMemcpyAsync(b.pinned, b.y, kBytes, cudaMemcpyDeviceToHost, cudaStreamPerThread));
  REQUIRE(cudaStreamSynchronize(cudaStreamPerThread));
  sum->Add(b.pinned, kBytes);
  unsigned char rows[kHeight][kWidth];
  REQUIRE(cudaMemcpy2D(rows, kWidth, b.pitched, b.pitch, kWidth, kHeight, cudaMemcpyDeviceToHost));
  sum->Add(rows, sizeof rows);
  REQUIRE(cudaFree(temporary));
}

}  // namespace

int main() {
  const Buffers b = Allocate();
  cudaStream_t streams[2];
  cudaEvent_t events[2];
  for (cudaStream_t& stream : streams) {
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  for (cudaEvent_t& event : events) {
    REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  Fill<<<kBlocks, kThreads>>>(b.x, 3.0f, kCount);
  REQUIRE(cudaMemset(b.y, 0, kBytes));
  REQUIRE(cudaDeviceSynchronize());
  Sum sum;
  for (int step = 0; step < kSteps; ++step) Step(b, streams, events, step, &sum);
  REQUIRE(cudaDeviceSynchronize());
  sum.Add(b.managed, kBytes);
  REQUIRE(cudaFree(b.x));
  REQUIRE(cudaFree(b.y));
  REQUIRE(cudaFree(b.pitched));
  REQUIRE(cudaFree(b.managed));
  REQUIRE(cudaFreeHost(b.pinned));
  for (cudaStream_t stream : streams) REQUIRE(cudaStreamDestroy(stream));
  sum.Print();
  return 0;
}
