// The driver functions that the trainer calls, found the way CUDA programs find them.
#ifndef EBBTIDE_TESTS_DEMO_DRIVER_H_
#define EBBTIDE_TESTS_DEMO_DRIVER_H_

#include <cuda.h>

#include <string>

namespace demo {

// X(exported symbol, base name, CUDA version of that ABI)
#define DEMO_DRIVER_FUNCTIONS(X)                                   \
  X(cuInit, "cuInit", 2000)                                        \
  X(cuDeviceGet, "cuDeviceGet", 2000)                              \
  X(cuDeviceGetName, "cuDeviceGetName", 2000)                      \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000)    \
  X(cuCtxSetCurrent, "cuCtxSetCurrent", 4000)                      \
  X(cuCtxSynchronize, "cuCtxSynchronize", 2000)                    \
  X(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", 11020) \
  X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020)         \
  X(cuModuleLoadData, "cuModuleLoadData", 2000)                    \
  X(cuModuleGetFunction, "cuModuleGetFunction", 2000)              \
  X(cuLibraryLoadData, "cuLibraryLoadData", 12000)                 \
  X(cuLibraryGetKernel, "cuLibraryGetKernel", 12000)               \
  X(cuMemAlloc_v2, "cuMemAlloc", 3020)                             \
  X(cuMemFree_v2, "cuMemFree", 3020)                               \
  X(cuMemAllocAsync, "cuMemAllocAsync", 11020)                     \
  X(cuMemFreeAsync, "cuMemFreeAsync", 11020)                       \
  X(cuMemHostAlloc, "cuMemHostAlloc", 2020)                        \
  X(cuMemFreeHost, "cuMemFreeHost", 2000)                          \
  X(cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 3020)               \
  X(cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", 3020)               \
  X(cuMemsetD8Async, "cuMemsetD8Async", 3020)                      \
  X(cuStreamCreate, "cuStreamCreate", 2000)                        \
  X(cuStreamSynchronize, "cuStreamSynchronize", 2000)              \
  X(cuStreamDestroy_v2, "cuStreamDestroy", 4000)                   \
  X(cuEventCreate, "cuEventCreate", 2000)                          \
  X(cuEventRecord, "cuEventRecord", 2000)                          \
  X(cuEventSynchronize, "cuEventSynchronize", 2000)                \
  X(cuEventElapsedTime, "cuEventElapsedTime", 2000)                \
  X(cuEventDestroy_v2, "cuEventDestroy", 4000)                     \
  X(cuLaunchKernel, "cuLaunchKernel", 4000)                        \
  X(cuGetErrorName, "cuGetErrorName", 6000)

struct Driver {
#define DEMO_MEMBER(symbol, base, version) decltype(&symbol) fn_##symbol = nullptr;
  DEMO_DRIVER_FUNCTIONS(DEMO_MEMBER)
#undef DEMO_MEMBER
  // Of the device's memory in use at the most; null on a real driver.
  unsigned long long (*peak_bytes)(int device) = nullptr;

  // Throws std::runtime_error that names the call when `result` is no success.
  void Check(CUresult result, const char* call) const;
};

enum class Via { kProcAddress, kDlsym };

// Throws std::runtime_error when libcuda.so.1 or one of its functions cannot be found.
Driver LoadDriver(Via via);

}  // namespace demo

#endif  // EBBTIDE_TESTS_DEMO_DRIVER_H_
