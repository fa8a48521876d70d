// The validator's play: what lies where, from when to when, and what that breaks. For validator.cc
// alone; nothing of it is the planner's.
#ifndef EBBTIDE_SRC_PLAN_STAYS_H_
#define EBBTIDE_SRC_PLAN_STAYS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "src/plan/plan.h"
#include "src/profile/types.h"

namespace ebt::plan {

// Stays of slabs are played as blocks of this sequence.
inline constexpr std::string_view kSlabs = "slabs";

struct SlotRef {
  std::string_view sequence = "";
  size_t index = 0;
  const Slot* slot = nullptr;
};

// "step[3] (site 0x7, ordinal 0, 512 bytes at 1024)", "slabs[2] (…)".
std::string Name(const SlotRef& ref);

absl::Status Broken(const char* rule, const std::string& what);

// A moment: so many launches have gone by, and so many events since.
struct Moment {
  uint64_t launches = 0;
  uint64_t since = 0;
  auto operator<=>(const Moment&) const = default;  // NOLINT(modernize-use-nullptr): its own 0
};
inline constexpr Moment kForever = {~uint64_t{0}, 0};

// A block in its place, [begin, end).
struct Stay {
  SlotRef ref;
  Moment begin, end;
  const profile::Block* block = nullptr;  // what was recorded of it; nullptr of a slab
};

// Bytes that are free now, by the stream in whose order they were freed last.
class FreedBytes {
 public:
  // The streams of [begin, end), which is taken.
  std::vector<uint16_t> Take(uint64_t begin, uint64_t end);
  void Give(uint64_t begin, uint64_t end, uint16_t stream);

 private:
  struct Piece {
    uint64_t end;
    uint16_t stream;
  };
  std::map<uint64_t, Piece> pieces_;  // by begin
};

// The rule "stream" for one block that gets bytes which these streams freed.
absl::Status CheckComesAfter(const SlotRef& ref, const profile::Block& block,
                             const std::vector<uint16_t>& streams);

// "overlap": no two stays share bytes at any time; those that end at a moment are gone before
// others begin. O(n log n).
absl::Status CheckOverlap(std::vector<Stay> stays);

// "stream": whoever gets bytes that were last freed in the order of another stream says so in
// Slot::after. What cuMemFree freed needs no event, what cuMemAlloc gives needs one behind every
// stream. Expects what CheckOverlap passes. O(n log n).
absl::Status CheckStreamOrder(std::vector<Stay> stays);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_STAYS_H_
