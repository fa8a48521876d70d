// The stream-ordered pools that we stand in for, and what a program reads of them: what it
// took through us added to what the driver's pool says.
#ifndef EBBTIDE_SRC_REPLAY_POOLS_H_
#define EBBTIDE_SRC_REPLAY_POOLS_H_

#include <cuda.h>

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "src/base/mutex.h"

namespace ebt::replay {

// Thread-safe; calls no driver.
class PoolCounters {
 public:
  // A pool of plain memory of `device` that no other process can get at. Pools that are not
  // announced (imported, of the host, managed) are left to the driver.
  void Announce(CUmemoryPool pool, CUdevice device);
  void Destroyed(CUmemoryPool pool);
  void Clear();  // what we held of any pool is gone
  bool Servable(CUmemoryPool pool, CUdevice device) const;

  // bytes: rounded as the driver rounds. reserved: bytes held for the pool after the call.
  void Allocated(CUmemoryPool pool, uint64_t bytes, uint64_t reserved);
  void Freed(CUmemoryPool pool, uint64_t bytes);

  // What we add to the driver's value of a memory attribute; false: not a memory attribute.
  bool Extra(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t reserved,
             uint64_t* extra) const;
  // A high-water mark was reset by the program.
  void ResetHigh(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t reserved);

 private:
  struct Counters {
    CUdevice device = 0;
    uint64_t used = 0, used_high = 0, reserved_high = 0;
  };
  mutable Mutex mutex_;
  absl::flat_hash_map<CUmemoryPool, Counters> pools_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ebt::replay

#endif  // EBBTIDE_SRC_REPLAY_POOLS_H_
