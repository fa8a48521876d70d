#include "src/profile/kinds.h"

namespace ebt::profile {

std::string_view KindName(Kind kind) {
  static constexpr std::string_view kNames[kKinds] = {
      "unknown",   "parameter", "gradient", "optimizer state", "activation",
      "temporary", "workspace", "input",    "communication"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<Kind> FindKinds(const Profile& profile, const std::optional<Steps>&) {
  return std::vector<Kind>(profile.blocks.size(), Kind::kUnknown);
}

}  // namespace ebt::profile
