// What a program is told of an address of ours: what the native allocation would have been, not
// what stands behind it here.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "src/base/log.h"
#include "src/replay/replayer.h"

namespace ebt::replay {
namespace {

template <typename T>
void Put(void* value, T answer) {
  *static_cast<T*>(value) = answer;
}

// Never one of the driver's, which count from the beginning.
uint64_t NextBufferId() {
  static std::atomic<uint64_t> next{uint64_t{1} << 62};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// What is left of an attribute that an address does not have.
void PutNull(CUpointer_attribute attribute, void* value) {
  constexpr int kNoDevice = -2;  // CU_DEVICE_INVALID
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Put(value, kNoDevice);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Put<uint32_t>(value, 0);
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return Put<uint64_t>(value, 0);
    default:
      return;
  }
}

}  // namespace

Replayer::Blocks::iterator Replayer::Holding(CUdeviceptr ptr) {
  const auto exact = blocks_.find(ptr);
  if (exact != blocks_.end()) return exact;
  const auto holds = [ptr](const auto& block) {
    return ptr >= block.first && ptr < block.first + block.second.bytes;
  };
  CUdeviceptr& found = found_[(ptr >> 4 ^ ptr >> 16) % found_.size()];
  const auto again = blocks_.find(found);
  if (again != blocks_.end() && holds(*again)) return again;
  // Of thousands at most; the map is for what is asked all the time.
  const auto at = std::find_if(blocks_.begin(), blocks_.end(), holds);
  if (at != blocks_.end()) found = at->first;
  return at;
}

bool Replayer::AddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr ptr, CUresult* result) {
  MutexLock lock(&mutex_);
  if (!space_ || !space_->Holds(ptr)) return false;
  const auto block = Holding(ptr);
  *result = block == blocks_.end() ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
  if (block == blocks_.end()) return true;
  if (base) *base = block->first;
  if (bytes) *bytes = block->second.bytes;
  return true;
}

bool Replayer::PointerAttribute(CUpointer_attribute attribute, void* value, CUdeviceptr ptr,
                                CUresult* result) {
  MutexLock lock(&mutex_);
  if (!space_ || !space_->Holds(ptr)) return false;
  // Other refusals are not about the address.
  if (*result != CUDA_SUCCESS && *result != CUDA_ERROR_INVALID_VALUE &&
      *result != CUDA_ERROR_NOT_SUPPORTED)
    return false;
  const auto at = Holding(ptr);
  if (at == blocks_.end()) {
    *result = CUDA_ERROR_INVALID_VALUE;
    PutNull(attribute, value);
    return true;
  }
  return BlockAttribute(attribute, value, ptr, at, result);
}

bool Replayer::BlockAttribute(CUpointer_attribute attribute, void* value, CUdeviceptr ptr,
                              Blocks::iterator at, CUresult* result) {
  Block& block = at->second;
  const CUresult asked = std::exchange(*result, CUDA_SUCCESS);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:  // memory of a pool is no context's
      return Put(value, block.pool ? nullptr : space_->context()), true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:  // host pages may stand behind the address just now
      return Put<uint32_t>(value, CU_MEMORYTYPE_DEVICE), true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return Put(value, ptr), true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:  // managed memory, where we keep some, has one
      *result = CUDA_ERROR_INVALID_VALUE;
      return PutNull(attribute, value), true;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return Put<uint32_t>(value, block.sync_memops), true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      if (block.id == 0) block.id = NextBufferId();
      return Put(value, block.id), true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return Put<uint32_t>(value, 0), true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Put<int>(value, space_->device()), true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return Put(value, at->first), true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return Put<size_t>(value, block.bytes), true;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Put<uint32_t>(value, 1), true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Put(value, block.pool), true;
    // Of what a block can do the truth is told: whoever hears of IPC or RDMA that will then be
    // refused has no way left, and whoever does not has one.
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return Put<uint32_t>(value, 0), true;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      if (!block.cold) break;
      return Put<uint32_t>(value, 0), true;
    default:
      break;
  }
  *result = asked;
  return false;
}

bool Replayer::SetPointerAttribute(CUpointer_attribute attribute, const void* value,
                                   CUdeviceptr ptr, CUresult* result) {
  std::shared_ptr<Space> space;
  {
    MutexLock lock(&mutex_);
    if (!space_ || !space_->Holds(ptr)) return false;
    const auto at = Holding(ptr);
    *result = CUDA_ERROR_INVALID_VALUE;
    if (at == blocks_.end() || !value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return true;
    uint32_t word = 0;
    std::memcpy(&word, value, sizeof(word));
    const bool set = word != 0;
    if (set && !at->second.sync_memops) synchronized_blocks_.fetch_add(1);
    if (!set && at->second.sync_memops) synchronized_blocks_.fetch_sub(1);
    at->second.sync_memops = set;
    *result = CUDA_SUCCESS;
    if (set) space = space_;
  }
  // What was begun before is complete when the call returns.
  if (space && captures_.load(std::memory_order_relaxed) == 0) *result = space->Drain();
  return true;
}

bool Replayer::Synchronizes(const ebt_copy& copy) {
  if (synchronized_blocks_.load(std::memory_order_relaxed) == 0) return false;
  if (!copy.synchronous) return false;
  if (Capturing(copy.stream)) return false;
  const auto meets = [](const auto& block, uint64_t address, uint64_t bytes) {
    return address < block.first + block.second.bytes && block.first < address + bytes;
  };
  MutexLock lock(&mutex_);
  return std::any_of(blocks_.begin(), blocks_.end(), [&](const auto& block) {
    return block.second.sync_memops &&
           (meets(block, copy.dst, copy.dst_span) || meets(block, copy.src, copy.src_span));
  });
}

bool Replayer::Export(int way, CUdeviceptr ptr, CUresult* result) {
  {
    MutexLock lock(&mutex_);
    if (!space_ || !space_->Holds(ptr)) return false;
    *result = way == EBT_EXPORT_RANGE ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    // The other two ways are refused to linear memory and to such pools by the driver itself.
    const bool as_natively = way == EBT_EXPORT_HANDLE || way == EBT_EXPORT_POOL_POINTER;
    if (as_natively || Holding(ptr) == blocks_.end() || std::exchange(export_refused_, true))
      return true;
  }
  Log(LogLevel::kWarning,
      "planned memory cannot be shared with another process or device: record the job again, "
      "sharing included, and plan that (its shared memory then stays with the driver)");
  return true;
}

}  // namespace ebt::replay
