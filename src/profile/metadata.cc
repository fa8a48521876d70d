#include "src/profile/metadata.h"

#include "absl/strings/numbers.h"

namespace ebt::profile {

std::string Text(const Profile& profile, const std::string& key) {
  const auto found = profile.metadata.find(key);
  return found == profile.metadata.end() ? "" : found->second;
}

std::optional<uint64_t> Number(const Profile& profile, const std::string& key) {
  uint64_t value = 0;
  const auto found = profile.metadata.find(key);
  if (found == profile.metadata.end() || !absl::SimpleAtoi(found->second, &value)) {
    return std::nullopt;
  }
  return value;
}

uint64_t NativePeakBytes(const Profile& profile, uint64_t max_live_bytes) {
  const uint64_t peak = Number(profile, "device_used_peak_bytes").value_or(0);
  const uint64_t base = Number(profile, "device_used_base_bytes").value_or(0);
  return peak > base ? peak - base : max_live_bytes;
}

}  // namespace ebt::profile
