#include "src/memory/arena.h"

#include <algorithm>

#include "src/base/units.h"

namespace ebt::memory {

Arena::Arena(std::unique_ptr<Backing> backing, StreamLedger& ledger)
    : backing_(std::move(backing)), ledger_(ledger), map_(backing_->size()) {}

Arena::Outcome Arena::TakeAt(uint64_t offset, uint64_t bytes, CUstream stream) {
  bytes = AlignUp(bytes, kBlockAlignment);
  return Finish(Claim(offset, bytes), bytes, stream);
}

Arena::Outcome Arena::TakeIdleAt(uint64_t offset, uint64_t bytes) {
  bytes = AlignUp(bytes, kBlockAlignment);
  return Finish(Claim(offset, bytes), bytes, std::nullopt);
}

Arena::Outcome Arena::Take(uint64_t bytes, CUstream stream, uint64_t* offset) {
  bytes = AlignUp(bytes, kBlockAlignment);
  const StreamTag tag = ledger_.TagOf(stream);
  std::vector<Piece> pieces;
  {
    MutexLock lock(&mutex_);
    pieces = map_.TakeBestFit(bytes, tag);
  }
  if (!pieces.empty()) *offset = pieces.front().offset;
  return Finish(pieces, bytes, stream);
}

Arena::Outcome Arena::TakeWithin(uint64_t begin, uint64_t end, uint64_t bytes,
                                 std::optional<CUstream> stream, uint64_t* offset) {
  bytes = AlignUp(bytes, kBlockAlignment);
  std::vector<Piece> pieces;
  {
    MutexLock lock(&mutex_);
    pieces = map_.TakeLowest(bytes, begin, end);
  }
  if (!pieces.empty()) *offset = pieces.front().offset;
  return Served(Finish(pieces, bytes, stream), *offset + bytes);
}

Arena::Outcome Arena::TakeCompact(uint64_t floor, uint64_t bytes, std::optional<CUstream> stream,
                                  uint64_t* offset) {
  bytes = AlignUp(bytes, kBlockAlignment);
  const StreamTag tag = stream ? ledger_.TagOf(*stream) : kIdle;
  std::vector<Piece> pieces;
  {
    MutexLock lock(&mutex_);
    pieces = map_.TakeBestFit(bytes, tag, std::max(floor, top_));
    if (pieces.empty()) pieces = map_.TakeLowest(bytes, 0, map_.size());
  }
  if (!pieces.empty()) *offset = pieces.front().offset;
  return Served(Finish(pieces, bytes, stream), *offset + bytes);
}

// What had no memory is not in use: else the hole that it left would be preferred to a larger one
// that has some.
Arena::Outcome Arena::Served(Outcome outcome, uint64_t end) {
  if (outcome != Outcome::kServed) return outcome;
  MutexLock lock(&mutex_);
  top_ = std::max(top_, end);
  return outcome;
}

Arena::Outcome Arena::Finish(const std::vector<Piece>& pieces, uint64_t bytes,
                             std::optional<CUstream> stream) {
  if (pieces.empty()) return Outcome::kOccupied;
  Outcome outcome = Outcome::kServed;
  if (backing_->Ensure(pieces.front().offset, bytes) != CUDA_SUCCESS) {
    outcome = Outcome::kNoMemory;
  } else if ((stream ? ledger_.OrderAfter(*stream, pieces) : ledger_.WaitFor(pieces)) !=
             CUDA_SUCCESS) {
    outcome = Outcome::kNotOrdered;
  }
  if (outcome != Outcome::kServed) Unclaim(pieces);
  return outcome;
}

void Arena::Give(uint64_t offset, uint64_t bytes, CUstream stream) {
  const StreamTag tag = ledger_.TagOf(stream);
  // A stream that cannot be named later and refuses its event now: nobody could ever be ordered
  // after it, so the bytes are not used again.
  if (stream == CU_STREAM_PER_THREAD && ledger_.Freed(tag) != CUDA_SUCCESS) return;
  MutexLock lock(&mutex_);
  map_.Give(offset, AlignUp(bytes, kBlockAlignment), tag);
}

void Arena::GiveBehind(uint64_t offset, uint64_t bytes, StreamTag event) {
  MutexLock lock(&mutex_);
  map_.Give(offset, AlignUp(bytes, kBlockAlignment), event);
}

void Arena::GiveIdle(uint64_t offset, uint64_t bytes) { GiveBehind(offset, bytes, kIdle); }

bool Arena::IsFree(uint64_t offset, uint64_t bytes) const {
  MutexLock lock(&mutex_);
  return map_.IsFree(offset, bytes);
}

std::vector<Piece> Arena::Claim(uint64_t offset, uint64_t bytes) {
  MutexLock lock(&mutex_);
  return map_.TakeAt(offset, bytes);
}

void Arena::Unclaim(const std::vector<Piece>& pieces) {
  MutexLock lock(&mutex_);
  map_.Restore(pieces);
}

void Arena::SetAllIdle() {
  MutexLock lock(&mutex_);
  map_.SetAllIdle();
}

uint64_t Arena::live_bytes() const {
  MutexLock lock(&mutex_);
  return map_.size() - map_.free_bytes();
}

}  // namespace ebt::memory
