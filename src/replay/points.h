// What a plan wants done at which launch of the step.
#ifndef EBBTIDE_SRC_REPLAY_POINTS_H_
#define EBBTIDE_SRC_REPLAY_POINTS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "src/plan/plan.h"

namespace ebt::replay {

// Due before launch `launch` of a step.
struct Point {
  enum class Kind : uint8_t {
    kPrefetch,      // managed: bring slot's block to the device
    kPrefetchBack,  // managed: send it back
    kSwapIn,        // swap: copy the slab in
    kSwapOut,       // swap: copy it out
  };
  uint32_t launch = 0;
  Kind kind = Kind::kPrefetch;
  const plan::Slot* slot = nullptr;  // managed
  uint32_t slab = 0;                 // swap
};

// Goes along the points of a step, launch by launch. Thread-safe: each point is handed to one
// caller, once a step.
class Points {
 public:
  // The plan must outlive the points and must not change.
  explicit Points(const plan::Plan& plan);

  bool empty() const { return points_.empty(); }
  bool HasPrefetches() const;

  // A launch: appends what is due before it. Cheap when nothing is.
  void Launched(std::vector<const Point*>* due);
  // The program is known to be at launch `launch` of the step. Launch counts alone do not tell: a
  // run may launch more than the recording.
  void At(uint32_t launch) { launch_.store(launch, std::memory_order_relaxed); }
  // The step begins anew: appends the copies out that the last one never reached, so that what
  // it left on the device is not in the way of this one.
  void Restarted(std::vector<const Point*>* due);

 private:
  std::vector<Point> points_;        // by launch
  std::atomic<uint32_t> launch_{0};  // launches of the present step so far
  std::atomic<uint32_t> next_{0};    // index into points_
};

}  // namespace ebt::replay

#endif  // EBBTIDE_SRC_REPLAY_POINTS_H_
