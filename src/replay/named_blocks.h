// Which live blocks of one address range a launch or a copy names.
#ifndef EBBTIDE_SRC_REPLAY_NAMED_BLOCKS_H_
#define EBBTIDE_SRC_REPLAY_NAMED_BLOCKS_H_

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "hooks/core_api.h"
#include "src/base/mutex.h"
#include "src/driver/function_table.h"
#include "src/tier/trial.h"

namespace ebt::replay {

// Thread-safe.
class NamedBlocks {
 public:
  // Of the addresses [base, base + size).
  NamedBlocks(const DriverApi& driver, CUdeviceptr base, uint64_t size);

  void Add(uint64_t offset, uint64_t bytes);
  void Remove(uint64_t offset);

  // Appends every live block that a word of the launch's parameters points into, whole and once.
  // Words are evidence: a number that looks like an address costs time, nothing else.
  void OfLaunch(const ebt_launch& launch, std::vector<tier::Extent>* named);
  // Appends what of [address, address + bytes) lies in the range.
  void OfSpan(uint64_t address, uint64_t bytes, std::vector<tier::Extent>* named) const;

  // For people: the function's name.
  std::string FunctionName(void* function);

 private:
  struct Block {
    uint64_t bytes = 0;
    uint64_t named_by = 0;  // number of the last launch that did
  };
  // Unless the present launch has named it before.
  void Append(uint64_t offset, std::vector<tier::Extent>* named)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CUdeviceptr base_;
  const uint64_t size_;
  FunctionTable functions_;
  mutable Mutex mutex_;
  absl::btree_map<uint64_t, Block> blocks_ ABSL_GUARDED_BY(mutex_);  // by offset
  uint64_t launches_ ABSL_GUARDED_BY(mutex_) = 0;                    // that named something
};

}  // namespace ebt::replay

#endif  // EBBTIDE_SRC_REPLAY_NAMED_BLOCKS_H_
