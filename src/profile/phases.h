// Forward, backward and optimizer, told by behaviour alone: what forward saves is touched again
// in backward, last saved first, and the optimizer is a window of updates (usage.h).
#ifndef EBBTIDE_SRC_PROFILE_PHASES_H_
#define EBBTIDE_SRC_PROFILE_PHASES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/profile/types.h"
#include "src/profile/usage.h"

namespace ebt::profile {

// A forward pass and the backward pass behind it: events [begin, turn) and [turn, end). Of the
// micro-steps of gradient accumulation each has one.
struct Pass {
  uint64_t begin = 0, turn = 0, end = 0;
};

// The work between two optimizer windows, and the window behind it.
struct Cycle {
  uint64_t begin = 0;         // event
  uint64_t window_begin = 0;  // of the window; the end of the recording when there is none
  uint64_t end = 0;           // one behind the window
  bool has_window = false;
  std::vector<Pass> passes;
};

// The cycles of a recording, one behind the other from the first event to the last.
std::vector<Cycle> FindCycles(const Profile& profile, const BlockTouches& touches,
                              const Usage& usage);

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_PHASES_H_
