// Stream-ordered memory pools.
#ifndef EBBTIDE_TESTS_SIMCUDA_POOL_H_
#define EBBTIDE_TESTS_SIMCUDA_POOL_H_

#include <map>

#include "memory.h"
#include "state.h"

namespace sim {

struct PoolBlock {
  uint64_t bytes = 0;
  bool used = false;
  Stream* freed_on = nullptr;  // its later work may have the memory at once
  TokenRef freed;              // others once this is done; null: free from the start
  bool Settled() const { return !used && (!freed || freed->done); }
};

struct PoolChunk {
  uint64_t bytes = 0;
  std::map<uint64_t, PoolBlock> blocks;  // by address, without gaps
};

struct Pool {
  Device* device = nullptr;
  bool is_default = false;
  bool closing = false;  // destroyed by its user while blocks are alive
  uint64_t release_threshold = 0;
  int reuse_event = 1, reuse_opportunistic = 1, reuse_internal = 1;
  uint64_t max_bytes = 0;  // 0: as much as the device has
  uint64_t reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  std::map<uint64_t, PoolChunk> chunks;
  std::map<int, CUmemAccess_flags> access;  // granted to other devices, by ordinal
  CUmemAllocationHandleType handle_types = CU_MEM_HANDLE_TYPE_NONE;

  // 0 when there is no room.
  uint64_t Allocate(uint64_t bytes, Stream* stream);
  // False when the address is not the start of a live block.
  bool Free(uint64_t address, Stream* stream);
  // Gives whole free chunks back while more than `keep` bytes are reserved.
  void Trim(uint64_t keep);
  // Gives everything back, live blocks included; the device must be idle.
  void Reset();

 private:
  uint64_t TakeFit(uint64_t bytes, Stream* stream);
  bool Grow(uint64_t bytes);
};

// The pool with a live block that starts at the address, or null.
Pool* PoolOfBlock(uint64_t address);
// The live block around an address. False: none.
bool FindPoolBlock(uint64_t address, uint64_t* base, uint64_t* bytes);
// What the driver does whenever the host synchronizes.
void TrimPools();
Pool* FindPool(CUmemoryPool handle);
// Waits for the device and gives everything back.
void ClosePool(Pool* pool);

}  // namespace sim

#endif  // EBBTIDE_TESTS_SIMCUDA_POOL_H_
