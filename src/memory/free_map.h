// Which parts of an address range are free, and whose work may still be using them. Pure
// bookkeeping: no driver, no lock (the caller holds one).
#ifndef EBBTIDE_SRC_MEMORY_FREE_MAP_H_
#define EBBTIDE_SRC_MEMORY_FREE_MAP_H_

#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"

namespace ebt::memory {

// A stream in the order ledger (stream_ledger.h). kIdle: nobody's work is on the bytes.
using StreamTag = uint32_t;
inline constexpr StreamTag kIdle = 0;

// [offset, offset + bytes), freed in the order of `tag`.
struct Piece {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  StreamTag tag = kIdle;
};

class FreeMap {
 public:
  // [0, size) is free and idle.
  explicit FreeMap(uint64_t size);

  // Takes exactly [offset, offset + bytes), bytes > 0. The pieces that were there, in order of
  // offset; empty: some of it is in use, nothing was taken.
  std::vector<Piece> TakeAt(uint64_t offset, uint64_t bytes);

  // Takes `bytes` from the smallest free run that holds them, one that only `preferred` and
  // nobody else may still be using before others. Empty: no run is large enough. Of a run that
  // reaches behind `limit` only what lies before it counts.
  std::vector<Piece> TakeBestFit(uint64_t bytes, StreamTag preferred, uint64_t limit = UINT64_MAX);

  // Takes `bytes` at the lowest place within [begin, end). Empty: no run in it is large enough.
  std::vector<Piece> TakeLowest(uint64_t bytes, uint64_t begin, uint64_t end);

  // Gives a range back, to be used next in the order of `tag`.
  void Give(uint64_t offset, uint64_t bytes, StreamTag tag);
  // Undoes a take.
  void Restore(const std::vector<Piece>& pieces);

  // True when no byte of [offset, offset + bytes) is in use.
  bool IsFree(uint64_t offset, uint64_t bytes) const;

  // After everything on the device has finished: nobody's work is on anything.
  void SetAllIdle();

  uint64_t size() const { return size_; }
  uint64_t free_bytes() const { return free_bytes_; }

 private:
  struct Rest {
    uint64_t bytes;
    StreamTag tag;
  };
  using Pieces = absl::btree_map<uint64_t, Rest>;

  // Removes [offset, offset + bytes), which is free and begins in `from`.
  std::vector<Piece> Remove(Pieces::iterator from, uint64_t offset, uint64_t bytes);

  const uint64_t size_;
  uint64_t free_bytes_;
  Pieces pieces_;  // free pieces by offset; neighbours with the same tag are one piece
};

}  // namespace ebt::memory

#endif  // EBBTIDE_SRC_MEMORY_FREE_MAP_H_
