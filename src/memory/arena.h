// An address range that blocks are taken from and given back to in stream order.
#ifndef EBBTIDE_SRC_MEMORY_ARENA_H_
#define EBBTIDE_SRC_MEMORY_ARENA_H_

#include <cuda.h>

#include <memory>
#include <optional>
#include <vector>

#include "src/base/mutex.h"
#include "src/memory/backing.h"
#include "src/memory/free_map.h"
#include "src/memory/stream_ledger.h"

namespace ebt::memory {

// Thread-safe. The driver is never called while the arena's lock is held. Sizes are rounded up
// to kBlockAlignment by the arena; offsets given must be multiples of it.
class Arena {
 public:
  // The ledger must outlive the arena.
  Arena(std::unique_ptr<Backing> backing, StreamLedger& ledger);

  enum class Outcome {
    kServed,
    kOccupied,    // the place is in use, or no run is large enough
    kNoMemory,    // the driver gave no memory for it
    kNotOrdered,  // the driver refused to order `stream` after the memory's last users
  };
  // A block of `bytes` at `offset`, for work that `stream` will do from now on.
  Outcome TakeAt(uint64_t offset, uint64_t bytes, CUstream stream);
  // The same for work of any stream at once, as cuMemAlloc gives it: waits on the host for the
  // memory's last users.
  Outcome TakeIdleAt(uint64_t offset, uint64_t bytes);
  // A block of `bytes` anywhere; *offset says where.
  Outcome Take(uint64_t bytes, CUstream stream, uint64_t* offset);
  // The same at the lowest place within [begin, end). No stream: as TakeIdleAt.
  Outcome TakeWithin(uint64_t begin, uint64_t end, uint64_t bytes, std::optional<CUstream> stream,
                     uint64_t* offset);
  // The same below `floor` or where a block has been before, if that has room; else the arena's
  // used part grows, by as little as can be.
  Outcome TakeCompact(uint64_t floor, uint64_t bytes, std::optional<CUstream> stream,
                      uint64_t* offset);

  // The block's bytes may be used again in the order of `stream`.
  void Give(uint64_t offset, uint64_t bytes, CUstream stream);
  // The same in the order of an event (StreamLedger::TagOfEvent).
  void GiveBehind(uint64_t offset, uint64_t bytes, StreamTag event);
  // The same, and nothing on the device uses it any more.
  void GiveIdle(uint64_t offset, uint64_t bytes);

  bool IsFree(uint64_t offset, uint64_t bytes) const;
  // Keeps everybody off a free range until Unclaim, without memory or order. Empty: in use.
  std::vector<Piece> Claim(uint64_t offset, uint64_t bytes);
  void Unclaim(const std::vector<Piece>& pieces);
  void SetAllIdle();

  CUdeviceptr base() const { return backing_->base(); }
  uint64_t size() const { return backing_->size(); }
  uint64_t device_bytes() const { return backing_->device_bytes(); }
  uint64_t live_bytes() const;
  Backing& backing() { return *backing_; }

 private:
  // stream: whose work comes next; none: anybody's.
  Outcome Served(Outcome outcome, uint64_t end);
  Outcome Finish(const std::vector<Piece>& pieces, uint64_t bytes, std::optional<CUstream> stream);

  const std::unique_ptr<Backing> backing_;
  StreamLedger& ledger_;
  mutable Mutex mutex_;
  FreeMap map_ ABSL_GUARDED_BY(mutex_);
  uint64_t top_ ABSL_GUARDED_BY(mutex_) = 0;  // the highest end of any block so far
};

}  // namespace ebt::memory

#endif  // EBBTIDE_SRC_MEMORY_ARENA_H_
