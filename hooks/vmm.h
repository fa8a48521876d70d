// Virtual memory management: a program's own handles are the driver's, and recorded for what they
// take; what we hold and nobody uses must not be what they lack.
#ifndef EBBTIDE_HOOKS_VMM_H_
#define EBBTIDE_HOOKS_VMM_H_

#include "hooks/alloc.h"

namespace ebt::front {

template <Slot slot, Mode mode>
CUresult MemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                   const CUmemAllocationProp* properties, unsigned long long flags) {
  EBT_ENTER(MemCreate);
  const CUresult result =
      Retried(entry.core, [&] { return real(handle, bytes, properties, flags); });
  const bool on_device = properties && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (!entry.core || !on_device) return result;
  const ebt_alloc request = {EBT_ALLOC_VMM, bytes, nullptr, nullptr};
  if (result == CUDA_SUCCESS) {
    entry.core->allocated(&request, *handle);
  } else {
    entry.core->alloc_failed(&request, result);
  }
  return result;
}

template <Slot slot, Mode mode>
CUresult MemRelease(CUmemGenericAllocationHandle handle) {
  EBT_ENTER(MemRelease);
  if (entry.core)
    entry.core->lifecycle(EBT_HANDLE_RELEASED, reinterpret_cast<void*>(handle), nullptr);
  return real(handle);
}

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_VMM_H_
