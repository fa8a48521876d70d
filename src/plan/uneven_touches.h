// Which launches of the step that stands for all name which blocks, where steps differ.
#ifndef EBBTIDE_SRC_PLAN_UNEVEN_TOUCHES_H_
#define EBBTIDE_SRC_PLAN_UNEVEN_TOUCHES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/plan/timeline.h"
#include "src/profile/types.h"

namespace ebt::plan {

// Fills Lived::touches of persistent blocks and of those that step `model` makes. `starts` are the
// events of each step's begin and of the last one's end. A persistent block is touched by those
// functions that touch it in most steps: scanned words are evidence only, and launches have no
// common numbers.
void CollectUnevenTouches(const profile::Profile& profile, const std::vector<uint64_t>& starts,
                          size_t model, Timeline& timeline);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_UNEVEN_TOUCHES_H_
