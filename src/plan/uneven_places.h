// Which allocations of steps that differ are the same one.
#ifndef EBBTIDE_SRC_PLAN_UNEVEN_PLACES_H_
#define EBBTIDE_SRC_PLAN_UNEVEN_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/profile/types.h"

namespace ebt::plan {

// A place of the envelope: the block that each step makes there, kNoBlock where it makes none.
using PlaceBlocks = std::vector<uint32_t>;

// Of a place: its largest block, and whether all steps make one and all of them are as large.
uint64_t LargestOf(const profile::Profile& profile, const PlaceBlocks& place);
bool IsSteady(const profile::Profile& profile, const PlaceBlocks& place);

// The places of the steps whose events `starts` begin and end, in an order that every step keeps
// to: by site first (MergeSequences, from step `model` on), then as the matcher of a run finds
// them, so that the plan expects what happens. Blocks that the matcher would look for elsewhere
// have no place.
std::vector<PlaceBlocks> FindPlaces(const profile::Profile& profile,
                                    const std::vector<uint64_t>& starts, size_t model);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_UNEVEN_PLACES_H_
