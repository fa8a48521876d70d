// Device memory as VMM handles mapped into one address range, chunk by chunk.
#ifndef EBBTIDE_SRC_MEMORY_PAGE_POOL_H_
#define EBBTIDE_SRC_MEMORY_PAGE_POOL_H_

#include <cuda.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/mutex.h"
#include "src/driver/driver_api.h"
#include "src/memory/backing.h"

namespace ebt::memory {

// Where address ranges are asked for: high in the address space, so that two neighbouring 32-bit
// numbers in a kernel's parameters are unlikely to read as an address of ours.
inline constexpr CUdeviceptr kAddressHint = 0x5e5e'0000'0000;

// The handles of one device, with what they add up to. Thread-safe.
class PagePool {
 public:
  // limit: most bytes that may be handed out at once; 0: as many as the driver has.
  PagePool(const DriverApi& driver, CUdevice device, uint64_t limit);

  CUresult Get(uint64_t bytes, CUmemGenericAllocationHandle* handle);
  void Put(uint64_t bytes, CUmemGenericAllocationHandle handle);

  // Devices beside the pool's own that may read and write what is mapped from now on.
  void AddPeer(CUdevice peer) ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<CUmemAccessDesc> Access() const ABSL_LOCKS_EXCLUDED(mutex_);

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t peak_bytes() const { return peak_.load(std::memory_order_relaxed); }
  CUdevice device() const { return device_; }
  const DriverApi& driver() const { return driver_; }
  // Bytes that every handle's size must be a multiple of.
  uint64_t granularity() const { return granularity_; }

 private:
  const DriverApi& driver_;
  const CUdevice device_;
  const uint64_t limit_;
  CUmemAllocationProp properties_{};
  uint64_t granularity_ = 0;
  std::atomic<uint64_t> bytes_{0}, peak_{0};
  mutable Mutex mutex_;
  std::vector<CUdevice> peers_ ABSL_GUARDED_BY(mutex_);
};

// An address range that handles of a pool are mapped into, a chunk at a time.
class MappedRange : public Backing {
 public:
  // 32 MiB: a VMM call costs tens of microseconds whatever its size, and a chunk that is half
  // used wastes the rest.
  static constexpr uint64_t kChunkBytes = 32ull << 20;

  // size, chunk_bytes: multiples of the pool's granularity. The pool must outlive the range.
  static absl::StatusOr<std::unique_ptr<MappedRange>> Reserve(PagePool& pool, uint64_t size,
                                                              uint64_t chunk_bytes = kChunkBytes);
  // Unmaps and releases everything. Nothing on the device may use the range any more.
  ~MappedRange() override;

  CUdeviceptr base() const override { return base_; }
  uint64_t size() const override { return size_; }
  CUresult Ensure(uint64_t offset, uint64_t bytes) override ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t device_bytes() const override { return mapped_.load(std::memory_order_relaxed); }

  // Gives what is mapped now the access that the pool has by now (PagePool::AddPeer).
  CUresult RenewAccess() ABSL_LOCKS_EXCLUDED(mutex_);

  // The chunks with memory behind them, by offset; bytes of the chunk at an offset.
  std::vector<uint64_t> MappedChunks() const;
  uint64_t ChunkBytesAt(uint64_t offset) const { return ChunkBytes(offset / chunk_bytes_); }
  // Every chunk but the last has this many.
  uint64_t chunk_bytes() const { return chunk_bytes_; }
  PagePool& pool() const { return pool_; }

  // What lies behind the chunk at an offset now, for a second mapping of it. The generation is
  // another one for every handle that was ever there; 0: nothing is there. The handle is good
  // for as long as the chunk is not released.
  struct Chunk {
    CUmemGenericAllocationHandle handle = 0;
    uint64_t generation = 0;
  };
  Chunk HandleAt(uint64_t chunk_offset) ABSL_LOCKS_EXCLUDED(mutex_);

  // Gives back every chunk that `is_free(offset, bytes)` says nobody uses. Nothing on the
  // device may use those any more, and nobody may begin to until this returns. Returns the
  // bytes given back.
  uint64_t ReleaseChunks(const std::function<bool(uint64_t, uint64_t)>& is_free)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  MappedRange(PagePool& pool, CUdeviceptr base, uint64_t size, uint64_t chunk_bytes);

  uint64_t ChunkBytes(size_t chunk) const;
  CUresult MapChunk(size_t chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UnmapChunk(size_t chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  PagePool& pool_;
  const CUdeviceptr base_;
  const uint64_t size_;
  const uint64_t chunk_bytes_;
  std::atomic<uint64_t> mapped_{0};
  // Held around the driver's calls: two threads must not map one chunk, and growth is rare.
  Mutex mutex_;
  std::vector<Chunk> chunks_ ABSL_GUARDED_BY(mutex_);
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<std::atomic<bool>[]> present_;  // [chunk]: read without the lock
};

}  // namespace ebt::memory

#endif  // EBBTIDE_SRC_MEMORY_PAGE_POOL_H_
