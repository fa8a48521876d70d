// From tiers to offsets: the warm region, then the cold one.
#ifndef EBBTIDE_SRC_PLAN_LAYOUT_H_
#define EBBTIDE_SRC_PLAN_LAYOUT_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "src/plan/hotness.h"
#include "src/plan/plan.h"
#include "src/plan/slab_section.h"
#include "src/plan/timeline.h"

namespace ebt::plan {

inline constexpr uint64_t kRegionAlignment = uint64_t{2} << 20;

struct Layout {
  std::vector<uint64_t> offsets;  // of each Lived; 0 for kNative
  uint64_t warm_bytes = 0;        // multiples of kRegionAlignment, warm_bytes of slabs too
  uint64_t cold_bytes = 0;
  uint64_t warm_live_bytes = 0;  // most bytes of hot and warm blocks and of stays live at once
  std::vector<uint64_t> stay_offsets;  // of each slab
};

// What the blocks whose tier passes `wanted` occupy, each place once: a block and its twin are
// one item. lives[i] is the index of items[i] in the timeline.
struct Occupation {
  std::vector<Item> items;
  std::vector<uint32_t> lives;
};
Occupation Occupy(const profile::Profile& profile, const Timeline& timeline,
                  const std::vector<uint32_t>& wanted);

// Most bytes of these tiers (indexed as Timeline::lives) live at once.
uint64_t LiveBytes(const profile::Profile& profile, const Timeline& timeline,
                   const std::vector<Tier>& tiers, std::initializer_list<Tier> wanted);

// Most bytes live at once, of whatever tier.
uint64_t MaxLiveBytes(const profile::Profile& profile, const Timeline& timeline);

// Persistent blocks lie at the low end of their region in their StackingOrder (colocation.h), so
// that one contiguous range serves one module and one phase. The slab section,
// whose blocks are cold in `tiers`, comes first in the cold region; with one the warm region is a
// multiple of its slabs and has the stays in it.
Layout MakeLayout(const profile::Profile& profile, const Timeline& timeline,
                  const Behaviour& behaviour, const std::vector<Tier>& tiers,
                  const SlabSection& section);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_LAYOUT_H_
