// Finds the training step: the period with which a process repeats itself. No framework is
// known here, only launches and live bytes.
//
// A launch is a kLaunch or a kGraph event; its symbol is LaunchSymbol. A repeated stretch of
// launches is a step when the live memory repeats with it: the layers of a forward pass repeat
// too, but live bytes grow from one to the next (and shrink in backward), and the equal launches
// of an optimizer or of set-up leave the live memory where it is. So a period counts when
//   - it has at least kMinPeriod launches of at least kMinSymbols different symbols,
//   - live bytes move within it by at least kMinSwing of their maximum,
//   - at equal places of every repetition they agree to kMaxDrift of their maximum and to
//     kMaxSwingDrift of that movement, over the whole stretch and not only from one to the next.
// Not told apart without a mark: the micro-steps of gradient accumulation while no optimizer
// step has been seen yet, and the equal layers of a first pure inference pass.
#ifndef EBBTIDE_SRC_PROFILE_STEPS_H_
#define EBBTIDE_SRC_PROFILE_STEPS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "src/profile/types.h"

namespace ebt::profile {

inline constexpr uint64_t kMinPeriod = 4;
inline constexpr uint64_t kMinSymbols = 3;
inline constexpr double kMinSwing = 0.01;
inline constexpr double kMaxDrift = 0.005;
inline constexpr double kMaxSwingDrift = 0.02;

// What makes two launches equal: the function and the hash of its launch dimensions. Any stable
// number of the function will do (its id in the profile, its handle) as long as it is always
// the same one within a sequence.
uint64_t LaunchSymbol(uint64_t function, uint64_t shape);

// Watches a running process. Not thread-safe: one caller at a time.
class StepDetector {
 public:
  struct Found {
    uint64_t period = 0;  // launches of a step
    uint64_t steps = 0;   // whole steps at the end of what has been seen, at least 2
  };

  // A launch: its LaunchSymbol, and the bytes of device memory that the process holds before it.
  // Constant time, 16 bytes of memory a launch; the oldest half of the history is dropped when
  // it reaches kMaxHistory launches.
  void Add(uint64_t symbol, uint64_t live_bytes);

  // The step that the process is in, if the last launches repeat one that covers at least a
  // third of the launches seen: an optimizer's loop or a layer repeats inside a step that also
  // has other work, so from the second step on it stays below that, whereas two steps of three
  // (the first allocates optimizer state) reach two thirds less set-up. Linear in the launches
  // seen, so call it every thousand launches or so, not at each.
  std::optional<Found> Check() const;

  uint64_t launches() const { return dropped_ + symbols_.size(); }

  static constexpr size_t kMaxHistory = size_t{1} << 22;

 private:
  std::vector<uint64_t> symbols_;
  std::vector<uint64_t> live_bytes_;
  uint64_t dropped_ = 0;
};

// The steady part of a recording: `steps` whole steps, one behind the other.
struct Steps {
  uint64_t first_launch = 0;  // launches of the recording before the first of these steps
  uint64_t period = 0;        // launches of a step
  uint64_t steps = 0;         // at least 1
  // steps + 1 event indices: step i is the events [start_events[i], start_events[i + 1]). A step
  // starts right behind the last launch of the one before it, so that every allocation between
  // two launches belongs to the step of the later launch.
  std::vector<uint64_t> start_events;
  bool marked = false;  // from ebbtide_step() marks, or from a kernel that the user named
};

// The steady part of `profile`, or nothing when no step repeats. ebbtide_step() marks win, then
// the kernel that the user named (kStepKernelKey of usage.h): then it is the longest row of
// consecutive marked steps with equal launches (the last of equally long ones). Without marks it
// is the stretch that repeats over most launches, at least a quarter of all, and the smallest
// period that does so; it starts where the fewest bytes are live. O(launches + events).
// step_spans.h has every step, steady or not.
std::optional<Steps> FindSteps(const Profile& profile);

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_STEPS_H_
