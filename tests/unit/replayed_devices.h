// An application of two simulated devices under replay.
#ifndef EBBTIDE_TESTS_UNIT_REPLAYED_DEVICES_H_
#define EBBTIDE_TESTS_UNIT_REPLAYED_DEVICES_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "tests/unit/replayed_program.h"

namespace ebt::replay {

// Two devices of 100 MiB, of which device 0 is the one that is planned; chunks have 32 MiB.
class ReplayerDevicesTest : public ReplayerTest {
 protected:
  static void SetUpTestSuite() {
    setenv("SIMCUDA_DEVICES", "2", 1);  // read at the driver's first call
    setenv("SIMCUDA_MEMORY", "100MiB", 1);
    ReplayerTest::SetUpTestSuite();
  }
  ReplayerDevicesTest() {
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&other_, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  }
  ~ReplayerDevicesTest() override {
    cuCtxSetCurrent(context_);
    for (CUmemoryPool pool : pools_) EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
    cuDevicePrimaryCtxReset(1);
  }

  static constexpr uint64_t kPlannedWarm = 64 * kMiB, kPlannedCold = 32 * kMiB;
  // Warm slots are at [0, 64 MiB), cold ones, if any, at [64 MiB, 96 MiB).
  void ReplayLarge(std::vector<Slot> prologue, bool managed = true, uint64_t host_budget = kGiB) {
    plan::Plan plan;
    plan.prologue = std::move(prologue);
    plan.warm_bytes = kPlannedWarm;
    for (const Slot& slot : plan.prologue)
      if (slot.tier == Tier::kCold) plan.cold_bytes = kPlannedCold;
    ReplayOptions options;
    options.cold = managed ? Cold::kManaged : Cold::kOff;
    options.host_budget = host_budget;
    options.guard = &Guard;
    replayer_ = std::make_unique<Replayer>(test::SimulatedDriver(), plan, options);
  }
  static Slot Native(uint64_t bytes) {
    Slot slot = Warm(bytes, 0);
    slot.tier = Tier::kNative;
    return slot;
  }

  Given AllocateFrom(CUmemoryPool pool, uint64_t bytes, CUstream stream) {
    return Allocate({EBT_ALLOC_POOL, bytes, stream, pool});
  }
  // A pool of the driver's, announced as the front does.
  CUmemoryPool NewPool(CUdevice device, CUmemAllocationHandleType handle_types, bool announced) {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.handleTypes = handle_types;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    CUmemoryPool pool = nullptr;
    EXPECT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
    if (announced) replayer_->PoolCreated(pool, properties);
    pools_.push_back(pool);
    return pool;
  }

  // An attribute as a program reads it through the front.
  template <typename T>
  T Attribute(CUpointer_attribute attribute, CUdeviceptr ptr) {
    T value{};
    CUresult result = cuPointerGetAttribute(&value, attribute, ptr);
    replayer_->PointerAttribute(attribute, &value, ptr, &result);
    EXPECT_EQ(result, CUDA_SUCCESS);
    return value;
  }
  static int DeviceOf(CUdeviceptr ptr) {
    int device = -1;
    EXPECT_EQ(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr),
              CUDA_SUCCESS);
    return device;
  }

  // Device 1 fills the block's first page; true when device 0 reads what was written there.
  bool PeerWrites(CUdeviceptr ptr, unsigned char value) {
    EXPECT_EQ(cuCtxSetCurrent(other_), CUDA_SUCCESS);
    const CUstream stream = NewStream();
    CUresult result = cuMemsetD8Async(ptr, value, 4096, stream);
    if (result == CUDA_SUCCESS) result = cuStreamSynchronize(stream);
    EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    unsigned char read = 0;
    EXPECT_EQ(cuMemcpyDtoH(&read, ptr + 4095, 1), CUDA_SUCCESS);
    return result == CUDA_SUCCESS && read == value;
  }
  // Device 1's context is let into device 0's memory.
  void EnablePeer() {
    ASSERT_EQ(cuCtxSetCurrent(other_), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxEnablePeerAccess(context_, 0), CUDA_SUCCESS);
    replayer_->PeerEnabled(context_);
    CUcontext current = nullptr;
    ASSERT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, other_);
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  }
  void SetPoolAccess(CUmemoryPool pool, CUmemAccess_flags flags) {
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {1}}, flags};
    ASSERT_EQ(cuMemPoolSetAccess(pool, &access, 1), CUDA_SUCCESS);
    replayer_->PoolAccess(pool, access);
  }

  CUcontext other_ = nullptr;
  std::vector<CUmemoryPool> pools_;  // ended with the test
};

}  // namespace ebt::replay

#endif  // EBBTIDE_TESTS_UNIT_REPLAYED_DEVICES_H_
