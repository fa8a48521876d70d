// Virtual memory management: reservations, physical handles, mappings that may alias.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "api.h"
#include "state.h"

namespace sim {
namespace {

// Handles by number, so that a stale one is refused instead of dereferenced.
std::map<uint64_t, std::shared_ptr<Physical>>& Handles() {
  static auto* handles = new std::map<uint64_t, std::shared_ptr<Physical>>();
  return *handles;
}

std::shared_ptr<Physical> PhysicalOf(CUmemGenericAllocationHandle handle) {
  auto found = Handles().find(handle);
  return found == Handles().end() ? nullptr : found->second;
}

bool Aligned(uint64_t value) { return value % kPage == 0; }

// Whether [address, address + bytes) lies within one reservation.
bool Reserved(uint64_t address, uint64_t bytes) {
  auto next = S().reservations.upper_bound(address);
  if (next == S().reservations.begin()) return false;
  auto range = std::prev(next);
  return address + bytes <= range->first + range->second;
}

bool Mapped(uint64_t address, uint64_t bytes) {
  auto next = Regions().lower_bound(address);
  if (next != Regions().end() && next->first < address + bytes) return true;
  return FindRegion(address) != nullptr;
}

// Whether the range is covered, without gaps, by mappings that begin and end within it.
bool WholeMappings(uint64_t address, uint64_t bytes) {
  uint64_t at = address;
  while (at < address + bytes) {
    auto found = Regions().find(at);
    if (found == Regions().end() || found->second.kind != Kind::kMapped) return false;
    at += found->second.bytes;
  }
  return at == address + bytes;
}

bool ValidProperties(const CUmemAllocationProp* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) return false;
  const CUmemLocation& location = properties->location;
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return location.id >= 0 && location.id < static_cast<int>(S().devices.size());
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return location.id == 0;  // the one node there is
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return true;
    default:
      return false;
  }
}

void Grant(Region* region, const CUmemAccessDesc& entry) {
  if (entry.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return;  // the host always may
  const uint32_t bit = uint32_t{1} << entry.location.id;
  region->readable &= ~bit;
  region->writable &= ~bit;
  if (entry.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) region->readable |= bit;
  if (entry.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) region->writable |= bit;
}

}  // namespace

CUresult MemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr hint,
                           unsigned long long flags) {
  if (address == nullptr || bytes == 0 || !Aligned(bytes) || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t step = std::max<uint64_t>(alignment, kPage);
  // A coarser alignment takes address space that is given back at once.
  const uint64_t asked = step > kPage ? bytes + step : bytes;
  void* memory = MapMemory(asked, hint % step == 0 && step == kPage ? hint : 0, false);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t start = reinterpret_cast<uint64_t>(memory);
  const uint64_t base = RoundUp(start, step);
  if (base > start) UnmapMemory(start, base - start);
  if (start + asked > base + bytes) UnmapMemory(base + bytes, start + asked - base - bytes);
  S().reservations[base] = bytes;
  *address = base;
  return CUDA_SUCCESS;
}

CUresult MemAddressFree(CUdeviceptr address, size_t bytes) {
  auto range = S().reservations.find(address);
  if (range == S().reservations.end() || range->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  if (Mapped(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  UnmapMemory(address, bytes);
  S().reservations.erase(range);
  return CUDA_SUCCESS;
}

CUresult MemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                   const CUmemAllocationProp* properties, unsigned long long flags) {
  if (handle == nullptr || bytes == 0 || !Aligned(bytes) || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!ValidProperties(properties)) return CUDA_ERROR_INVALID_VALUE;
  auto physical = std::make_shared<Physical>();
  physical->bytes = bytes;
  physical->properties = *properties;
  physical->fd = memfd_create("simcuda", MFD_CLOEXEC);
  if (physical->fd < 0 || ftruncate(physical->fd, static_cast<off_t>(bytes)) != 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    Device* device = S().devices[properties->location.id].get();
    if (!TakeMemory(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    physical->device = device;
  } else {
    ThreadClock() += Transfer(bytes, 4.8);  // 1 GiB of the host's took 223 ms
  }
  physical->handles = 1;
  *handle = S().next_id++;
  Handles()[*handle] = std::move(physical);
  return CUDA_SUCCESS;
}

CUresult MemRelease(CUmemGenericAllocationHandle handle) {
  std::shared_ptr<Physical> physical = PhysicalOf(handle);
  if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (--physical->handles == 0) Handles().erase(handle);
  return CUDA_SUCCESS;
}

CUresult MemMap(CUdeviceptr address, size_t bytes, size_t offset,
                CUmemGenericAllocationHandle handle, unsigned long long flags) {
  std::shared_ptr<Physical> physical = PhysicalOf(handle);
  if (physical == nullptr || flags != 0 || offset != 0 || bytes == 0 || !Aligned(address) ||
      !Aligned(bytes) || bytes > physical->bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!Reserved(address, bytes) || Mapped(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  void* at = mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
                  MAP_FIXED | MAP_SHARED, physical->fd, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  Region region;
  region.base = address;
  region.bytes = bytes;
  region.kind = Kind::kMapped;
  region.physical = std::move(physical);
  AddRegion(std::move(region));
  return CUDA_SUCCESS;
}

// Acts at once: work that is queued and names the range will fault.
CUresult MemUnmap(CUdeviceptr address, size_t bytes) {
  if (!WholeMappings(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  for (uint64_t at = address; at < address + bytes;) {
    const uint64_t size = Regions().at(at).bytes;
    mmap(reinterpret_cast<void*>(at), size, PROT_NONE,
         MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EraseRegion(at);
    at += size;
  }
  return CUDA_SUCCESS;
}

CUresult MemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* list,
                      size_t count) {
  if (list == nullptr || count == 0 || !WholeMappings(address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    const CUmemLocation& location = list[i].location;
    const bool known = location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
                       (location.id >= 0 && location.id < static_cast<int>(S().devices.size()));
    if (!known) return CUDA_ERROR_INVALID_DEVICE;
  }
  for (uint64_t at = address; at < address + bytes;) {
    Region& region = Regions().at(at);
    for (size_t i = 0; i < count; ++i) Grant(&region, list[i]);
    at += region.bytes;
  }
  return CUDA_SUCCESS;
}

CUresult MemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                      CUdeviceptr address) {
  const Region* region = FindRegion(address);
  if (flags == nullptr || location == nullptr || region == nullptr ||
      region->kind != Kind::kMapped || location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const uint32_t bit = uint32_t{1} << location->id;
  *flags = (region->writable & bit) != 0   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : (region->readable & bit) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                           : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult MemGetGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                           CUmemAllocationGranularity_flags) {
  if (bytes == nullptr || !ValidProperties(properties)) return CUDA_ERROR_INVALID_VALUE;
  *bytes = kPage;
  return CUDA_SUCCESS;
}

CUresult MemGetProperties(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  std::shared_ptr<Physical> physical = PhysicalOf(handle);
  if (properties == nullptr || physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *properties = physical->properties;
  return CUDA_SUCCESS;
}

CUresult MemRetainHandle(CUmemGenericAllocationHandle* handle, void* address) {
  const Region* region = FindRegion(reinterpret_cast<uint64_t>(address));
  if (handle == nullptr || region == nullptr || region->kind != Kind::kMapped) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (auto& [number, physical] : Handles()) {
    if (physical != region->physical) continue;
    ++physical->handles;
    *handle = number;
    return CUDA_SUCCESS;
  }
  // Every handle has been released; the mapping alone kept the memory.
  region->physical->handles = 1;
  *handle = S().next_id++;
  Handles()[*handle] = region->physical;
  return CUDA_SUCCESS;
}

}  // namespace sim
