// Small numbers for the driver's handles, in order of first use.
#ifndef EBBTIDE_SRC_RECORD_NUMBER_TABLE_H_
#define EBBTIDE_SRC_RECORD_NUMBER_TABLE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

#include "absl/container/flat_hash_map.h"

namespace ebt::record {

// Thread-safe.
class NumberTable {
 public:
  // Numbers run from `first` to `last`; handles beyond share the last.
  NumberTable(uint32_t first, uint32_t last) : next_(first), last_(last) {}

  uint32_t Find(uint64_t handle) {
    // A job works on one stream thousands of times in a row.
    thread_local struct {
      uint64_t generation = 0;
      uint64_t handle = 0;
      uint32_t number = 0;
    } last;
    const uint64_t generation = generation_.load(std::memory_order_acquire);
    if (last.generation != generation || last.handle != handle)
      last = {generation, handle, FindShared(handle)};
    return last.number;
  }

  // The handle is about to be destroyed: should the driver give it out again, it is another.
  void Forget(uint64_t handle) {
    std::unique_lock lock(mutex_);
    numbers_.erase(handle);
    generation_.store(NextGeneration(), std::memory_order_release);
  }

 private:
  static uint64_t NextGeneration() {
    static std::atomic<uint64_t> next{1};
    return next.fetch_add(1, std::memory_order_relaxed);
  }

  uint32_t FindShared(uint64_t handle) {
    {
      std::shared_lock lock(mutex_);
      const auto it = numbers_.find(handle);
      if (it != numbers_.end()) return it->second;
    }
    std::unique_lock lock(mutex_);
    const auto [it, added] = numbers_.try_emplace(handle, next_);
    if (added) next_ = std::min(next_ + 1, last_);
    return it->second;
  }

  // Changes when a handle is forgotten; never that of another table.
  std::atomic<uint64_t> generation_{NextGeneration()};
  std::shared_mutex mutex_;
  absl::flat_hash_map<uint64_t, uint32_t> numbers_;
  uint32_t next_;
  const uint32_t last_;
};

}  // namespace ebt::record

#endif  // EBBTIDE_SRC_RECORD_NUMBER_TABLE_H_
