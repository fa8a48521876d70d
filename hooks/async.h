// Stream-ordered memory and its pools.
#ifndef EBBTIDE_HOOKS_ASYNC_H_
#define EBBTIDE_HOOKS_ASYNC_H_

#include "hooks/alloc.h"

namespace ebt::front {

template <Slot slot, Mode mode>
CUresult MemAllocAsync(CUdeviceptr* ptr, size_t bytes, CUstream stream) {
  EBT_ENTER(MemAllocAsync);
  return Allocate(entry.core, {EBT_ALLOC_ASYNC, bytes, Normalized<mode>(stream), nullptr}, ptr,
                  [&] { return real(ptr, bytes, stream); });
}

template <Slot slot, Mode mode>
CUresult MemAllocFromPoolAsync(CUdeviceptr* ptr, size_t bytes, CUmemoryPool pool, CUstream stream) {
  EBT_ENTER(MemAllocFromPoolAsync);
  return Allocate(entry.core, {EBT_ALLOC_POOL, bytes, Normalized<mode>(stream), pool}, ptr,
                  [&] { return real(ptr, bytes, pool, stream); });
}

template <Slot slot, Mode mode>
CUresult MemFreeAsync(CUdeviceptr ptr, CUstream stream) {
  EBT_ENTER(MemFreeAsync);
  CUresult result;
  if (entry.core && ptr && entry.core->free(ptr, Normalized<mode>(stream), 1, &result))
    return result;
  return real(ptr, stream);
}

template <Slot slot, Mode mode>
CUresult MemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  EBT_ENTER(MemPoolCreate);
  const CUresult result = real(pool, properties);
  if (entry.core && result == CUDA_SUCCESS)
    entry.core->lifecycle(EBT_POOL_CREATE, *pool, properties);
  return result;
}

template <Slot slot, Mode mode>
CUresult MemPoolDestroy(CUmemoryPool pool) {
  EBT_ENTER(MemPoolDestroy);
  if (entry.core) entry.core->lifecycle(EBT_POOL_DESTROY, pool, nullptr);
  return real(pool);
}

template <Slot slot, Mode mode>
CUresult MemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* access, size_t count) {
  EBT_ENTER(MemPoolSetAccess);
  const CUresult result = real(pool, access, count);
  for (size_t i = 0; entry.core && result == CUDA_SUCCESS && i < count; ++i)
    entry.core->lifecycle(EBT_POOL_ACCESS, pool, &access[i]);
  return result;
}

template <Slot slot, Mode mode>
CUresult MemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes) {
  EBT_ENTER(MemPoolTrimTo);
  if (entry.core) entry.core->pool_trim(pool, keep_bytes);
  return real(pool, keep_bytes);
}

template <Slot slot, Mode mode>
CUresult MemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  EBT_ENTER(MemPoolGetAttribute);
  CUresult result;
  if (entry.core && entry.core->pool_get(pool, attribute, value, &result)) return result;
  return real(pool, attribute, value);
}

template <Slot slot, Mode mode>
CUresult MemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  EBT_ENTER(MemPoolSetAttribute);
  CUresult result;
  if (entry.core && entry.core->pool_set(pool, attribute, value, &result)) return result;
  return real(pool, attribute, value);
}

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_ASYNC_H_
