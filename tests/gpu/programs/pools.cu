// Stream-ordered memory: the default pool and one of the program's own, freed on another stream
// than the one it was allocated on, attributes set and read back, trimmed.
#include <stdint.h>

#include "program.cuh"

namespace {

cudaMemPool_t OwnPool() {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = 0;
  cudaMemPool_t pool;
  REQUIRE(cudaMemPoolCreate(&pool, &properties));
  uint64_t threshold = 64 << 20;
  REQUIRE(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  return pool;
}

// What the pool says of itself must be possible: what is used is reserved.
void CheckAttributes(cudaMemPool_t pool, size_t at_least) {
  uint64_t used = 0, used_high = 0, reserved = 0;
  REQUIRE(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  REQUIRE(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &used_high));
  REQUIRE(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  if (used < at_least || used_high < used || reserved < used) {
    fprintf(stderr, "pool: used %llu, at its highest %llu, reserved %llu\n",
            static_cast<unsigned long long>(used), static_cast<unsigned long long>(used_high),
            static_cast<unsigned long long>(reserved));
    exit(1);
  }
}

void Step(float* state, cudaMemPool_t own, const cudaStream_t* streams, cudaEvent_t event, int step,
          Sum* sum) {
  void *a, *b, *c;
  REQUIRE(cudaMallocAsync(&a, kBytes, streams[0]));
  REQUIRE(cudaMallocAsync(&b, 3 * kBytes, streams[0]));
  REQUIRE(cudaMallocFromPoolAsync(&c, 2 * kBytes, own, streams[0]));
  auto* x = static_cast<float*>(a);
  auto* y = static_cast<float*>(b);
  auto* z = static_cast<float*>(c);
  Fill<<<kBlocks, kThreads, 0, streams[0]>>>(x, static_cast<float>(step), kCount);
  REQUIRE(cudaMemsetAsync(y, 0, 3 * kBytes, streams[0]));
  Axpy<<<kBlocks, kThreads, 0, streams[0]>>>(y + kCount, x, 0.5f, kCount);
  Halve<<<kBlocks, kThreads, 0, streams[0]>>>(z, y + kCount, kCount);
  REQUIRE(cudaFreeAsync(x, streams[0]));
  REQUIRE(cudaEventRecord(event, streams[0]));
  REQUIRE(cudaStreamWaitEvent(streams[1], event, 0));
  Axpy<<<kBlocks, kThreads, 0, streams[1]>>>(state, z, 1.0f, kCount);
  REQUIRE(cudaFreeAsync(z, streams[1]));
  REQUIRE(cudaFreeAsync(y, streams[1]));
  REQUIRE(cudaStreamSynchronize(streams[1]));
  sum->AddDevice(state, kCount);
}

}  // namespace

int main() {
  float* state = Allocated(kBytes);
  REQUIRE(cudaMemset(state, 0, kBytes));
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) {
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  cudaEvent_t event;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  REQUIRE(cudaDeviceSynchronize());
  cudaMemPool_t by_default;
  REQUIRE(cudaDeviceGetDefaultMemPool(&by_default, 0));
  const cudaMemPool_t own = OwnPool();
  Sum sum;
  for (int step = 0; step < kSteps; ++step) Step(state, own, streams, event, step, &sum);
  void* held = nullptr;
  REQUIRE(cudaMallocAsync(&held, kBytes, streams[0]));
  CheckAttributes(by_default, kBytes);
  REQUIRE(cudaFreeAsync(held, streams[0]));
  REQUIRE(cudaStreamSynchronize(streams[0]));
  REQUIRE(cudaMemPoolTrimTo(by_default, 0));
  REQUIRE(cudaMemPoolTrimTo(own, 0));
  REQUIRE(cudaMemPoolDestroy(own));
  REQUIRE(cudaFree(state));
  for (cudaStream_t stream : streams) REQUIRE(cudaStreamDestroy(stream));
  sum.Print();
  return 0;
}
