// Where each cold block of a plan lies in a run: under the swap engine, or in managed memory.
// Pure data, no driver.
#ifndef EBBTIDE_SRC_REPLAY_COLD_HOMES_H_
#define EBBTIDE_SRC_REPLAY_COLD_HOMES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "src/plan/plan.h"

namespace ebt::replay {

struct ColdHome {
  bool swapped = false;
  uint64_t offset = 0;  // in the swapped range, or in the other one
};

// Blocks of the slab section whose site `may_swap` says yes to keep their places there, in a
// range of the section's size. All others are moved together, so that the range for them is no
// larger than it must be.
class ColdHomes {
 public:
  // The plan must outlive the homes and must not change.
  ColdHomes(const plan::Plan& plan, const std::function<bool(uint64_t)>& may_swap);

  // slot: a cold one of the plan.
  const ColdHome& Of(const plan::Slot& slot) const;
  // Bytes of the two ranges; 0: nothing lies there. The other one is a multiple of 2 MiB.
  uint64_t swapped_bytes() const { return swapped_bytes_; }
  uint64_t other_bytes() const { return other_bytes_; }
  // Some swapped block lies on the slab. One without need not be moved.
  bool Moves(uint32_t slab) const { return moves_[slab]; }

 private:
  const plan::Plan& plan_;
  std::vector<ColdHome> prologue_, step_;
  std::vector<bool> moves_;  // by slab
  uint64_t swapped_bytes_ = 0, other_bytes_ = 0;
};

// Bytes of the cold part that the plan's slabs cover.
inline uint64_t SlabSection(const plan::Plan& plan) { return plan.slabs.size() * plan.slab_bytes; }

}  // namespace ebt::replay

#endif  // EBBTIDE_SRC_REPLAY_COLD_HOMES_H_
