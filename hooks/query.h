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
  CUresult result = real(value, attribute, ptr);
  if (entry.core && value) entry.core->pointer_attribute(attribute, value, ptr, &result);
  return result;
}

template <Slot slot, Mode mode>
CUresult PointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                              CUdeviceptr ptr) {
  EBT_ENTER(PointerGetAttributes);
  const CUresult result = real(count, attributes, values, ptr);
  if (!entry.core || result != CUDA_SUCCESS) return result;
  for (unsigned i = 0; i < count; ++i) {
    CUresult of_one = CUDA_SUCCESS;
    if (values[i]) entry.core->pointer_attribute(attributes[i], values[i], ptr, &of_one);
  }
  return result;
}

template <Slot slot, Mode mode>
CUresult PointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
  EBT_ENTER(PointerSetAttribute);
  CUresult result;
  if (entry.core && entry.core->pointer_set(attribute, value, ptr, &result)) return result;
  result = real(value, attribute, ptr);
  // Whoever asks for this is about to let a device of another kind reach the block.
  if (entry.core && result == CUDA_SUCCESS && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
    entry.core->lifecycle(EBT_BLOCK_EXPORTED, reinterpret_cast<void*>(ptr), &result);
  return result;
}

// The one order of events of every export: ask the core, else the driver, then report.
template <typename RealCall>
CUresult Export(const ebt_core* core, int way, CUdeviceptr ptr, RealCall real_call) {
  CUresult result;
  if (core && core->export_block(way, ptr, &result)) return result;
  result = real_call();
  // IPC is also reported where it fails: under a stream-ordered allocator that a recording has
  // asked for, what works without it is refused. The others are tried out on any memory.
  if (core && (result == CUDA_SUCCESS || way == EBT_EXPORT_IPC))
    core->lifecycle(EBT_BLOCK_EXPORTED, reinterpret_cast<void*>(ptr), &result);
  return result;
}

template <Slot slot, Mode mode>
CUresult IpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr ptr) {
  EBT_ENTER(IpcGetMemHandle);
  return Export(entry.core, EBT_EXPORT_IPC, ptr, [&] { return real(handle, ptr); });
}

template <Slot slot, Mode mode>
CUresult MemGetHandleForAddressRange(void* handle, CUdeviceptr ptr, size_t bytes,
                                     CUmemRangeHandleType type, unsigned long long flags) {
  EBT_ENTER(MemGetHandleForAddressRange);
  return Export(entry.core, EBT_EXPORT_RANGE, ptr,
                [&] { return real(handle, ptr, bytes, type, flags); });
}

template <Slot slot, Mode mode>
CUresult MemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  EBT_ENTER(MemRetainAllocationHandle);
  return Export(entry.core, EBT_EXPORT_HANDLE, reinterpret_cast<CUdeviceptr>(address),
                [&] { return real(handle, address); });
}

template <Slot slot, Mode mode>
CUresult MemPoolExportPointer(CUmemPoolPtrExportData* data, CUdeviceptr ptr) {
  EBT_ENTER(MemPoolExportPointer);
  return Export(entry.core, EBT_EXPORT_POOL_POINTER, ptr, [&] { return real(data, ptr); });
}

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_QUERY_H_
