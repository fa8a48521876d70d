#include "src/record/device_watch.h"

#include <algorithm>

#include "src/base/units.h"

namespace ebt::record {
namespace {

// The driver serves small allocations from pieces of this size.
constexpr uint64_t kDriverPiece = 2 * kMiB;

bool AskMemory(const DriverApi& driver, size_t& free, size_t& total) {
  return driver.fn_cuMemGetInfo_v2 != nullptr &&
         driver.fn_cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS && free <= total;
}

bool UsedBytes(const DriverApi& driver, uint64_t& used) {
  size_t free = 0, total = 0;
  if (!AskMemory(driver, free, total)) return false;
  used = total - free;
  return true;
}

}  // namespace

// Pools take memory from the device in pieces of their own; what they hold is theirs to say.
uint64_t DeviceWatch::BytesOfFirst(const ebt_alloc& request, CUdevice device) const {
  if (request.kind == EBT_ALLOC_MANAGED) return 0;
  if (request.kind == EBT_ALLOC_ASYNC || request.kind == EBT_ALLOC_POOL) {
    CUmemoryPool pool = request.pool;
    if (request.kind == EBT_ALLOC_ASYNC && driver_.fn_cuDeviceGetMemPool != nullptr) {
      driver_.fn_cuDeviceGetMemPool(&pool, device);
    }
    cuuint64_t reserved = 0;
    if (pool != nullptr && driver_.fn_cuMemPoolGetAttribute != nullptr &&
        driver_.fn_cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) ==
            CUDA_SUCCESS) {
      return reserved;
    }
  }
  return AlignUp(request.bytes, kDriverPiece);
}

void DeviceWatch::Allocated(const ebt_alloc& request, CUcontext context, CUdevice device) {
  if (seen_.load(std::memory_order_relaxed) || seen_.exchange(true)) return;
  uint64_t used = 0;
  const bool measured = UsedBytes(driver_, used);
  const uint64_t own = BytesOfFirst(request, device);
  std::lock_guard lock(mutex_);
  context_ = context;
  device_ = device;
  has_base_ = measured;
  base_ = used > own ? used - own : 0;
  peak_ = used;
}

// Makes the watched context current. False: there is none.
bool DeviceWatch::EnterContext(CUdevice* device) {
  CUcontext context = nullptr;
  {
    std::lock_guard lock(mutex_);
    context = context_;
    *device = device_;
  }
  return context != nullptr && driver_.fn_cuCtxSetCurrent != nullptr &&
         driver_.fn_cuCtxSetCurrent(context) == CUDA_SUCCESS;
}

void DeviceWatch::Sample() {
  CUdevice device = 0;
  uint64_t used = 0;
  if (!EnterContext(&device) || !UsedBytes(driver_, used)) return;
  std::lock_guard lock(mutex_);
  peak_ = std::max(peak_, used);
}

void DeviceWatch::Memory(CUdevice device, uint64_t& free_bytes, uint64_t& total_bytes) {
  CUdevice watched = 0;
  size_t free = 0, total = 0;
  if (!EnterContext(&watched) || watched != device || !AskMemory(driver_, free, total)) return;
  free_bytes = free;
  total_bytes = total;
}

void DeviceWatch::ContextGone(CUcontext context) {
  std::lock_guard lock(mutex_);
  if (context == nullptr || context == context_) context_ = nullptr;
}

CUcontext DeviceWatch::context() {
  std::lock_guard lock(mutex_);
  return context_;
}

void DeviceWatch::Metadata(std::map<std::string, std::string>& changed) {
  std::unique_lock lock(mutex_);
  if (has_base_ && !base_told_) changed["device_used_base_bytes"] = std::to_string(base_);
  base_told_ = has_base_;
  if (peak_ > told_peak_) changed["device_used_peak_bytes"] = std::to_string(peak_);
  told_peak_ = peak_;
  if (described_ || context_ == nullptr) return;
  described_ = true;
  const CUdevice device = device_;
  lock.unlock();
  char name[256] = "";
  if (driver_.fn_cuDeviceGetName != nullptr &&
      driver_.fn_cuDeviceGetName(name, sizeof(name), device) == CUDA_SUCCESS) {
    changed["gpu"] = name;
  }
  size_t total = 0;
  if (driver_.fn_cuDeviceTotalMem_v2 != nullptr &&
      driver_.fn_cuDeviceTotalMem_v2(&total, device) == CUDA_SUCCESS) {
    changed["total_bytes"] = std::to_string(total);
  }
}

}  // namespace ebt::record
