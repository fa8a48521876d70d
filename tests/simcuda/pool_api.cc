// Entry points of the stream-ordered allocator.
#include "api.h"
#include "graph.h"
#include "pool.h"
#include "state.h"

namespace sim {
namespace {

// Under capture an allocation becomes the graph's own: it stays for the graph's life.
CUresult AllocateInGraph(Stream* stream, size_t bytes, CUdeviceptr* address) {
  CUresult result = MemAlloc(address, bytes);
  if (result == CUDA_SUCCESS) stream->capture->allocations.push_back(*address);
  return result;
}

CUresult Allocate(CUdeviceptr* address, size_t bytes, Pool* pool, Stream* stream) {
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) return AllocateInGraph(stream, bytes, address);
  const uint64_t block = pool->Allocate(bytes, stream);
  if (block == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = block;
  return CUDA_SUCCESS;
}

template <typename T>
CUresult Answer(void* value, uint64_t number) {
  *static_cast<T*>(value) = static_cast<T>(number);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult MemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream handle) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return Allocate(address, bytes, stream->context->device->pool, stream);
}

CUresult MemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                               CUstream handle) {
  return Allocate(address, bytes, FindPool(pool), FindStream(handle));
}

CUresult MemFreeAsync(CUdeviceptr address, CUstream handle) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (address == 0) return CUDA_SUCCESS;
  if (stream->capture != nullptr) {
    for (uint64_t own : stream->capture->allocations) {
      if (own == address) return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  }
  Pool* pool = PoolOfBlock(address);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  pool->Free(address, stream);
  if (pool->closing && pool->used == 0) ClosePool(pool);
  return CUDA_SUCCESS;
}

CUresult MemPoolCreate(CUmemoryPool* handle, const CUmemPoolProps* properties) {
  if (handle == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& devices = S().devices;
  const CUmemLocation& location = properties->location;
  if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      location.type != CU_MEM_LOCATION_TYPE_DEVICE || location.id < 0 ||
      location.id >= static_cast<int>(devices.size())) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto* pool = new Pool();
  pool->device = devices[location.id].get();
  pool->max_bytes = properties->maxSize;
  pool->handle_types = properties->handleTypes;
  S().pools.insert(pool);
  *handle = reinterpret_cast<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}

CUresult MemPoolDestroy(CUmemoryPool handle) {
  Pool* pool = FindPool(handle);
  if (pool == nullptr || pool->is_default || pool->closing) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& device : S().devices) {
    if (device->pool == pool) device->pool = device->default_pool.get();
  }
  // Blocks that are still alive keep it until the last of them is freed.
  pool->closing = true;
  if (pool->used == 0) ClosePool(pool);
  return CUDA_SUCCESS;
}

CUresult MemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  const Pool* pool = FindPool(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return Answer<int>(value, pool->reuse_event);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return Answer<int>(value, pool->reuse_opportunistic);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return Answer<int>(value, pool->reuse_internal);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return Answer<cuuint64_t>(value, pool->release_threshold);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return Answer<cuuint64_t>(value, pool->reserved);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return Answer<cuuint64_t>(value, pool->reserved_high);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return Answer<cuuint64_t>(value, pool->used);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return Answer<cuuint64_t>(value, pool->used_high);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult MemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  Pool* pool = FindPool(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      pool->reuse_event = *static_cast<int*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      pool->reuse_opportunistic = *static_cast<int*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      pool->reuse_internal = *static_cast<int*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool->release_threshold = *static_cast<cuuint64_t*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      if (*static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      pool->reserved_high = pool->reserved;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      pool->used_high = pool->used;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult MemPoolTrimTo(CUmemoryPool handle, size_t keep) {
  Pool* pool = FindPool(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  pool->Trim(keep);
  return CUDA_SUCCESS;
}

CUresult MemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* list, size_t count) {
  Pool* pool = FindPool(handle);
  if (pool == nullptr || (list == nullptr && count > 0)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const CUmemAccessDesc& entry = list[i];
    const bool known = entry.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                       entry.location.id >= 0 &&
                       entry.location.id < static_cast<int>(S().devices.size());
    if (!known || entry.flags == CU_MEM_ACCESS_FLAGS_PROT_READ) return CUDA_ERROR_INVALID_VALUE;
    pool->access[entry.location.id] = entry.flags;
  }
  return CUDA_SUCCESS;
}

CUresult MemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle, CUmemLocation* location) {
  const Pool* pool = FindPool(handle);
  if (pool == nullptr || flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  auto granted = pool->access.find(location->id);
  if (location->id == pool->device->ordinal) {
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  } else {
    *flags = granted == pool->access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : granted->second;
  }
  return CUDA_SUCCESS;
}

}  // namespace sim
