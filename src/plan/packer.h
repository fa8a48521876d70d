// Gives blocks places so that those which live at the same time do not overlap.
#ifndef EBBTIDE_SRC_PLAN_PACKER_H_
#define EBBTIDE_SRC_PLAN_PACKER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/units.h"

namespace ebt::plan {

// Half-open [begin, end) on whatever time axis the caller uses; empty when begin >= end.
struct Interval {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool empty() const { return begin >= end; }
};

struct Item {
  uint64_t bytes = 0;  // see RoundedBytes
  // When the block's place is taken. A block that outlives the step in which it was made takes
  // it at the end of a step and again at the begin of the next: two intervals.
  std::array<Interval, 2> live;
  // Of its offset: a multiple of kBlockAlignment, or 1 where sizes are in units of any kind.
  uint64_t alignment = kBlockAlignment;
};

struct Packing {
  std::vector<uint64_t> offsets;  // of each item, multiples of its alignment
  uint64_t peak = 0;              // bytes from 0 to the highest end of an item
  uint64_t bound = 0;             // MaxLive: no packing has a smaller peak
};

// What an item occupies: its bytes, rounded up to kBlockAlignment unless its alignment is smaller.
uint64_t RoundedBytes(const Item& item);

// Most bytes (as RoundedBytes has them) live at once: no packing has a smaller
// peak. O(n log n).
uint64_t MaxLive(const std::vector<Item>& items);

// Work of one packing: less than half a second, or one order where there are hundreds of thousands
// of items.
inline constexpr uint64_t kPackWork = 20'000'000;

// The first `stacked` items lie one behind the other from 0 on, in their order; the others go
// wherever nothing that lives at the same time is in the way. Tries several greedy orders, then
// moves those items forward that stick out above MaxLive, and keeps the best. `work` bounds the
// comparisons (about 5e7 a second), not the seconds, so that equal input gives equal output on
// every machine; the first order is always completed. Below a peak of `enough` nothing is gained.
Packing Pack(const std::vector<Item>& items, size_t stacked, uint64_t work = kPackWork,
             uint64_t enough = 0);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_PACKER_H_
