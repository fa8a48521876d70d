// What is free of an address range that begins at 0.
#ifndef EBBTIDE_SRC_PLAN_BASELINE_RANGES_H_
#define EBBTIDE_SRC_PLAN_BASELINE_RANGES_H_

#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/btree_map.h"

namespace ebt::plan {

// Neighbouring free ranges are one. Sizes and offsets in bytes; what is taken is more than 0.
class FreeRanges {
 public:
  // [0, bytes) is free.
  explicit FreeRanges(uint64_t bytes) { Grow(bytes); }

  // More free bytes at the end.
  void Grow(uint64_t bytes);

  // The offset of so many bytes, taken: at the beginning of the smallest free range that holds
  // them, of equal ones the lowest.
  std::optional<uint64_t> TakeBestFit(uint64_t bytes);
  // The lowest place within [begin, end).
  std::optional<uint64_t> TakeLowest(uint64_t bytes, uint64_t begin, uint64_t end);
  // Exactly these. False: they are not all free, and nothing is taken.
  bool TakeAt(uint64_t offset, uint64_t bytes);
  void Give(uint64_t offset, uint64_t bytes);

  // Of the free range that ends the whole, 0 if that ends in use.
  uint64_t free_at_end() const;
  uint64_t size() const { return size_; }
  // By offset, with their sizes.
  const absl::btree_map<uint64_t, uint64_t>& all() const { return ranges_; }

 private:
  using Ranges = absl::btree_map<uint64_t, uint64_t>;

  void Insert(uint64_t offset, uint64_t bytes);
  void Cut(uint64_t range, uint64_t range_bytes, uint64_t offset, uint64_t bytes);

  uint64_t size_ = 0;
  Ranges ranges_;
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // size, offset
};

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_BASELINE_RANGES_H_
