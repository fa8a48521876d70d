// What steps that differ have in common: one sequence of allocations that every step's is a part
// of, and rooms that allocations share whose sizes vary but whose sum does not.
#ifndef EBBTIDE_SRC_PLAN_ENVELOPE_H_
#define EBBTIDE_SRC_PLAN_ENVELOPE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ebt::plan {

// Sequences laid one over the other. Place p of the merged sequence is taken by one element at
// most of each of them, and each goes through the places in its own order.
struct Merged {
  std::vector<uint64_t> symbols;                // of each place
  std::vector<std::vector<uint32_t>> place_of;  // [sequence][element], ascending in each sequence
};

// Merges sequences of symbols (sites, in order of allocation). `model` is the sequence that the
// others are compared with first. Where two differ, the way with the fewest places that only one
// of them has is taken, as far as it is seen within a short distance: O(symbols) for sequences
// that differ here and there.
Merged MergeSequences(const std::vector<std::vector<uint64_t>>& sequences, size_t model);

// A place whose block is not equally large in every step, or not there in every step.
struct Varying {
  uint64_t begin = 0, end = 0;  // on the plan's time axis, what it needs in any step
  std::vector<uint64_t> bytes;  // in each step, a multiple of kBlockAlignment; 0: not there
};

// One range of memory that several of them share: each takes the lowest free place in it.
struct Room {
  std::vector<uint32_t> members;  // indices of the varying, ascending
  uint64_t bytes = 0;             // enough for every step
  uint64_t begin = 0, end = 0;    // in which any of them lives
};

// Joins places into rooms as long as a room takes less bytes times time than its parts: of experts
// that share a batch between them the sum is steady and no part is. A place that nothing can be
// joined with is a room of its own, as large as it ever was. Equal input gives equal rooms.
std::vector<Room> MakeRooms(const std::vector<Varying>& varying);

// Bytes that a room needs when each of `members` takes the lowest free place in it.
uint64_t RoomBytes(const std::vector<Varying>& varying, const std::vector<uint32_t>& members);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_ENVELOPE_H_
