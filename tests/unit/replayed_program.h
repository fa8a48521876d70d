// An application under replay on the simulated driver.
#ifndef EBBTIDE_TESTS_UNIT_REPLAYED_PROGRAM_H_
#define EBBTIDE_TESTS_UNIT_REPLAYED_PROGRAM_H_

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/units.h"
#include "src/callsite/callsite.h"
#include "src/replay/replayer.h"
#include "tests/unit/simulated_device.h"

namespace ebt::replay {

using plan::Slot;
using plan::Tier;

inline int* Guard() {
  thread_local int guard = 0;
  return &guard;
}

// No fingerprint: order and size alone decide.
inline Slot Warm(uint64_t bytes, uint64_t offset) {
  Slot slot;
  slot.bytes = bytes;
  slot.offset = offset;
  slot.site = 1;
  return slot;
}
inline Slot Cold(uint64_t bytes, uint64_t offset) {
  Slot slot = Warm(bytes, offset);
  slot.tier = Tier::kCold;
  slot.persistent = true;
  return slot;
}

// An application behind the front: asks the replayer first and the driver where it declines.
class ReplayerTest : public test::SimulatedDevice {
 protected:
  static void SetUpTestSuite() { callsite::Initialize(&dlsym); }

  // warm: 4 MiB, cold: 4 MiB at most.
  void Replay(std::vector<Slot> prologue, std::vector<Slot> step, bool managed = true,
              uint64_t budget = 0, uint64_t host_budget = kGiB) {
    plan::Plan plan;
    plan.prologue = std::move(prologue);
    plan.step = std::move(step);
    plan.warm_bytes = kWarm;
    for (const Slot& slot : plan.prologue)
      if (slot.tier == Tier::kCold) plan.cold_bytes = 4 * kMiB;
    ReplayOptions options;
    options.cold = managed ? Cold::kManaged : Cold::kOff;
    options.budget = budget;
    options.host_budget = host_budget;
    options.guard = &Guard;
    replayer_ = std::make_unique<Replayer>(test::SimulatedDriver(), plan, options);
  }
  ~ReplayerTest() override {
    cuCtxSynchronize();
    replayer_.reset();
  }

  struct Given {
    CUdeviceptr ptr = 0;
    bool served = false;
    CUresult result = CUDA_SUCCESS;
  };
  Given Allocate(const ebt_alloc& request) {
    Given given;
    given.served = replayer_->Alloc(request, &given.ptr, &given.result);
    if (given.served) return given;
    if (request.kind == EBT_ALLOC_LINEAR) {
      given.result = cuMemAlloc(&given.ptr, request.bytes);
    } else if (request.kind == EBT_ALLOC_POOL) {
      given.result =
          cuMemAllocFromPoolAsync(&given.ptr, request.bytes, request.pool, request.stream);
    } else {
      given.result = cuMemAllocAsync(&given.ptr, request.bytes, request.stream);
    }
    if (given.result == CUDA_SUCCESS) replayer_->Native(request, given.ptr);
    return given;
  }
  Given AllocateAsync(uint64_t bytes, CUstream stream) {
    return Allocate({EBT_ALLOC_ASYNC, bytes, stream, nullptr});
  }
  Given AllocateLinear(uint64_t bytes) {
    return Allocate({EBT_ALLOC_LINEAR, bytes, nullptr, nullptr});
  }
  CUresult FreeAsync(CUdeviceptr ptr, CUstream stream) {
    CUresult result = CUDA_SUCCESS;
    if (replayer_->Free(ptr, stream, true, &result)) return result;
    return cuMemFreeAsync(ptr, stream);
  }
  CUresult Free(CUdeviceptr ptr) {
    CUresult result = CUDA_SUCCESS;
    if (replayer_->Free(ptr, nullptr, false, &result)) return result;
    return cuMemFree(ptr);
  }
  static CUmemoryPool DefaultPool(CUdevice device) {
    CUmemoryPool pool = nullptr;
    EXPECT_EQ(cuDeviceGetDefaultMemPool(&pool, device), CUDA_SUCCESS);
    return pool;
  }
  uint64_t PoolValue(CUmemoryPool pool, CUmemPool_attribute attribute) {
    cuuint64_t value = 0;
    CUresult result = CUDA_SUCCESS;
    if (!replayer_->PoolGet(pool, attribute, &value, &result))
      result = cuMemPoolGetAttribute(pool, attribute, &value);
    EXPECT_EQ(result, CUDA_SUCCESS);
    return value;
  }
  uint64_t PoolValue(CUmemPool_attribute attribute) { return PoolValue(DefaultPool(0), attribute); }
  void ResetPeak(CUmemoryPool pool, CUmemPool_attribute attribute) {
    cuuint64_t zero = 0;
    CUresult result = CUDA_SUCCESS;
    if (!replayer_->PoolSet(pool, attribute, &zero, &result))
      result = cuMemPoolSetAttribute(pool, attribute, &zero);
    EXPECT_EQ(result, CUDA_SUCCESS);
  }
  void ResetPeak(CUmemPool_attribute attribute) { ResetPeak(DefaultPool(0), attribute); }
  struct Info {
    size_t free = 0, total = 0;
  };
  Info MemInfo() {
    Info info;
    CUresult result = CUDA_SUCCESS;
    EXPECT_TRUE(replayer_->MemInfo(&info.free, &info.total, &result));
    EXPECT_EQ(result, CUDA_SUCCESS);
    return info;
  }

  static constexpr uint64_t kWarm = 4 * kMiB;
  std::unique_ptr<Replayer> replayer_;
};

}  // namespace ebt::replay

#endif  // EBBTIDE_TESTS_UNIT_REPLAYED_PROGRAM_H_
