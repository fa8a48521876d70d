#include "src/replay/pools.h"

#include <algorithm>

namespace ebt::replay {

void PoolCounters::Announce(CUmemoryPool pool, CUdevice device) {
  MutexLock lock(&mutex_);
  pools_.try_emplace(pool, Counters{device, 0, 0, 0});
}

void PoolCounters::Destroyed(CUmemoryPool pool) {
  MutexLock lock(&mutex_);
  pools_.erase(pool);
}

void PoolCounters::Clear() {
  MutexLock lock(&mutex_);
  pools_.clear();
}

bool PoolCounters::Servable(CUmemoryPool pool, CUdevice device) const {
  MutexLock lock(&mutex_);
  const auto at = pools_.find(pool);
  return at != pools_.end() && at->second.device == device;
}

void PoolCounters::Allocated(CUmemoryPool pool, uint64_t bytes, uint64_t reserved) {
  MutexLock lock(&mutex_);
  const auto at = pools_.find(pool);
  if (at == pools_.end()) return;
  Counters& counters = at->second;
  counters.used += bytes;
  counters.used_high = std::max(counters.used_high, counters.used);
  counters.reserved_high = std::max({counters.reserved_high, reserved, counters.used});
}

void PoolCounters::Freed(CUmemoryPool pool, uint64_t bytes) {
  MutexLock lock(&mutex_);
  const auto at = pools_.find(pool);
  if (at != pools_.end()) at->second.used -= std::min(at->second.used, bytes);
}

bool PoolCounters::Extra(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t reserved,
                         uint64_t* extra) const {
  MutexLock lock(&mutex_);
  const auto at = pools_.find(pool);
  if (at == pools_.end()) return false;  // nothing of ours is in it
  const Counters& counters = at->second;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *extra = counters.used;
      return true;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *extra = counters.used_high;
      return true;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *extra = std::max(reserved, counters.used);
      return true;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *extra = std::max({reserved, counters.used, counters.reserved_high});
      return true;
    default:
      return false;
  }
}

void PoolCounters::ResetHigh(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t reserved) {
  MutexLock lock(&mutex_);
  const auto at = pools_.find(pool);
  if (at == pools_.end()) return;
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) at->second.used_high = at->second.used;
  if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) at->second.reserved_high = reserved;
}

}  // namespace ebt::replay
