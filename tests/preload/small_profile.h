// A recording made on paper, for tests of the command.
#ifndef EBBTIDE_TESTS_PRELOAD_SMALL_PROFILE_H_
#define EBBTIDE_TESTS_PRELOAD_SMALL_PROFILE_H_

#include <string>

#include "src/base/units.h"
#include "src/profile/types.h"

namespace ebt::test {

// Three steps of four launches on two blocks of 64 MiB, each step with its own third.
inline profile::Profile SmallProfile(uint64_t activation_bytes = 32 * kMiB) {
  profile::Profile profile;
  profile.metadata = {{"program", "trainer"}, {"gpu", "none"}, {"total_bytes", "1073741824"}};
  for (uint32_t i = 0; i < 4; ++i) profile.functions.push_back({i, "kernel" + std::to_string(i)});
  const auto add = [&profile](profile::Event event) { profile.events.push_back(event); };
  const auto allocate = [&](uint64_t site, uint64_t bytes) {
    const auto id = static_cast<uint32_t>(profile.blocks.size());
    profile.blocks.push_back({.id = id,
                              .site = site,
                              .bytes = bytes,
                              .address = 0x7000000000 + id * 256 * kMiB,
                              .alloc_at = profile.events.size()});
    add({.kind = profile::EventKind::kAlloc, .block = id, .bytes = bytes});
    return id;
  };
  for (uint64_t site = 1; site <= 3; ++site) profile.sites.push_back({.id = site, .frames = {}});
  const uint32_t weights = allocate(1, 64 * kMiB), state = allocate(2, 64 * kMiB);
  for (int step = 0; step < 3; ++step) {
    add({.kind = profile::EventKind::kStep});
    const uint32_t activation = allocate(3, activation_bytes);
    for (uint32_t f = 0; f < 4; ++f) {
      add({.kind = profile::EventKind::kLaunch,
           .function = f,
           .shape = f + 1,
           .touched = {weights, f == 3 ? state : activation}});
    }
    profile.blocks[activation].free_at = profile.events.size();
    add({.kind = profile::EventKind::kFree, .block = activation});
  }
  return profile;
}

}  // namespace ebt::test

#endif  // EBBTIDE_TESTS_PRELOAD_SMALL_PROFILE_H_
