// Tests on the simulated driver, which the test is linked to (tests/simcuda).
#ifndef EBBTIDE_TESTS_UNIT_SIMULATED_DEVICE_H_
#define EBBTIDE_TESTS_UNIT_SIMULATED_DEVICE_H_

#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "src/driver/driver_api.h"
#include "tests/simcuda/simcuda.h"

namespace ebt::test {

// How many operations a storm of them has. Under a sanitizer the simulator is slow, and what is
// looked for there, who locks what above all, shows in a few.
constexpr int StormOf(int operations) {
#if defined(__SANITIZE_THREAD__)
  return operations / 10;
#elif defined(__SANITIZE_ADDRESS__)
  return operations / 4;
#else
  return operations;
#endif
}

inline const DriverApi& SimulatedDriver() {
  static const DriverApi driver =
      LoadDriverApi([](const char* name) { return dlsym(RTLD_DEFAULT, name); }).value();
  return driver;
}

// Device 0 with its primary context current and no faults seeded.
class SimulatedDevice : public ::testing::Test {
 protected:
  SimulatedDevice() {
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    SetFaults("");
  }
  ~SimulatedDevice() override {
    SetFaults("");
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS) << "the device has faulted";
    cuCtxSetCurrent(nullptr);
    cuDevicePrimaryCtxReset(0);
    cuDevicePrimaryCtxRelease(0);
  }

  static void SetFaults(const char* list) { ASSERT_EQ(simcuda_set_faults(list), 1) << list; }
  static uint64_t DeviceBytes() { return simcuda_device_bytes(0); }
  // A stream that does not wait for the legacy one.
  static CUstream NewStream() {
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
  }

  CUcontext context_ = nullptr;
};

}  // namespace ebt::test

#endif  // EBBTIDE_TESTS_UNIT_SIMULATED_DEVICE_H_
