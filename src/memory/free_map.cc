#include "src/memory/free_map.h"

#include <algorithm>
#include <iterator>

namespace ebt::memory {
namespace {

// The piece that holds `offset`, end() if it is in use.
template <typename Pieces>
auto Holding(Pieces& pieces, uint64_t offset) {
  const auto after = pieces.upper_bound(offset);
  if (after == pieces.begin()) return pieces.end();
  const auto at = std::prev(after);
  return offset < at->first + at->second.bytes ? at : pieces.end();
}

}  // namespace

FreeMap::FreeMap(uint64_t size) : size_(size), free_bytes_(size) {
  if (size > 0) pieces_[0] = {size, kIdle};
}

bool FreeMap::IsFree(uint64_t offset, uint64_t bytes) const {
  const uint64_t end = offset + bytes;
  if (end < offset || end > size_) return false;
  auto at = Holding(pieces_, offset);
  while (at != pieces_.end()) {
    const uint64_t piece_end = at->first + at->second.bytes;
    if (piece_end >= end) return true;
    if (++at == pieces_.end() || at->first != piece_end) return false;
  }
  return false;
}

std::vector<Piece> FreeMap::Remove(Pieces::iterator from, uint64_t offset, uint64_t bytes) {
  const uint64_t end = offset + bytes;
  std::vector<Piece> taken;
  for (uint64_t at = offset; at < end;) {
    const uint64_t begin = from->first;
    const Rest rest = from->second;
    const uint64_t stop = std::min(begin + rest.bytes, end);
    taken.push_back({at, stop - at, rest.tag});
    if (begin < at) {
      from->second.bytes = at - begin;
      ++from;
    } else {
      from = pieces_.erase(from);
    }
    if (stop < begin + rest.bytes)
      pieces_.emplace_hint(from, stop, Rest{begin + rest.bytes - stop, rest.tag});
    at = stop;
  }
  free_bytes_ -= bytes;
  return taken;
}

std::vector<Piece> FreeMap::TakeAt(uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return {};
  const auto from = Holding(pieces_, offset);
  if (from == pieces_.end()) return {};
  const bool whole = bytes <= from->first + from->second.bytes - offset;
  if (!whole && !IsFree(offset, bytes)) return {};
  return Remove(from, offset, bytes);
}

std::vector<Piece> FreeMap::TakeLowest(uint64_t bytes, uint64_t begin, uint64_t end) {
  if (bytes == 0) return {};
  auto at = pieces_.upper_bound(begin);
  if (at != pieces_.begin()) --at;
  uint64_t run_begin = 0, run_end = 0;  // of pieces without a gap
  for (; at != pieces_.end() && at->first < end; ++at) {
    const uint64_t piece_end = std::min(end, at->first + at->second.bytes);
    if (piece_end <= begin) continue;
    if (at->first != run_end || run_end == 0) run_begin = std::max(begin, at->first);
    run_end = piece_end;
    if (run_end - run_begin >= bytes) return Remove(Holding(pieces_, run_begin), run_begin, bytes);
  }
  return {};
}

std::vector<Piece> FreeMap::TakeBestFit(uint64_t bytes, StreamTag preferred, uint64_t limit) {
  if (bytes == 0) return {};
  struct Candidate {
    uint64_t offset = 0;
    uint64_t bytes = UINT64_MAX;
  };
  Candidate unordered, any;  // needs no wait; may need one
  const auto consider = [bytes](Candidate& best, uint64_t offset, uint64_t run) {
    if (run >= bytes && run < best.bytes) best = {offset, run};
  };
  uint64_t any_begin = 0, own_begin = 0, end = 0;  // the runs that end at `end`
  bool any_open = false, own_open = false;
  const auto close_own = [&] {
    if (own_open) consider(unordered, own_begin, end - own_begin);
    own_open = false;
  };
  const auto close_any = [&] {
    if (any_open) consider(any, any_begin, end - any_begin);
    any_open = false;
  };
  for (const auto& [offset, rest] : pieces_) {
    if (offset >= limit) break;
    if (offset != end) {
      close_own();
      close_any();
    }
    const bool own = rest.tag == kIdle || rest.tag == preferred;
    if (!own) close_own();
    if (own && !own_open) own_begin = offset;
    if (!any_open) any_begin = offset;
    own_open = own;
    any_open = true;
    end = std::min(limit, offset + rest.bytes);
  }
  close_own();
  close_any();
  const Candidate& best = unordered.bytes != UINT64_MAX ? unordered : any;
  if (best.bytes == UINT64_MAX) return {};
  return Remove(Holding(pieces_, best.offset), best.offset, bytes);
}

void FreeMap::Give(uint64_t offset, uint64_t bytes, StreamTag tag) {
  if (bytes == 0) return;
  free_bytes_ += bytes;
  uint64_t begin = offset, end = offset + bytes;
  auto after = pieces_.lower_bound(offset);
  if (after != pieces_.end() && after->first == end && after->second.tag == tag) {
    end += after->second.bytes;
    after = pieces_.erase(after);
  }
  if (after != pieces_.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second.bytes == begin && before->second.tag == tag) {
      before->second.bytes = end - before->first;
      return;
    }
  }
  pieces_[begin] = {end - begin, tag};
}

void FreeMap::Restore(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) Give(piece.offset, piece.bytes, piece.tag);
}

void FreeMap::SetAllIdle() {
  Pieces merged;
  for (const auto& [offset, rest] : pieces_) {
    if (!merged.empty()) {
      auto last = std::prev(merged.end());
      if (last->first + last->second.bytes == offset) {
        last->second.bytes += rest.bytes;
        continue;
      }
    }
    merged[offset] = {rest.bytes, kIdle};
  }
  pieces_ = std::move(merged);
}

}  // namespace ebt::memory
