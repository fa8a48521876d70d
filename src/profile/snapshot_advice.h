// What to try where memory does not suffice, by what a snapshot shows.
#ifndef EBBTIDE_SRC_PROFILE_SNAPSHOT_ADVICE_H_
#define EBBTIDE_SRC_PROFILE_SNAPSHOT_ADVICE_H_

#include <string>
#include <vector>

#include "src/profile/snapshot.h"

namespace ebt::profile {

// Sentences, the weightiest first; at least one. Shares of the device's memory decide, see the
// constants. Where nothing was refused it says what would save memory.
std::vector<std::string> Advice(const Snapshot& snapshot);

// Others hold so much of the device that it is worth looking who.
inline constexpr double kMuchOfDevice = 0.15;
// Free memory in pieces is worth putting together: so much of what is live, and so scattered.
inline constexpr double kMuchFreePart = 0.05, kScattered = 0.5;
// What has lived through steps, or lies idle, is worth planning: so much of what is live.
inline constexpr double kMuchPersistent = 0.25, kMuchIdle = 0.10;
// The steps' peaks grow by so much, and each of them does.
inline constexpr double kGrowth = 0.01;
// So much of what is live is not in the plan.
inline constexpr double kMuchBesidePlan = 0.05;
// One site, or the memory of one step, makes up most.
inline constexpr double kMost = 0.5;

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_SNAPSHOT_ADVICE_H_
