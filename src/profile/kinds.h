// What each block of a recording is for, decided by what happens to it and by the site that made
// it.
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
  kParameter,
  kGradient,
  kOptimizerState,
  kActivation,
  kTemporary,
  kWorkspace,
  kInput,
  kCommunication,
};
inline constexpr size_t kKinds = 9;

// "parameter", "optimizer state" ...: lower case, for people and for JSON.
std::string_view KindName(Kind kind);

// The kind of each block, by its id. `steps` is what FindSteps says of this profile; without steps
// what can be told without them is told and the rest is kUnknown.
std::vector<Kind> FindKinds(const Profile& profile, const std::optional<Steps>& steps);

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_KINDS_H_
