// A profile's metadata as values: text that another version or a damaged file may lack.
#ifndef EBBTIDE_SRC_PROFILE_METADATA_H_
#define EBBTIDE_SRC_PROFILE_METADATA_H_

#include <cstdint>
#include <optional>
#include <string>

#include "src/profile/types.h"

namespace ebt::profile {

// "" where there is none.
std::string Text(const Profile& profile, const std::string& key);

// A decimal number; nothing where there is none.
std::optional<uint64_t> Number(const Profile& profile, const std::string& key);

// Most device memory in use while the process ran, less what was in use before it, in bytes: what
// other processes took meanwhile included. `max_live_bytes` where nobody watched.
uint64_t NativePeakBytes(const Profile& profile, uint64_t max_live_bytes);

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_METADATA_H_
