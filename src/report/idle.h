// Which blocks lie idle: live, and untouched for long.
#ifndef EBBTIDE_SRC_REPORT_IDLE_H_
#define EBBTIDE_SRC_REPORT_IDLE_H_

#include <cstdint>
#include <vector>

#include "src/profile/steps.h"
#include "src/profile/types.h"

namespace ebt::report {

// For each of `blocks` whether, from a step's launches before the event `at` to a step's launches
// behind it, more than half a step's launches pass in a row during which the block is live and
// nothing touches it. A touch is a launch, copy or memset that names it. What is kept (a graph
// may use it unseen) is never idle. A block that lives through the last steps (up to 16, at
// least 3) is touched at a place of the step when most of these steps touch it there: a scanned
// word may name it by chance. O(events).
std::vector<bool> FindIdle(const profile::Profile& profile, const profile::Steps& steps,
                           uint64_t at, const std::vector<uint32_t>& blocks);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_IDLE_H_
