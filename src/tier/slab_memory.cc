#include "src/tier/slab_memory.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/units.h"

namespace ebt::tier {
namespace {

absl::Status Refused(const DriverApi& driver, std::string_view what, CUresult result) {
  return absl::UnavailableError(
      absl::StrCat(std::string(what), " failed: ", ErrorName(driver, result)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SlabMemory>> SlabMemory::Create(memory::PagePool& pool,
                                                               uint64_t slab_bytes, size_t count) {
  std::unique_ptr<SlabMemory> memory(new SlabMemory(pool, slab_bytes, count));
  if (absl::Status built = memory->Build(); !built.ok()) return built;
  return memory;
}

absl::Status SlabMemory::Build() {
  int supported = 0, numa_node = -1;
  driver_.fn_cuDeviceGetAttribute(&supported,
                                  CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                  pool_.device());
  if (!supported ||
      driver_.fn_cuDeviceGetAttribute(&numa_node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID,
                                      pool_.device()) != CUDA_SUCCESS ||
      numa_node < 0)
    return absl::UnavailableError("the device has no virtual memory management of host memory");
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, {numa_node}};
  size_t granularity = 0;
  CUresult result = driver_.fn_cuMemGetAllocationGranularity(&granularity, &properties,
                                                             CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  if (result != CUDA_SUCCESS) return Refused(driver_, "the host memory's granularity", result);
  if (granularity == 0 || slab_bytes_ % granularity != 0)
    return absl::UnavailableError(absl::StrCat("slabs of ", FormatSize(slab_bytes_),
                                               " are not multiples of the host memory's ",
                                               FormatSize(granularity)));
  for (CUdeviceptr* range : {&base_, &home_}) {
    result = driver_.fn_cuMemAddressReserve(range, size(), granularity, memory::kAddressHint, 0);
    if (result != CUDA_SUCCESS) return Refused(driver_, "reserving addresses", result);
  }
  for (size_t slab = 0; slab < slabs_.size(); ++slab)
    if (absl::Status made = MakeSlab(slab, properties); !made.ok()) return made;
  return absl::OkStatus();
}

absl::Status SlabMemory::MakeSlab(size_t slab, const CUmemAllocationProp& properties) {
  Slab& made = slabs_[slab];
  CUresult result = driver_.fn_cuMemCreate(&made.handle, slab_bytes_, &properties, 0);
  if (result != CUDA_SUCCESS)
    return Refused(driver_,
                   absl::StrCat("slab ", slab, " of ", slabs_.size(), ": ", FormatSize(slab_bytes_),
                                " of host memory"),
                   result);
  result = driver_.fn_cuMemMap(HomeOf(slab), slab_bytes_, 0, made.handle, 0);
  if (result != CUDA_SUCCESS) return Refused(driver_, "mapping host memory", result);
  made.at_home = true;
  result = SetAccess(HomeOf(slab));
  if (result != CUDA_SUCCESS) return Refused(driver_, "access to host memory", result);
  result = ShowHome(slab);
  if (result != CUDA_SUCCESS) return Refused(driver_, "mapping host memory in place", result);
  return absl::OkStatus();
}

SlabMemory::~SlabMemory() {
  for (size_t slab = 0; slab < slabs_.size(); ++slab) {
    const Slab& ended = slabs_[slab];
    if (ended.mapped) driver_.fn_cuMemUnmap(AddressOf(slab), slab_bytes_);
    if (ended.at_home) driver_.fn_cuMemUnmap(HomeOf(slab), slab_bytes_);
    if (ended.handle) driver_.fn_cuMemRelease(ended.handle);
  }
  for (CUdeviceptr range : {base_, home_})
    if (range) driver_.fn_cuMemAddressFree(range, size());
}

// For devices alone. Where the processor has access to some slab's host pages, the driver of an
// H200 serves small copies with the processor, of slabs as well that show device memory by then,
// and crashes.
CUresult SlabMemory::SetAccess(CUdeviceptr address) {
  const std::vector<CUmemAccessDesc> access = pool_.Access();
  return driver_.fn_cuMemSetAccess(address, slab_bytes_, access.data(), access.size());
}

CUresult SlabMemory::Show(size_t slab, CUmemGenericAllocationHandle handle, uint64_t generation) {
  Slab& changed = slabs_[slab];
  const CUdeviceptr address = AddressOf(slab);
  if (changed.shows == generation) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  if (changed.mapped) {
    result = driver_.fn_cuMemUnmap(address, slab_bytes_);
    if (result != CUDA_SUCCESS) return result;
  }
  changed.mapped = false;
  changed.shows = kNothing;
  result = driver_.fn_cuMemMap(address, slab_bytes_, 0, handle, 0);
  if (result != CUDA_SUCCESS) return result;
  changed.mapped = true;
  result = SetAccess(address);
  if (result == CUDA_SUCCESS) changed.shows = generation;
  return result;
}

CUresult SlabMemory::ShowHome(size_t slab) { return Show(slab, slabs_[slab].handle, kHome); }

CUresult SlabMemory::ShowChunk(size_t slab, const memory::MappedRange::Chunk& chunk) {
  return Show(slab, chunk.handle, chunk.generation);
}

CUresult SlabMemory::RenewAccess() {
  CUresult first = CUDA_SUCCESS;
  for (size_t slab = 0; slab < slabs_.size(); ++slab) {
    CUresult result = SetAccess(HomeOf(slab));
    if (first == CUDA_SUCCESS) first = result;
    if (!slabs_[slab].mapped) continue;
    result = SetAccess(AddressOf(slab));
    if (first == CUDA_SUCCESS) first = result;
  }
  return first;
}

}  // namespace ebt::tier
