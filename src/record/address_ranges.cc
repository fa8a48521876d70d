#include "src/record/address_ranges.h"

#include <algorithm>
#include <iterator>

namespace ebt::record {
namespace {

void AddPiece(uint64_t begin, uint64_t end, profile::SnapshotFragmentation& out) {
  if (begin >= end) return;
  out.free_bytes += end - begin;
  out.largest_free_bytes = std::max(out.largest_free_bytes, end - begin);
  ++out.pieces;
}

}  // namespace

void AddressRanges::Add(AddressRange range) {
  if (range.begin >= range.end) return;
  auto it = ends_.upper_bound(range.begin);
  if (it != ends_.begin() && std::prev(it)->second >= range.begin) --it;
  // The usual case: memory that was there before.
  if (it != ends_.end() && it->first <= range.begin && it->second >= range.end) return;
  while (it != ends_.end() && it->first <= range.end) {
    range.begin = std::min(range.begin, it->first);
    range.end = std::max(range.end, it->second);
    it = ends_.erase(it);
  }
  if (ends_.size() < kMost) ends_[range.begin] = range.end;
}

profile::SnapshotFragmentation AddressRanges::Without(std::vector<AddressRange> taken) const {
  std::sort(taken.begin(), taken.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
  profile::SnapshotFragmentation out;
  auto next = taken.begin();
  uint64_t covered = 0;  // by what of `taken` began before
  for (const auto& [begin, end] : ends_) {
    uint64_t from = std::max(begin, covered);
    for (; next != taken.end() && next->begin < end; ++next) {
      AddPiece(from, next->begin, out);
      covered = std::max(covered, next->end);
      from = std::max(from, covered);
    }
    AddPiece(from, end, out);
  }
  return out;
}

}  // namespace ebt::record
