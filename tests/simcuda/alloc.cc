// Linear, pitched, managed and host memory, and what the driver tells about an address.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "api.h"
#include "pool.h"
#include "state.h"

namespace sim {
namespace {

Region* RegionAt(uint64_t base, Kind kind) {
  auto found = Regions().find(base);
  return found != Regions().end() && found->second.kind == kind ? &found->second : nullptr;
}

CUresult NewRegion(Kind kind, uint64_t bytes, unsigned flags, uint64_t* base) {
  Context* context = CurrentContext();
  const uint64_t accounted = kind == Kind::kLinear ? RoundUp(bytes, 512) : 0;
  if (accounted != 0 && !TakeMemory(context->device, accounted)) return CUDA_ERROR_OUT_OF_MEMORY;
  void* memory = MapMemory(bytes);
  if (memory == nullptr) {
    if (accounted != 0) GiveMemory(context->device, accounted);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Region region;
  region.base = reinterpret_cast<uint64_t>(memory);
  region.bytes = bytes;
  region.kind = kind;
  region.context = context;
  region.device = kind == Kind::kLinear ? context->device : nullptr;
  region.accounted = accounted;
  region.flags = flags;
  if (kind == Kind::kManaged) region.pages.resize(RoundUp(bytes, kPage) / kPage);
  *base = region.base;
  AddRegion(std::move(region));
  return CUDA_SUCCESS;
}

// The driver lets everything finish before memory goes.
void Drop(Region* region) {
  for (const auto& device : S().devices) AwaitDevice(device.get());
  if (region->kind == Kind::kManaged) DropManaged(region);
  if (region->accounted != 0) GiveMemory(region->device, region->accounted);
  const uint64_t base = region->base;
  if (region->kind != Kind::kRegistered) UnmapMemory(base, region->bytes);
  EraseRegion(base);
}

// The allocation around an address as its user knows it. False: there is none.
bool FindBlock(uint64_t address, const Region** region, uint64_t* base, uint64_t* bytes) {
  *region = FindRegion(address);
  if (*region == nullptr) return false;
  if ((*region)->kind == Kind::kPoolChunk) return FindPoolBlock(address, base, bytes);
  *base = (*region)->base;
  *bytes = (*region)->bytes;
  return true;
}

template <typename T>
void Store(void* value, T answer) {
  memcpy(value, &answer, sizeof answer);
}

// Fills `value` for an address inside a known block.
CUresult AnswerAttribute(const Region& region, uint64_t base, uint64_t bytes,
                         CUpointer_attribute attribute, uint64_t address, void* value) {
  const Device* owner = region.kind == Kind::kMapped ? region.physical->device : region.device;
  const bool managed = region.kind == Kind::kManaged;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      Store(value, reinterpret_cast<CUcontext>(region.context));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      Store<unsigned>(value,
                      owner != nullptr || managed ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      Store<CUdeviceptr>(value, address);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      Store<uint64_t>(value, owner == nullptr ? address : 0);
      return owner == nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      Store<unsigned>(value, managed ? 1 : 0);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      Store<int>(value, owner != nullptr            ? owner->ordinal
                        : region.context != nullptr ? region.context->device->ordinal
                                                    : 0);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      Store<CUdeviceptr>(value, base);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      Store<size_t>(value, bytes);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      Store<unsigned>(value, 1);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      Store<uint64_t>(value, region.kind == Kind::kPoolChunk ? base / 512 : region.id);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      Store<unsigned>(value, region.sync_memops ? 1 : 0);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      Store<unsigned>(value, region.kind == Kind::kMapped
                                 ? region.physical->properties.requestedHandleTypes
                                 : CU_MEM_HANDLE_TYPE_NONE);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      Store<unsigned>(value, region.kind == Kind::kMapped
                                 ? region.physical->properties.allocFlags.gpuDirectRDMACapable
                                 : region.kind == Kind::kLinear);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      Store<unsigned>(value, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      Store<CUdeviceptr>(value, region.base);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      Store<size_t>(value, region.bytes);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      Store<unsigned>(value, region.kind == Kind::kLinear ? 1 : 0);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      Store(value, reinterpret_cast<CUmemoryPool>(PoolOfBlock(base)));
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

CUresult MemGetInfo(size_t* free_bytes, size_t* total) {
  const Device* device = CurrentContext()->device;
  if (free_bytes != nullptr) *free_bytes = device->capacity - device->used;
  if (total != nullptr) *total = device->capacity;
  return CUDA_SUCCESS;
}

CUresult MemAlloc(CUdeviceptr* address, size_t bytes) {
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t base = 0;
  CUresult result = NewRegion(Kind::kLinear, bytes, 0, &base);
  if (result == CUDA_SUCCESS) *address = base;
  return result;
}

CUresult MemAllocPitch(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                       unsigned int element) {
  if (pitch == nullptr || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  *pitch = RoundUp(width, 512);
  return MemAlloc(address, *pitch * height);
}

CUresult MemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned int flags) {
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t base = 0;
  CUresult result = NewRegion(Kind::kManaged, bytes, flags, &base);
  if (result == CUDA_SUCCESS) *address = base;
  return result;
}

CUresult MemFree(CUdeviceptr address) {
  if (address == 0) return CUDA_SUCCESS;
  Region* region = RegionAt(address, Kind::kLinear);
  if (region == nullptr) region = RegionAt(address, Kind::kManaged);
  if (region != nullptr) {
    Drop(region);
    return CUDA_SUCCESS;
  }
  Pool* pool = PoolOfBlock(address);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  AwaitDevice(pool->device);
  pool->Free(address, CurrentContext()->legacy);
  AwaitStream(CurrentContext()->legacy);
  TrimPools();
  return CUDA_SUCCESS;
}

CUresult MemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  const Region* region = nullptr;
  uint64_t start = 0, size = 0;
  if (!FindBlock(address, &region, &start, &size)) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = start;
  if (bytes != nullptr) *bytes = size;
  return CUDA_SUCCESS;
}

CUresult MemAllocHost(void** address, size_t bytes) { return MemHostAlloc(address, bytes, 0); }

CUresult MemHostAlloc(void** address, size_t bytes, unsigned int flags) {
  if (address == nullptr || bytes == 0 || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  // Pinning was measured at 425 ms a GB.
  ThreadClock() += Transfer(bytes, 2.4);
  uint64_t base = 0;
  CUresult result = NewRegion(Kind::kHost, bytes, flags, &base);
  if (result == CUDA_SUCCESS) *address = reinterpret_cast<void*>(base);
  return result;
}

CUresult MemFreeHost(void* address) {
  Region* region = RegionAt(reinterpret_cast<uint64_t>(address), Kind::kHost);
  if (region == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Drop(region);
  return CUDA_SUCCESS;
}

CUresult MemHostRegister(void* address, size_t bytes, unsigned int flags) {
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t base = reinterpret_cast<uint64_t>(address);
  if (FindRegion(base) != nullptr || FindRegion(base + bytes - 1) != nullptr) {
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  Region region;
  region.base = base;
  region.bytes = bytes;
  region.kind = Kind::kRegistered;
  region.context = CurrentContext();
  region.flags = flags;
  AddRegion(std::move(region));
  return CUDA_SUCCESS;
}

CUresult MemHostUnregister(void* address) {
  Region* region = RegionAt(reinterpret_cast<uint64_t>(address), Kind::kRegistered);
  if (region == nullptr) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  Drop(region);
  return CUDA_SUCCESS;
}

CUresult MemHostGetDevicePointer(CUdeviceptr* device, void* host, unsigned int flags) {
  if (device == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Region* region = FindRegion(reinterpret_cast<uint64_t>(host));
  const bool pinned =
      region != nullptr && (region->kind == Kind::kHost || region->kind == Kind::kRegistered);
  if (!pinned) return CUDA_ERROR_INVALID_VALUE;
  *device = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

CUresult MemHostGetFlags(unsigned int* flags, void* address) {
  const Region* region = FindRegion(reinterpret_cast<uint64_t>(address));
  if (flags == nullptr || region == nullptr || region->kind != Kind::kHost) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = region->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

CUresult PointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Region* region = nullptr;
  uint64_t base = 0, bytes = 0;
  if (!FindBlock(address, &region, &base, &bytes)) return CUDA_ERROR_INVALID_VALUE;
  return AnswerAttribute(*region, base, bytes, attribute, address, value);
}

CUresult PointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** values,
                              CUdeviceptr address) {
  if (attributes == nullptr || values == nullptr ||
      std::find(values, values + count, nullptr) != values + count) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Region* region = nullptr;
  uint64_t base = 0, bytes = 0;
  const bool known = FindBlock(address, &region, &base, &bytes);
  for (unsigned i = 0; i < count; ++i) {
    const bool small = attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
                       attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
                       attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ||
                       attributes[i] == CU_POINTER_ATTRIBUTE_MAPPED ||
                       attributes[i] == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
                       attributes[i] == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES ||
                       attributes[i] == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE ||
                       attributes[i] == CU_POINTER_ATTRIBUTE_ACCESS_FLAGS ||
                       attributes[i] == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
    // An unknown address answers zeros, an unknown device is -2.
    memset(values[i], 0, small ? 4 : 8);
    if (!known && attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) Store(values[i], -2);
    if (known) AnswerAttribute(*region, base, bytes, attributes[i], address, values[i]);
  }
  return CUDA_SUCCESS;
}

CUresult PointerSetAttribute(const void* value, CUpointer_attribute attribute,
                             CUdeviceptr address) {
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Region* region = FindRegion(address);
  if (region == nullptr) return CUDA_ERROR_INVALID_VALUE;
  region->sync_memops = *static_cast<const unsigned*>(value) != 0;
  if (region->sync_memops && region->device != nullptr) AwaitDevice(region->device);
  return CUDA_SUCCESS;
}

CUresult IpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (RegionAt(address, Kind::kLinear) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  memset(handle, 0, sizeof *handle);
  memcpy(handle->reserved, &address, sizeof address);
  return CUDA_SUCCESS;
}

// A file stands for the memory; nothing can be read from it.
CUresult MemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t bytes,
                                     CUmemRangeHandleType type, unsigned long long) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const Region* region = FindRegion(address);
  if (handle == nullptr || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || bytes == 0 ||
      address % page != 0 || bytes % page != 0 || region == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (region->kind != Kind::kLinear && region->kind != Kind::kMapped) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *static_cast<int*>(handle) = memfd_create("simcuda-range", MFD_CLOEXEC);
  return CUDA_SUCCESS;
}

CUresult MemPoolExportPointer(CUmemPoolPtrExportData* data, CUdeviceptr address) {
  const Pool* pool = PoolOfBlock(address);
  if (data == nullptr || pool == nullptr || pool->handle_types == CU_MEM_HANDLE_TYPE_NONE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  memset(data, 0, sizeof *data);
  memcpy(data->reserved, &address, sizeof address);
  return CUDA_SUCCESS;
}

// A handle opens in another process only, and no two processes share a simulated device.
CUresult IpcOpenMemHandle(CUdeviceptr*, CUipcMemHandle, unsigned int) {
  return CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace sim
