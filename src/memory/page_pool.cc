#include "src/memory/page_pool.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/units.h"
#include "src/driver/relaxed_capture.h"

namespace ebt::memory {

PagePool::PagePool(const DriverApi& driver, CUdevice device, uint64_t limit)
    : driver_(driver), device_(device), limit_(limit) {
  properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  int rdma = 0;
  driver_.fn_cuDeviceGetAttribute(
      &rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device);
  properties_.allocFlags.gpuDirectRDMACapable = rdma != 0;
  size_t granularity = 0;
  if (driver_.fn_cuMemGetAllocationGranularity(
          &granularity, &properties_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) == CUDA_SUCCESS)
    granularity_ = granularity;
}

void PagePool::AddPeer(CUdevice peer) {
  MutexLock lock(&mutex_);
  if (peer != device_ && std::find(peers_.begin(), peers_.end(), peer) == peers_.end())
    peers_.push_back(peer);
}

std::vector<CUmemAccessDesc> PagePool::Access() const {
  const auto access = [](CUdevice device) {
    return CUmemAccessDesc{{CU_MEM_LOCATION_TYPE_DEVICE, {device}},
                           CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  };
  std::vector<CUmemAccessDesc> all = {access(device_)};
  MutexLock lock(&mutex_);
  for (CUdevice peer : peers_) all.push_back(access(peer));
  return all;
}

CUresult PagePool::Get(uint64_t bytes, CUmemGenericAllocationHandle* handle) {
  const uint64_t now = bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  if (limit_ == 0 || now <= limit_) result = driver_.fn_cuMemCreate(handle, bytes, &properties_, 0);
  if (result != CUDA_SUCCESS) {
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return result;
  }
  uint64_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  return CUDA_SUCCESS;
}

void PagePool::Put(uint64_t bytes, CUmemGenericAllocationHandle handle) {
  driver_.fn_cuMemRelease(handle);
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

absl::StatusOr<std::unique_ptr<MappedRange>> MappedRange::Reserve(PagePool& pool, uint64_t size,
                                                                  uint64_t chunk_bytes) {
  if (pool.granularity() == 0 || chunk_bytes % pool.granularity() != 0)
    return absl::UnavailableError("the device has no virtual memory management");
  CUdeviceptr base = 0;
  const CUresult result =
      pool.driver().fn_cuMemAddressReserve(&base, size, pool.granularity(), kAddressHint, 0);
  if (result != CUDA_SUCCESS)
    return absl::UnavailableError(absl::StrCat("no address range of ", FormatSize(size), ": ",
                                               ErrorName(pool.driver(), result)));
  return std::unique_ptr<MappedRange>(new MappedRange(pool, base, size, chunk_bytes));
}

MappedRange::MappedRange(PagePool& pool, CUdeviceptr base, uint64_t size, uint64_t chunk_bytes)
    : pool_(pool), base_(base), size_(size), chunk_bytes_(chunk_bytes) {
  const size_t chunks = (size + chunk_bytes_ - 1) / chunk_bytes_;
  chunks_.resize(chunks);
  present_ = std::make_unique<std::atomic<bool>[]>(chunks);
}

MappedRange::~MappedRange() {
  {
    MutexLock lock(&mutex_);
    for (size_t chunk = 0; chunk < chunks_.size(); ++chunk)
      if (present_[chunk]) UnmapChunk(chunk);
  }
  pool_.driver().fn_cuMemAddressFree(base_, size_);
}

uint64_t MappedRange::ChunkBytes(size_t chunk) const {
  return std::min(chunk_bytes_, size_ - chunk * chunk_bytes_);
}

CUresult MappedRange::Ensure(uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  const size_t first = offset / chunk_bytes_, last = (offset + bytes - 1) / chunk_bytes_;
  for (size_t chunk = first; chunk <= last; ++chunk) {
    if (present_[chunk].load(std::memory_order_acquire)) continue;
    MutexLock lock(&mutex_);
    if (present_[chunk].load(std::memory_order_relaxed)) continue;
    const CUresult result = MapChunk(chunk);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult MappedRange::MapChunk(size_t chunk) {
  const DriverApi& driver = pool_.driver();
  const uint64_t bytes = ChunkBytes(chunk);
  const CUdeviceptr address = base_ + chunk * chunk_bytes_;
  const RelaxedCapture relaxed(driver);
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = pool_.Get(bytes, &handle);
  if (result == CUDA_SUCCESS) {
    result = driver.fn_cuMemMap(address, bytes, 0, handle, 0);
    if (result == CUDA_SUCCESS) {
      const std::vector<CUmemAccessDesc> access = pool_.Access();
      result = driver.fn_cuMemSetAccess(address, bytes, access.data(), access.size());
      if (result != CUDA_SUCCESS) driver.fn_cuMemUnmap(address, bytes);
    }
    if (result != CUDA_SUCCESS) pool_.Put(bytes, handle);
  }
  if (result != CUDA_SUCCESS) return result;
  chunks_[chunk] = {handle, ++generation_};
  mapped_.fetch_add(bytes, std::memory_order_relaxed);
  present_[chunk].store(true, std::memory_order_release);
  return CUDA_SUCCESS;
}

MappedRange::Chunk MappedRange::HandleAt(uint64_t chunk_offset) {
  MutexLock lock(&mutex_);
  return chunks_[chunk_offset / chunk_bytes_];
}

CUresult MappedRange::RenewAccess() {
  const std::vector<CUmemAccessDesc> access = pool_.Access();
  MutexLock lock(&mutex_);
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    if (!present_[chunk].load(std::memory_order_relaxed)) continue;
    const CUresult result = pool_.driver().fn_cuMemSetAccess(
        base_ + chunk * chunk_bytes_, ChunkBytes(chunk), access.data(), access.size());
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

void MappedRange::UnmapChunk(size_t chunk) {
  const uint64_t bytes = ChunkBytes(chunk);
  present_[chunk].store(false, std::memory_order_relaxed);
  pool_.driver().fn_cuMemUnmap(base_ + chunk * chunk_bytes_, bytes);
  pool_.Put(bytes, chunks_[chunk].handle);
  chunks_[chunk] = {};
  mapped_.fetch_sub(bytes, std::memory_order_relaxed);
}

std::vector<uint64_t> MappedRange::MappedChunks() const {
  std::vector<uint64_t> offsets;
  const size_t chunks = (size_ + chunk_bytes_ - 1) / chunk_bytes_;
  for (size_t chunk = 0; chunk < chunks; ++chunk)
    if (present_[chunk].load(std::memory_order_relaxed)) offsets.push_back(chunk * chunk_bytes_);
  return offsets;
}

uint64_t MappedRange::ReleaseChunks(const std::function<bool(uint64_t, uint64_t)>& is_free) {
  MutexLock lock(&mutex_);
  uint64_t released = 0;
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    if (!present_[chunk] || !is_free(chunk * chunk_bytes_, ChunkBytes(chunk))) continue;
    released += ChunkBytes(chunk);
    UnmapChunk(chunk);
  }
  return released;
}

}  // namespace ebt::memory
