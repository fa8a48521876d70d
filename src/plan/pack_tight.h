// Packs some hundreds of items as tightly as can be found: seconds of work, not milliseconds.
#ifndef EBBTIDE_SRC_PLAN_PACK_TIGHT_H_
#define EBBTIDE_SRC_PLAN_PACK_TIGHT_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "src/plan/packer.h"

namespace ebt::plan {

struct TightOptions {
  uint64_t capacity =
      0;  // a packing with this peak or less is good enough; 0: the lower the better
  // Decisions after which the best packing so far is taken, about 200,000 a second.
  uint64_t nodes = 2'000'000;
  // Asked now and then; true: take the best packing so far. With it the outcome depends on time.
  std::function<bool()> stop;
};

// Never worse than Pack. Groups of items that share no moment are packed for themselves; a group
// of more than some thousand is left as Pack has it. Without `stop` equal input gives equal output.
Packing PackTight(const std::vector<Item>& items, const TightOptions& options);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_PACK_TIGHT_H_
