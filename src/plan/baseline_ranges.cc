#include "src/plan/baseline_ranges.h"

#include <algorithm>
#include <iterator>

namespace ebt::plan {

void FreeRanges::Insert(uint64_t offset, uint64_t bytes) {
  ranges_[offset] = bytes;
  by_size_.insert({bytes, offset});
}

void FreeRanges::Grow(uint64_t bytes) {
  const uint64_t offset = size_;
  size_ += bytes;
  if (bytes > 0) Give(offset, bytes);
}

void FreeRanges::Give(uint64_t offset, uint64_t bytes) {
  auto after = ranges_.lower_bound(offset);
  if (after != ranges_.end() && after->first == offset + bytes) {
    bytes += after->second;
    by_size_.erase({after->second, after->first});
    after = ranges_.erase(after);
  }
  if (after != ranges_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      by_size_.erase({before->second, before->first});
      ranges_.erase(before);
    }
  }
  Insert(offset, bytes);
}

// Takes [offset, offset + bytes) out of a free range.
void FreeRanges::Cut(uint64_t range, uint64_t range_bytes, uint64_t offset, uint64_t bytes) {
  by_size_.erase({range_bytes, range});
  ranges_.erase(range);
  if (offset > range) Insert(range, offset - range);
  const uint64_t end = range + range_bytes;
  if (offset + bytes < end) Insert(offset + bytes, end - offset - bytes);
}

std::optional<uint64_t> FreeRanges::TakeBestFit(uint64_t bytes) {
  const auto found = by_size_.lower_bound({bytes, 0});
  if (found == by_size_.end()) return std::nullopt;
  const auto [range_bytes, offset] = *found;
  Cut(offset, range_bytes, offset, bytes);
  return offset;
}

std::optional<uint64_t> FreeRanges::TakeLowest(uint64_t bytes, uint64_t begin, uint64_t end) {
  auto at = ranges_.upper_bound(begin);
  if (at != ranges_.begin()) --at;
  for (; at != ranges_.end() && at->first < end; ++at) {
    const auto [range, range_bytes] = *at;
    const uint64_t from = std::max(begin, range), until = std::min(end, range + range_bytes);
    if (until < from || until - from < bytes) continue;
    Cut(range, range_bytes, from, bytes);
    return from;
  }
  return std::nullopt;
}

bool FreeRanges::TakeAt(uint64_t offset, uint64_t bytes) {
  auto at = ranges_.upper_bound(offset);
  if (at == ranges_.begin()) return false;
  --at;
  const auto [range, range_bytes] = *at;
  if (range_bytes < bytes || offset - range > range_bytes - bytes) return false;
  Cut(range, range_bytes, offset, bytes);
  return true;
}

uint64_t FreeRanges::free_at_end() const {
  if (ranges_.empty()) return 0;
  const auto& [offset, bytes] = *std::prev(ranges_.end());
  return offset + bytes == size_ ? bytes : 0;
}

}  // namespace ebt::plan
