// Bulk copies between the host and the device, issued by a thread of their own in pieces, so
// that a copy of the application's never finds more than a few of them ahead of it on a copy
// engine, which serves in order.
#ifndef EBBTIDE_SRC_TIER_MOVER_H_
#define EBBTIDE_SRC_TIER_MOVER_H_

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/mutex.h"
#include "src/driver/driver_api.h"
#include "src/tier/right_of_way.h"

namespace ebt::tier {

// Thread-safe. Copies of one direction are issued in the order in which they were queued, on one
// stream; the directions are independent.
class Mover {
 public:
  enum class Direction { kIn, kOut };

  struct Copy {
    CUdeviceptr dst = 0, src = 0;
    uint64_t bytes = 0;
    CUevent gate = nullptr;  // recorded already; the copy waits for it on the device
    CUevent done = nullptr;  // recorded behind the copy
    // Called on the mover's thread once all of the copy is on its stream and `done` recorded, or
    // with the driver's first refusal: then a part of the bytes may be on its way, `done` says
    // nothing, and the rest is not tried. It must not wait for anything.
    std::function<void(CUresult)> issued;
  };

  // The context is current. guard: the thread's re-entrancy guard, which the mover's thread
  // keeps set.
  static absl::StatusOr<std::unique_ptr<Mover>> Create(const DriverApi& driver, int* (*guard)());
  // Drops what has not been issued and waits for what has.
  ~Mover();
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  // Issues what is queued and ends the thread, which a driver that is about to go must not see
  // again: at the end of the process. Copies queued later are refused.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns at once with the copy's ticket: 1, 2, … in each direction.
  uint64_t Queue(Direction direction, Copy copy);
  // Whether the copy of a ticket, and so all before it, has been issued (or refused).
  bool Issued(Direction direction, uint64_t ticket) const {
    return lanes_[Index(direction)].issued.load(std::memory_order_acquire) >= ticket;
  }
  // Returns when it has, which needs no work of the device to end: from now on the copies up to
  // this one are no longer held back for the application's sake.
  void Flush(Direction direction, uint64_t ticket);

  // For the application's own copies: as long as one of them is due, no piece of its direction
  // is issued that nobody flushes.
  RightOfWay& application(Direction direction) { return lanes_[Index(direction)].application; }

  // Bytes issued so far.
  uint64_t bytes(Direction direction) const {
    return lanes_[Index(direction)].bytes.load(std::memory_order_relaxed);
  }
  // From Hold, which waits for the call under way, to Resume, by the same thread, the mover's
  // thread makes no call of the driver.
  void Hold() ABSL_EXCLUSIVE_LOCK_FUNCTION(driver_mutex_) { driver_mutex_.lock(); }
  void Resume() ABSL_UNLOCK_FUNCTION(driver_mutex_) { driver_mutex_.unlock(); }

  // The stream that carries the copies. It may be waited for and recorded, not added to.
  CUstream stream(Direction direction) const { return lanes_[Index(direction)].stream; }

 private:
  struct Job {
    Copy copy;
    uint64_t ticket = 0;
    uint64_t at = 0;  // bytes issued
  };
  struct Lane {
    explicit Lane(const DriverApi& driver) : application(driver) {}
    CUstream stream = nullptr;
    std::atomic<uint64_t> issued{0}, bytes{0};
    std::deque<CUevent> in_flight;  // behind each piece, oldest first; the mover's thread alone
    std::deque<Job> jobs;           // guarded by mutex_; the first one is the thread's to change
    uint64_t queued = 0;            // guarded by mutex_: tickets given out
    uint64_t flush_to = 0;          // guarded by mutex_
    RightOfWay application;
    // The mover's thread alone.
    size_t at_once = 0;     // pieces issued since the queue was empty
    bool may_go_on = true;  // pieces that nobody flushes may be issued
  };

  Mover(const DriverApi& driver, int* (*guard)())
      : driver_(driver), guard_(guard), lanes_{Lane(driver), Lane(driver)} {}
  static constexpr size_t Index(Direction direction) { return direction == Direction::kIn ? 0 : 1; }

  CUresult MakeStreams();
  CUresult StartThread(CUcontext context) ABSL_LOCKS_EXCLUDED(mutex_);
  void Run(CUcontext context) ABSL_LOCKS_EXCLUDED(mutex_);
  // The lane whose next piece may be issued now; NULL: there may be one by now, or it ends.
  Lane* AwaitTurn() ABSL_LOCKS_EXCLUDED(mutex_);
  Lane* Choose(bool* throttled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LookAround();
  void IssuePiece(Lane& lane) ABSL_LOCKS_EXCLUDED(mutex_);
  CUresult CopyPiece(Lane& lane, Job& job);
  void MarkPiece(Lane& lane);

  const DriverApi& driver_;
  int* (*const guard_)();
  Lane lanes_[2];
  std::vector<CUevent> spare_events_;  // the mover's thread alone
  size_t next_lane_ = 0;               // the mover's thread alone
  // When a piece was last seen done; the mover's thread alone.
  std::chrono::steady_clock::time_point progressed_{};

  Mutex driver_mutex_;  // see Hold
  Mutex mutex_;
  std::condition_variable_any changed_;  // for the thread: a job, a flush, the end
  std::condition_variable_any issued_;   // for those that flush, and for the start
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  CUresult start_result_ ABSL_GUARDED_BY(mutex_) = CUDA_SUCCESS;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;    // at once
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;  // when all is issued
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;     // nothing is issued any more
  std::thread thread_;
};

}  // namespace ebt::tier

#endif  // EBBTIDE_SRC_TIER_MOVER_H_
