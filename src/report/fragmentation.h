// How scattered the free memory of a recorded process is.
#ifndef EBBTIDE_SRC_REPORT_FRAGMENTATION_H_
#define EBBTIDE_SRC_REPORT_FRAGMENTATION_H_

#include <cstdint>
#include <optional>

#include "src/profile/types.h"

namespace ebt::report {

// Free memory: address ranges in which a stream-ordered (pool) block has been, by no block taken
// now. A pool keeps such memory unless it is trimmed; what was freed with cudaFree is the
// driver's again and does not count. Neighbouring ranges are one piece. A pool that maps its pages
// anew elsewhere can hold less than the addresses say.
struct Fragmentation {
  uint64_t free_bytes = 0;
  uint64_t largest_free_bytes = 0;  // of one piece
  uint64_t pieces = 0;

  // Share of the free memory that is not in the largest piece, 0 to 1; 0 when nothing is free.
  double Share() const {
    return free_bytes == 0 ? 0 : 1 - double(largest_free_bytes) / double(free_bytes);
  }
};

// On `device`, right behind the event `at`. Nothing when no pool block has an address.
// O(blocks · log blocks).
std::optional<Fragmentation> FreePieces(const profile::Profile& profile, uint16_t device,
                                        uint64_t at);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_FRAGMENTATION_H_
