// Whose call made a block: the thread that sets up and drives the program, or one that works for
// it. Where backward runs on threads of its own, its allocations have stacks that end elsewhere
// than those of forward, and that is exact where launches alone are evidence.
#ifndef EBBTIDE_SRC_PROFILE_STACK_ROOTS_H_
#define EBBTIDE_SRC_PROFILE_STACK_ROOTS_H_

#include <cstdint>
#include <vector>

#include "src/profile/types.h"
#include "src/profile/usage.h"

namespace ebt::profile {

enum class Root : uint8_t { kUnknown, kMain, kOther };

// By block. kMain: the stack ends in the module in which the stacks of most parameters end.
std::vector<Root> FindRoots(const Profile& profile, const Usage& usage);

// Events [begin, end) in which one root's allocations follow each other.
struct RootRun {
  uint64_t begin = 0, end = 0;  // from the first allocation to the next run's
  Root root = Root::kUnknown;
};

// The runs in [begin, end), alternately of the one root and the other; a few allocations of
// another thread in between do not end a run.
std::vector<RootRun> FindRootRuns(const Profile& profile, const std::vector<Root>& roots,
                                  uint64_t begin, uint64_t end);

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_STACK_ROOTS_H_
