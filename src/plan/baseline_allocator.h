// What the baselines of baseline.h have in common: a device with so much memory, and an allocator
// that takes its own from there.
#ifndef EBBTIDE_SRC_PLAN_BASELINE_ALLOCATOR_H_
#define EBBTIDE_SRC_PLAN_BASELINE_ALLOCATOR_H_

#include <algorithm>
#include <cstdint>
#include <memory>

namespace ebt::plan {

// Device memory as a driver hands it out, in bytes.
class DeviceMemory {
 public:
  explicit DeviceMemory(uint64_t capacity) : capacity_(capacity) {}

  // False, and nothing is taken, where it does not suffice.
  bool Take(uint64_t bytes) {
    if (bytes > capacity_ - used_) return false;
    used_ += bytes;
    peak_ = std::max(peak_, used_);
    return true;
  }
  void Give(uint64_t bytes) { used_ -= bytes; }

  uint64_t used() const { return used_; }
  uint64_t peak() const { return peak_; }

 private:
  uint64_t capacity_;
  uint64_t used_ = 0, peak_ = 0;
};

// What an allocator has done so far; sizes in bytes.
struct AllocatorCounts {
  uint64_t reserved = 0, peak_reserved = 0;    // device memory that it holds
  uint64_t allocated = 0, peak_allocated = 0;  // of it in blocks, with what was not split off
  uint64_t made = 0, freed = 0;                // pieces of device memory that it took and gave back
  uint64_t retries =
      0;  // allocations that succeeded or failed after what was cached was given back
  uint64_t moved_in = 0, moved_out = 0;  // over the link
};

// An allocator that serves one recorded process. Blocks are numbers, each used once.
class BaselineAllocator {
 public:
  // The device must outlive the allocator.
  explicit BaselineAllocator(DeviceMemory& device) : device_(device) {}
  virtual ~BaselineAllocator() = default;

  // A block of `bytes` > 0 for work of `stream`. False: the device's memory does not suffice.
  virtual bool Take(uint32_t block, uint64_t bytes, uint16_t stream) = 0;
  // `block` is one that Take has served and nobody has given.
  virtual void Give(uint32_t block) = 0;
  // Work on the device names a block that lives.
  virtual void Touch(uint32_t /*block*/) {}

  const AllocatorCounts& counts() const { return counts_; }

 protected:
  bool Reserve(uint64_t bytes, uint64_t pieces) {
    if (!device_.Take(bytes)) return false;
    counts_.made += pieces;
    counts_.reserved += bytes;
    counts_.peak_reserved = std::max(counts_.peak_reserved, counts_.reserved);
    return true;
  }
  void Release(uint64_t bytes, uint64_t pieces) {
    device_.Give(bytes);
    counts_.freed += pieces;
    counts_.reserved -= bytes;
  }
  void Allocated(uint64_t bytes) {
    counts_.allocated += bytes;
    counts_.peak_allocated = std::max(counts_.peak_allocated, counts_.allocated);
  }
  void Freed(uint64_t bytes) { counts_.allocated -= bytes; }

  DeviceMemory& device_;
  AllocatorCounts counts_;
};

// Their rules stand at the head of the file of each.
std::unique_ptr<BaselineAllocator> MakeNativeAllocator(DeviceMemory& device);
// address_bytes: of the address range of each expandable segment.
std::unique_ptr<BaselineAllocator> MakeExpandableAllocator(DeviceMemory& device,
                                                           uint64_t address_bytes);
std::unique_ptr<BaselineAllocator> MakePoolAllocator(DeviceMemory& device);
std::unique_ptr<BaselineAllocator> MakeManagedAllocator(DeviceMemory& device);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_BASELINE_ALLOCATOR_H_
