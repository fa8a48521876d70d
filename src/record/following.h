// The hooks' side behind a complete recording: allocations are still followed, for what fills the
// memory, and cost as little as that allows.
#ifndef EBBTIDE_SRC_RECORD_FOLLOWING_H_
#define EBBTIDE_SRC_RECORD_FOLLOWING_H_

#include <atomic>
#include <cstdint>

#include "src/record/recorder_state.h"

namespace ebt::record {

// Whoever sees that recording has ended sees what came before: the writer has noted which event was
// the last, which sites are known, and that it watches on.
inline bool Recording(const RecorderState& state) {
  return state.recording.load(std::memory_order_acquire);
}
inline bool Following(const RecorderState& state) {
  return Recording(state) || state.watching.load(std::memory_order_relaxed);
}

// Where an allocation of the calling thread comes from. Behind the recording its stack is unwound
// only where the fingerprint has not told the site so far.
struct Origin {
  uint64_t site = 0, fingerprint = 0;
};
Origin OriginOf(const RecorderState& state, uint64_t bytes);

// Counts a launch that nobody looks at. Returns how many an event is to tell now; 0: none yet.
uint32_t CountBareLaunch(RecorderState& state);
// Likewise, of those that no event has told.
inline uint32_t TakeBareLaunches(RecorderState& state) {
  return state.bare_launches.exchange(0, std::memory_order_relaxed);
}

// The calling thread has handed over a refusal's event: until the writer has looked at it.
void AwaitTold(RecorderState& state);

}  // namespace ebt::record

#endif  // EBBTIDE_SRC_RECORD_FOLLOWING_H_
