// Small numbers for the driver's handles, in order of first use.
#ifndef EBBTIDE_SRC_RECORD_NUMBER_TABLE_H_
#define EBBTIDE_SRC_RECORD_NUMBER_TABLE_H_

#include <algorithm>
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

  // The handle is about to be destroyed: should the driver give it out again, it is another.
  void Forget(uint64_t handle) {
    std::unique_lock lock(mutex_);
    numbers_.erase(handle);
  }

 private:
  std::shared_mutex mutex_;
  absl::flat_hash_map<uint64_t, uint32_t> numbers_;
  uint32_t next_;
  const uint32_t last_;
};

}  // namespace ebt::record

#endif  // EBBTIDE_SRC_RECORD_NUMBER_TABLE_H_
