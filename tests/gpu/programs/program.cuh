// What the plain CUDA programs share: kernels, checks, and the sum of all that came back.
//
// Each program takes kSteps like steps that launch, allocate and free, so that a recording of it
// can be planned, and ends with the line "result HEX". The same build gives the same number.
#ifndef EBBTIDE_TESTS_GPU_PROGRAMS_PROGRAM_CUH_
#define EBBTIDE_TESTS_GPU_PROGRAMS_PROGRAM_CUH_

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <vector>

constexpr int kSteps = 24;
constexpr size_t kCount = 1 << 18;  // floats of a buffer
constexpr size_t kBytes = kCount * sizeof(float);
constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = kCount / kThreads;

inline void Require(cudaError_t error, const char* call, int line) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorString(error));
  exit(1);
}
inline void Require(CUresult result, const char* call, int line) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "line %d: %s: CUresult %d\n", line, call, static_cast<int>(result));
  exit(1);
}
#define REQUIRE(call) Require(call, #call, __LINE__)

static __global__ void Fill(float* p, float value, size_t n) {
  const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  if (i < n) p[i] = value + static_cast<float>(i % 1021);
}

static __global__ void Axpy(float* y, const float* x, float a, size_t n) {
  const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  if (i < n) y[i] = __fadd_rn(y[i], __fmul_rn(a, x[i]));
}

static __global__ void Halve(float* y, const float* x, size_t n) {
  const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  if (i < n) y[i] = __fmul_rn(0.5f, x[i]);
}

// FNV-1a over all bytes in the order in which they are added.
class Sum {
 public:
  void Add(const void* bytes, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      sum_ = (sum_ ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3u;
    }
  }
  void AddDevice(const float* p, size_t count) {
    std::vector<float> host(count);
    REQUIRE(cudaMemcpy(host.data(), p, count * sizeof(float), cudaMemcpyDeviceToHost));
    Add(host.data(), count * sizeof(float));
  }
  uint64_t value() const { return sum_; }
  void Print() const { printf("result %016llx\n", static_cast<unsigned long long>(sum_)); }

 private:
  uint64_t sum_ = 0xcbf29ce484222325u;
};

inline float* Allocated(size_t bytes) {
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, bytes));
  return static_cast<float*>(p);
}

#endif  // EBBTIDE_TESTS_GPU_PROGRAMS_PROGRAM_CUH_
