// Whose turn a copy engine's is: it serves a queue until that is empty, so a copy of the
// application's would wait behind whatever bulk copies keep coming.
#ifndef EBBTIDE_SRC_TIER_RIGHT_OF_WAY_H_
#define EBBTIDE_SRC_TIER_RIGHT_OF_WAY_H_

#include <cuda.h>

#include <array>
#include <cstddef>

#include "src/base/mutex.h"
#include "src/driver/driver_api.h"

namespace ebt::tier {

// The application's copies of one direction. Thread-safe.
class RightOfWay {
 public:
  explicit RightOfWay(const DriverApi& driver) : driver_(driver) {}
  ~RightOfWay();
  RightOfWay(const RightOfWay&) = delete;
  RightOfWay& operator=(const RightOfWay&) = delete;

  static constexpr size_t kNone = SIZE_MAX;
  // The calling thread is about to copy on `stream`, which is not being captured, and has queued
  // there all that the copy must wait for. Returns what End is to be told, kNone: so many copies
  // are known already that this one makes no difference.
  size_t Begin(CUstream stream);
  // The call that copies has returned.
  void End(size_t copy, CUstream stream);

  // Whether some copy could run now and has not: the device is through with what it waits for.
  bool Due();

 private:
  enum class State { kFree, kCalling, kQueued };
  struct Copy {
    State state = State::kFree;
    CUevent before = nullptr, behind = nullptr;
  };

  bool IsDue(Copy& copy) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DriverApi& driver_;
  // Held around calls of the driver that neither wait nor take long.
  Mutex mutex_;
  std::array<Copy, 16> copies_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ebt::tier

#endif  // EBBTIDE_SRC_TIER_RIGHT_OF_WAY_H_
