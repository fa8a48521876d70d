// The two address ranges of the swap engine: the slabs' own, which the application holds, and
// home, where their host pages can always be reached.
#ifndef EBBTIDE_SRC_TIER_SLAB_MEMORY_H_
#define EBBTIDE_SRC_TIER_SLAB_MEMORY_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "src/driver/driver_api.h"
#include "src/memory/page_pool.h"

namespace ebt::tier {

// Not thread-safe: the engine holds its lock.
class SlabMemory {
 public:
  // Takes `count` host handles of `slab_bytes` on the NUMA node next to the pool's device and
  // maps each at home and at its slab's address. What cannot be had is an error and nothing is
  // kept. The pool must outlive it.
  static absl::StatusOr<std::unique_ptr<SlabMemory>> Create(memory::PagePool& pool,
                                                            uint64_t slab_bytes, size_t count);
  // Nothing on the device may use either range any more.
  ~SlabMemory();
  SlabMemory(const SlabMemory&) = delete;
  SlabMemory& operator=(const SlabMemory&) = delete;

  CUdeviceptr base() const { return base_; }
  uint64_t size() const { return slabs_.size() * slab_bytes_; }
  // Where a slab's host pages are, whatever its own address shows.
  CUdeviceptr HomeOf(size_t slab) const { return home_ + slab * slab_bytes_; }

  // Makes the slab's address show its host pages, or what lies behind a chunk of the device
  // range. No work that is queued may use the address. CUDA_SUCCESS or the driver's refusal,
  // after which the address may show nothing.
  CUresult ShowHome(size_t slab);
  CUresult ShowChunk(size_t slab, const memory::MappedRange::Chunk& chunk);
  bool ShowsChunk(size_t slab, const memory::MappedRange::Chunk& chunk) const {
    return slabs_[slab].shows == chunk.generation && chunk.generation != kNothing;
  }

  // Gives both ranges the access that the pool has by now. CUDA_SUCCESS or the first refusal.
  CUresult RenewAccess();

 private:
  // What an address shows is told by the generation of the chunk, which is never one of these.
  static constexpr uint64_t kNothing = 0, kHome = UINT64_MAX;

  struct Slab {
    CUmemGenericAllocationHandle handle = 0;  // of the host pages
    bool at_home = false;                     // mapped at home
    bool mapped = false;                      // its own address is
    uint64_t shows = kNothing;                // the mapping that also has its access
  };

  SlabMemory(memory::PagePool& pool, uint64_t slab_bytes, size_t count)
      : pool_(pool), driver_(pool.driver()), slab_bytes_(slab_bytes), slabs_(count) {}
  absl::Status Build();
  absl::Status MakeSlab(size_t slab, const CUmemAllocationProp& properties);
  CUdeviceptr AddressOf(size_t slab) const { return base_ + slab * slab_bytes_; }
  CUresult Show(size_t slab, CUmemGenericAllocationHandle handle, uint64_t generation);
  CUresult SetAccess(CUdeviceptr address);

  memory::PagePool& pool_;
  const DriverApi& driver_;
  const uint64_t slab_bytes_;
  CUdeviceptr base_ = 0, home_ = 0;
  std::vector<Slab> slabs_;
};

}  // namespace ebt::tier

#endif  // EBBTIDE_SRC_TIER_SLAB_MEMORY_H_
