// Tests on a real GPU. Where there is none they are skipped and say why.
#ifndef EBBTIDE_TESTS_GPU_GPU_DEVICE_H_
#define EBBTIDE_TESTS_GPU_GPU_DEVICE_H_

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/driver/driver_api.h"

namespace ebt::test {

// What the tests call beyond DriverApi. X(exported symbol, parameters)
#define EBT_GPU_FUNCTIONS(X)                                                                 \
  X(cuInit, (unsigned))                                                                      \
  X(cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice))                                        \
  X(cuModuleLoadData, (CUmodule*, const void*))                                              \
  X(cuModuleGetFunction, (CUfunction*, CUmodule, const char*))                               \
  X(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                     unsigned, CUstream, void**, void**))                                    \
  X(cuMemsetD32Async, (CUdeviceptr, unsigned, size_t, CUstream))                             \
  X(cuMemcpyDtoHAsync_v2, (void*, CUdeviceptr, size_t, CUstream))                            \
  X(cuMemcpyDtoH_v2, (void*, CUdeviceptr, size_t))                                           \
  X(cuMemHostAlloc, (void**, size_t, unsigned))                                              \
  X(cuMemFreeHost, (void*))

struct Gpu {
  std::string missing;  // why there is no GPU to test on; empty: there is one
  void* library = nullptr;
  bool simulated = false;
  std::string name;
  CUdevice device = 0;
  CUcontext context = nullptr;  // the primary context, current in the thread that asked first
  DriverApi driver;
#define EBT_GPU_MEMBER(name, parameters) CUresult(*fn_##name) parameters = nullptr;
  EBT_GPU_FUNCTIONS(EBT_GPU_MEMBER)
#undef EBT_GPU_MEMBER

  // The driver's own export, NULL if it has none.
  void* Symbol(const char* symbol) const;
};

// Device 0 of libcuda.so.1, looked for once a process. The simulated driver is no GPU, unless
// TEST_ON_SIMULATED=1 asks for a trial of the tests themselves.
const Gpu& TheGpu();

// Waits up to ten seconds for `done`, since the driver gives memory back a little later than it
// says so; returns done().
bool Await(const std::function<bool()>& done);

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Bytes of the device's memory in use, whoever uses them.
  uint64_t UsedBytes() const;
  // The same once it has stopped changing: what ended just now may still be giving back.
  uint64_t SettledBytes() const;
  // A stream that does not wait for the legacy one; destroyed with the test.
  CUstream NewStream();
  // A kernel of the demo's PTX (tests/simcuda/kernel_abi.h says what each computes).
  CUfunction Kernel(const char* name) const;
  // One figure for the reader, marked where it is the simulated driver's.
  void Say(const std::string& figure) const;

  const Gpu& gpu_ = TheGpu();

 private:
  std::vector<CUstream> streams_;
};

}  // namespace ebt::test

#endif  // EBBTIDE_TESTS_GPU_GPU_DEVICE_H_
