// A context on the simulated driver: two devices of 256 MiB, no faults seeded, nothing allocated.
#ifndef EBBTIDE_TESTS_UNIT_SIMCUDA_FIXTURE_H_
#define EBBTIDE_TESTS_UNIT_SIMCUDA_FIXTURE_H_

#include <cuda.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>

#include "tests/simcuda/simcuda.h"

namespace ebt {

inline constexpr uint64_t kMiB = 1 << 20;

class SimCuda : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Read at the first call of the process.
    setenv("SIMCUDA_MEMORY", "256MiB", 1);
    setenv("SIMCUDA_DEVICES", "2", 1);
  }

  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleLoadData(&module_, "any image"), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(simcuda_device_bytes(0), 0u);
    simcuda_reset_peak(0);
  }

  void TearDown() override {
    simcuda_set_faults(nullptr);
    cuDevicePrimaryCtxReset(0);
    cuDevicePrimaryCtxReset(1);
  }

  CUfunction Function(const char* name) {
    CUfunction function = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&function, module_, name), CUDA_SUCCESS);
    return function;
  }

  CUdeviceptr Allocate(uint64_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc(&address, bytes), CUDA_SUCCESS);
    return address;
  }

  void* AllocateHost(uint64_t bytes) {
    void* address = nullptr;
    EXPECT_EQ(cuMemHostAlloc(&address, bytes, 0), CUDA_SUCCESS);
    return address;
  }

  CUresult Fill(CUdeviceptr p, float value, uint64_t n, CUstream stream) {
    void* arguments[] = {&p, &value, &n};
    const auto blocks = static_cast<unsigned>((n + 255) / 256);
    return cuLaunchKernel(Function("ebt_fill"), blocks, 1, 1, 256, 1, 1, 0, stream, arguments,
                          nullptr);
  }

  // Keeps the stream busy for 0.1 ns an element: 10 million of them are a millisecond.
  CUresult Occupy(CUdeviceptr memory, uint64_t n, CUstream stream) {
    void* arguments[] = {&memory, &memory, &memory, &n};
    const auto blocks = static_cast<unsigned>((n + 255) / 256);
    return cuLaunchKernel(Function("ebt_mix"), blocks, 1, 1, 256, 1, 1, 0, stream, arguments,
                          nullptr);
  }

  CUmemGenericAllocationHandle Create(uint64_t bytes, CUmemLocationType where) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {where, 0};
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, bytes, &properties, 0), CUDA_SUCCESS);
    return handle;
  }

  void MapAt(CUdeviceptr address, uint64_t bytes, CUmemGenericAllocationHandle handle) {
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    ASSERT_EQ(cuMemMap(address, bytes, 0, handle, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemSetAccess(address, bytes, &access, 1), CUDA_SUCCESS);
  }

  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUstream stream_ = nullptr;
};

}  // namespace ebt

#endif  // EBBTIDE_TESTS_UNIT_SIMCUDA_FIXTURE_H_
