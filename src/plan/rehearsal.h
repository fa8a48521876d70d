// A recording played by a plan, as replay would serve it: which blocks find their places, and what
// the others take.
#ifndef EBBTIDE_SRC_PLAN_REHEARSAL_H_
#define EBBTIDE_SRC_PLAN_REHEARSAL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "src/plan/plan.h"
#include "src/profile/types.h"

namespace ebt::plan {

// The free parts of [0, size). Addresses without memory: replay's own map (memory/free_map.h)
// knows streams too, and gives the same places.
class FreePlaces {
 public:
  explicit FreePlaces(uint64_t size) {
    if (size > 0) free_[0] = size;
  }

  bool TakeAt(uint64_t offset, uint64_t bytes);
  // The lowest place within [begin, end).
  std::optional<uint64_t> TakeLowest(uint64_t bytes, uint64_t begin, uint64_t end);
  // A place in the smallest free run that is large enough.
  std::optional<uint64_t> TakeBestFit(uint64_t bytes);
  void Give(uint64_t offset, uint64_t bytes);

 private:
  using Free = std::map<uint64_t, uint64_t>;  // offset -> bytes; no two touch
  void Take(Free::iterator from, uint64_t offset, uint64_t bytes);
  Free free_;
};

struct Rehearsal {
  uint64_t placed = 0;         // blocks that found their places
  uint64_t displaced = 0;      // that the plan knows, but whose place was taken or too small
  uint64_t unknown = 0;        // that it does not know
  uint64_t dynamic_bytes = 0;  // the dynamic part at its largest
  uint64_t native_bytes = 0;   // most live at once that the plan leaves to the driver
};

// `plan` has passed CheckPlan. The whole recording is played; figures are of what happens from
// event `from` on. Blocks without a place go where replay puts them: into the first
// plan.dynamic_bytes of the dynamic part, where steps differ into what is free of the warm region,
// else wherever the dynamic part has room. Equal input gives an equal result. O(events log blocks).
Rehearsal Rehearse(const profile::Profile& profile, const Plan& plan, uint64_t from = 0);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_REHEARSAL_H_
