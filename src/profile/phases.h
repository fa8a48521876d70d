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
  double most = 0;  // that waits for backward, in bytes times launches
  std::vector<Pass> passes;
};

// The cycles of a recording, one behind the other from the first event to the last.
std::vector<Cycle> FindCycles(const Profile& profile, const BlockTouches& touches,
                              const Usage& usage);

// Where a phase begins, and what it is called: "forward", "backward", "optimizer" or "other", or
// as ebbtide_phase() said.
struct PhaseStart {
  uint64_t at = 0;  // event
  std::string name;
};

// The phases of the step [begin, end), in order; the first one begins at `begin`. A forward phase
// begins with what leads to it (the batch, zeroed gradients), a backward phase includes what lies
// between it and the optimizer (clipping). ebbtide_phase() marks within the step win.
std::vector<PhaseStart> FindPhases(const Profile& profile, const Usage& usage,
                                   const std::vector<Cycle>& cycles, uint64_t begin, uint64_t end);

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_PHASES_H_
