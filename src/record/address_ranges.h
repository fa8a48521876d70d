// Address ranges that memory has been in.
#ifndef EBBTIDE_SRC_RECORD_ADDRESS_RANGES_H_
#define EBBTIDE_SRC_RECORD_ADDRESS_RANGES_H_

#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "src/profile/snapshot.h"

namespace ebt::record {

struct AddressRange {
  uint64_t begin = 0, end = 0;  // half-open
};

// A union of ranges. Not thread-safe.
class AddressRanges {
 public:
  // Where blocks lie far apart, and never in the same place again, nothing more is added.
  static constexpr size_t kMost = size_t{1} << 16;

  // O(log ranges), and what it joins.
  void Add(AddressRange range);

  // What of the ranges none of `taken` covers. These may come in any order and overlap.
  profile::SnapshotFragmentation Without(std::vector<AddressRange> taken) const;

  bool empty() const { return ends_.empty(); }

 private:
  absl::btree_map<uint64_t, uint64_t> ends_;  // by begin; no two touch
};

}  // namespace ebt::record

#endif  // EBBTIDE_SRC_RECORD_ADDRESS_RANGES_H_
