// Which persistent blocks lie side by side.
#ifndef EBBTIDE_SRC_PLAN_COLOCATION_H_
#define EBBTIDE_SRC_PLAN_COLOCATION_H_

#include <cstdint>
#include <vector>

#include "src/plan/hotness.h"
#include "src/plan/plan.h"
#include "src/plan/timeline.h"

namespace ebt::plan {

// Sets Traits::module and Traits::place of the persistent blocks; classes and first touches must
// be there.
//
// A module is a row of blocks that were made one behind the other and are used together: each
// shares a launch outside of the optimizer's window with the one made before it, or is first
// touched by the launch next to its first. Places are by the modules' first touches, within one in
// the order of making. Optimizer state comes behind all others, in the order in which the launches
// of the window take it: by launch, then as its parameters name them. What a step does not touch
// comes last. O(touches * log).
void Colocate(const profile::Profile& profile, const Timeline& timeline, Behaviour& behaviour);

// Persistent blocks of `members` (indices into Timeline::lives) first, in the order in which to
// stack them: modules that have a hot block before others, then by place. The other members keep
// their order behind them, hot ones first and then by first touch.
std::vector<uint32_t> StackingOrder(const Timeline& timeline, const Behaviour& behaviour,
                                    const std::vector<Tier>& tiers, std::vector<uint32_t> members);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_COLOCATION_H_
