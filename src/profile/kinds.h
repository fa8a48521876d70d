// What each block of a recording is for, decided by what happens to it and by the site that made
// it. No framework's names are known here. Blocks are what the driver sees: where an allocator
// carves tensors out of large segments, a segment is one block and unknown as a rule.
#ifndef EBBTIDE_SRC_PROFILE_KINDS_H_
#define EBBTIDE_SRC_PROFILE_KINDS_H_

#include <optional>
#include <string_view>
#include <vector>

#include "src/profile/steps.h"
#include "src/profile/types.h"

namespace ebt::profile {

enum class Kind : uint8_t {
  kUnknown,
  kParameter,       // outlives steps, the model uses it; buffers of the model are taken for these
  kGradient,        // made by backward, or touched in it, and read in the optimizer's window
  kOptimizerState,  // made in the optimizer's window to stay, or touched there alone
  kActivation,      // made by forward and still held when backward begins
  kTemporary,       // made and gone within one phase
  kWorkspace,       // scratch that stays: nobody fills it, much unrelated work is handed it
  kInput,           // filled from the host, in each step if it stays
  kCommunication,   // another process may hold it
};
inline constexpr size_t kKinds = 9;

// "parameter", "optimizer state" ...: lower case, for people and for JSON.
std::string_view KindName(Kind kind);

// The kind of each block, by its id. Where no optimizer is seen (usage.h) what passes through a
// step is kUnknown, but for inputs. `steps` is what FindSteps says of this profile. It need not
// be known: steps that are not steady are found here too (step_spans.h).
std::vector<Kind> FindKinds(const Profile& profile, const std::optional<Steps>& steps);

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_KINDS_H_
