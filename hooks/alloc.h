// Linear, pitched and managed memory.
#ifndef EBBTIDE_HOOKS_ALLOC_H_
#define EBBTIDE_HOOKS_ALLOC_H_

#include "hooks/front.h"

namespace ebt::front {

// The driver's answer; out of memory only when it is so without what the core holds and nobody
// uses.
template <typename RealCall>
CUresult Retried(const ebt_core* core, RealCall real_call) {
  const CUresult result = real_call();
  if (!core || result != CUDA_ERROR_OUT_OF_MEMORY) return result;
  core->pool_trim(nullptr, 0);
  return real_call();
}

// The one order of events of every allocation: ask the core, else the driver, then report.
template <typename RealCall>
CUresult Allocate(const ebt_core* core, ebt_alloc request, CUdeviceptr* ptr, RealCall real_call) {
  CUresult result;
  if (core && ptr && core->alloc(&request, ptr, &result)) return result;
  result = Retried(core, real_call);
  if (core && ptr) {
    if (result == CUDA_SUCCESS) {
      core->allocated(&request, *ptr);
    } else {
      core->alloc_failed(&request, result);
    }
  }
  return result;
}

template <Slot slot, Mode mode>
CUresult MemAlloc(CUdeviceptr* ptr, size_t bytes) {
  EBT_ENTER(MemAlloc);
  return Allocate(entry.core, {EBT_ALLOC_LINEAR, bytes, nullptr, nullptr}, ptr,
                  [&] { return real(ptr, bytes); });
}

template <Slot slot, Mode mode>
CUresult MemAllocPitch(CUdeviceptr* ptr, size_t* pitch, size_t width, size_t height,
                       unsigned element) {
  EBT_ENTER(MemAllocPitch);
  const CUresult result =
      Retried(entry.core, [&] { return real(ptr, pitch, width, height, element); });
  if (entry.core && result == CUDA_SUCCESS) {
    const ebt_alloc request = {EBT_ALLOC_PITCHED, *pitch * height, nullptr, nullptr};
    entry.core->allocated(&request, *ptr);
  }
  return result;
}

template <Slot slot, Mode mode>
CUresult MemAllocManaged(CUdeviceptr* ptr, size_t bytes, unsigned flags) {
  EBT_ENTER(MemAllocManaged);
  const CUresult result = Retried(entry.core, [&] { return real(ptr, bytes, flags); });
  if (entry.core && result == CUDA_SUCCESS) {
    const ebt_alloc request = {EBT_ALLOC_MANAGED, bytes, nullptr, nullptr};
    entry.core->allocated(&request, *ptr);
  }
  return result;
}

template <Slot slot, Mode mode>
CUresult MemFree(CUdeviceptr ptr) {
  EBT_ENTER(MemFree);
  CUresult result;
  if (entry.core && ptr && entry.core->free(ptr, nullptr, 0, &result)) return result;
  return real(ptr);
}

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_ALLOC_H_
