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
  // there all that the copy must wait for. Returns what End is to be told; kNone: nobody gives way
  // to this copy, since as many as can be known are known already, or the driver refuses.
  size_t Begin(CUstream stream);
  // The call that copies has returned; done: so has the copy.
  void End(size_t copy, CUstream stream, bool done);

  // Whether some copy could run now and has not: the device is through with what it waits for.
  bool Due();

 private:
  // kTaken: its events are being made; they say nothing yet.
  enum class State { kFree, kTaken, kCalling, kQueued };
  struct Copy {
    State state = State::kFree;
    CUevent before = nullptr, behind = nullptr;
  };

  size_t Take() ABSL_LOCKS_EXCLUDED(mutex_);
  bool Mark(Copy& copy, CUstream stream);
  bool IsDue(Copy& copy) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DriverApi& driver_;
  // Never held while something is recorded: that waits where a stream's queue is full, and who
  // asks whether a copy is due must not wait with it.
  Mutex mutex_;
  // A state is guarded by mutex_; the events belong to who has taken the copy until that is over.
  std::array<Copy, 16> copies_;
};

}  // namespace ebt::tier

#endif  // EBBTIDE_SRC_TIER_RIGHT_OF_WAY_H_
