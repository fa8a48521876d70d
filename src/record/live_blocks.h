// Which blocks are alive, by address: what a launch scan looks its words up in.
#ifndef EBBTIDE_SRC_RECORD_LIVE_BLOCKS_H_
#define EBBTIDE_SRC_RECORD_LIVE_BLOCKS_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"

namespace ebt::record {

// All functions are thread-safe.
class LiveBlocks {
 public:
  // Adds [address, address + bytes). Blocks that were there before must have gone without a free
  // that we saw (their context or pool was destroyed): they are removed and appended to `stale`.
  void Add(uint64_t address, uint64_t bytes, uint32_t id, CUcontext context,
           std::vector<uint32_t>& stale);
  // A block that is named by a handle and lies at no address (cuMemCreate).
  void AddHandle(uint64_t handle, uint32_t id, CUcontext context, std::vector<uint32_t>& stale);

  // Removes the block that begins at `address` or has this handle. False: there is none.
  bool Remove(uint64_t address, uint32_t& id);
  // Removes the blocks of a context, all blocks when it is NULL, and appends them to `gone`.
  void RemoveContext(CUcontext context, std::vector<uint32_t>& gone);

  // False for most numbers that are no addresses of blocks; never false for one that is.
  bool MayContain(uint64_t word) const {
    return word >= lowest_.load(std::memory_order_relaxed) &&
           word < highest_.load(std::memory_order_relaxed);
  }
  // Appends the block around each of `words` that has one, duplicates included.
  void Find(std::span<const uint64_t> words, std::vector<uint32_t>& blocks) const;

 private:
  struct Entry {
    uint64_t end = 0;
    uint32_t id = 0;
    CUcontext context = nullptr;
  };
  struct Handle {
    uint32_t id = 0;
    CUcontext context = nullptr;
  };

  // Held for so short that readers of their own kind would wait longer for a lock that tells them
  // apart.
  mutable std::mutex mutex_;
  absl::btree_map<uint64_t, Entry> blocks_;  // by first byte; disjoint
  // The same blocks: most words name a block's first byte.
  absl::flat_hash_map<uint64_t, uint32_t> starts_;
  absl::flat_hash_map<uint64_t, Handle> handles_;
  // Bounds of every block that ever was; never narrowed, so that reading them needs no lock.
  std::atomic<uint64_t> lowest_{~uint64_t{0}};
  std::atomic<uint64_t> highest_{0};
};

}  // namespace ebt::record

#endif  // EBBTIDE_SRC_RECORD_LIVE_BLOCKS_H_
