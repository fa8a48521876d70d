#include "src/replay/cold_homes.h"

#include <algorithm>

#include "src/base/units.h"

namespace ebt::replay {

ColdHomes::ColdHomes(const plan::Plan& plan, const std::function<bool(uint64_t)>& may_swap)
    : plan_(plan),
      prologue_(plan.prologue.size()),
      step_(plan.step.size()),
      moves_(plan.slabs.size()) {
  const uint64_t section = SlabSection(plan);
  uint64_t moved = 0;  // bytes of the section's blocks that are not swapped
  const auto place = [&](const plan::Slot& slot, ColdHome* home) {
    if (slot.tier != plan::Tier::kCold) return;
    home->offset = slot.offset - plan.warm_bytes;
    if (home->offset >= section) return;
    home->swapped = may_swap(slot.site);
    if (home->swapped) {
      swapped_bytes_ = section;
      const uint64_t end = std::min(home->offset + slot.bytes, section);
      for (uint64_t slab = home->offset / plan.slab_bytes; slab * plan.slab_bytes < end; ++slab)
        moves_[slab] = true;
      return;
    }
    home->offset = moved;
    moved += AlignUp(slot.bytes, kBlockAlignment);
  };
  for (size_t i = 0; i < prologue_.size(); ++i) place(plan.prologue[i], &prologue_[i]);
  for (size_t i = 0; i < step_.size(); ++i) place(plan.step[i], &step_[i]);
  const uint64_t rest = plan.cold_bytes - std::min(plan.cold_bytes, section);
  const auto shift = [&](const plan::Slot& slot, ColdHome* home) {
    if (slot.tier != plan::Tier::kCold || slot.offset - plan.warm_bytes < section) return;
    home->offset = slot.offset - plan.warm_bytes - section + moved;
  };
  for (size_t i = 0; i < prologue_.size(); ++i) shift(plan.prologue[i], &prologue_[i]);
  for (size_t i = 0; i < step_.size(); ++i) shift(plan.step[i], &step_[i]);
  other_bytes_ = AlignUp(moved + rest, 2 * kMiB);
}

const ColdHome& ColdHomes::Of(const plan::Slot& slot) const {
  const plan::Slot* const first = plan_.prologue.data();
  const bool prologue = &slot >= first && &slot < first + plan_.prologue.size();
  return prologue ? prologue_[&slot - first] : step_[&slot - plan_.step.data()];
}

}  // namespace ebt::replay
