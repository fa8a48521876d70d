#include "src/plan/baseline_caching.h"

namespace ebt::plan {

uint32_t CachingAllocator::Serve(uint8_t pool, uint16_t stream, uint64_t bytes) {
  uint32_t piece = TakeCached(pool, stream, bytes);
  if (piece == kNoPiece) piece = Grow(pool, stream, bytes);
  if (piece != kNoPiece) return piece;
  ++counts_.retries;
  ReleaseCached();
  return Grow(pool, stream, bytes);
}

bool CachingAllocator::Take(uint32_t block, uint64_t bytes, uint16_t stream) {
  bytes = AlignUp(bytes, kRounding);
  const uint8_t pool = bytes <= kSmallMost ? kSmall : kLarge;
  const uint32_t piece = Serve(pool, stream, bytes);
  if (piece == kNoPiece) return false;
  const uint64_t rest = pieces_[piece].bytes - bytes;
  if (rest > 0 && SplitsOff(pool, rest)) {
    const uint32_t left = pieces_.Split(piece, bytes);
    free_[pool].Insert(pieces_[left], left);
  }
  pieces_[piece].free = false;
  if (piece_of_.size() <= block) piece_of_.resize(size_t{block} + 1, kNoPiece);
  piece_of_[block] = piece;
  Allocated(pieces_[piece].bytes);
  return true;
}

void CachingAllocator::Give(uint32_t block) {
  const uint32_t piece = piece_of_[block];
  Freed(pieces_[piece].bytes);
  pieces_[piece].free = true;
  Coalesce(piece);
  free_[pieces_[piece].pool].Insert(pieces_[piece], piece);
}

void CachingAllocator::Coalesce(uint32_t piece) {
  const auto absorb = [&](uint32_t neighbour) {
    if (neighbour == kNoPiece || !pieces_[neighbour].free ||
        pieces_[neighbour].mapped != pieces_[piece].mapped)
      return;
    Forget(neighbour);
    pieces_.Absorb(piece, neighbour);
  };
  absorb(pieces_[piece].before);
  absorb(pieces_[piece].after);
}

}  // namespace ebt::plan
