// What a program can ask about memory.
#ifndef EBBTIDE_HOOKS_QUERY_H_
#define EBBTIDE_HOOKS_QUERY_H_

#include "hooks/front.h"

namespace ebt::front {

template <Slot slot, Mode mode>
CUresult MemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  EBT_ENTER(MemGetInfo);
  CUresult result;
  if (entry.core && entry.core->mem_info(free_bytes, total_bytes, &result)) return result;
  return real(free_bytes, total_bytes);
}

template <Slot slot, Mode mode>
CUresult MemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr ptr) {
  EBT_ENTER(MemGetAddressRange);
  CUresult result;
  if (entry.core && entry.core->address_range(base, bytes, ptr, &result)) return result;
  return real(base, bytes, ptr);
}

template <Slot slot, Mode mode>
CUresult PointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
  EBT_ENTER(PointerGetAttribute);
  const CUresult result = real(value, attribute, ptr);
  if (entry.core && result == CUDA_SUCCESS) entry.core->pointer_attribute(attribute, value, ptr);
  return result;
}

template <Slot slot, Mode mode>
CUresult PointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                              CUdeviceptr ptr) {
  EBT_ENTER(PointerGetAttributes);
  const CUresult result = real(count, attributes, values, ptr);
  for (unsigned i = 0; entry.core && result == CUDA_SUCCESS && i < count; ++i)
    entry.core->pointer_attribute(attributes[i], values[i], ptr);
  return result;
}

template <Slot slot, Mode mode>
CUresult IpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr ptr) {
  EBT_ENTER(IpcGetMemHandle);
  const CUresult result = real(handle, ptr);
  if (entry.core) entry.core->lifecycle(EBT_BLOCK_EXPORTED, reinterpret_cast<void*>(ptr), &result);
  return result;
}

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_QUERY_H_
