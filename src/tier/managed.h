// The managed engine: cold blocks in managed memory whose home is the host. Nothing about
// pointers is assumed: a block is always at its address and any kernel may reach it at any
// time; a kernel that does reads and writes it in place over the link, unless it was fetched.
#ifndef EBBTIDE_SRC_TIER_MANAGED_H_
#define EBBTIDE_SRC_TIER_MANAGED_H_

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/mutex.h"
#include "src/driver/driver_api.h"
#include "src/memory/backing.h"

namespace ebt::tier {

// One managed allocation: preferred location host, accessed by the device.
class ManagedRange : public memory::Backing {
 public:
  // size: bytes, all of which get host memory at once (so that too little of it is known now
  // and not in the middle of a step). Refused when the card has less free than `size`, since a
  // driver that is asked for more managed memory than the card has free can hang.
  static absl::StatusOr<std::unique_ptr<ManagedRange>> Create(const DriverApi& driver,
                                                              CUdevice device, uint64_t size);

  CUdeviceptr base() const override { return base_; }
  uint64_t size() const override { return size_; }
  CUresult Ensure(uint64_t, uint64_t) override { return CUDA_SUCCESS; }
  uint64_t device_bytes() const override { return fetched_.load(std::memory_order_relaxed); }

  // The range and what is on the device of it now.
  void AddFetched(int64_t bytes) { fetched_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  ManagedRange(CUdeviceptr base, uint64_t size) : base_(base), size_(size) {}

  const CUdeviceptr base_;
  const uint64_t size_;
  std::atomic<uint64_t> fetched_{0};
};

// Fetches and evicts parts of a managed range behind the application's own work, from a thread
// of its own because cuMemPrefetchAsync blocks its caller.
class Prefetcher {
 public:
  // guard: the thread's re-entrancy guard, which the engine's thread keeps set.
  Prefetcher(const DriverApi& driver, CUcontext context, CUdevice device, ManagedRange& range,
             int* (*guard)());
  // Waits for the request under way; later ones are dropped.
  ~Prefetcher();

  enum class Direction { kFetch, kEvict };
  // Moves [offset, offset + bytes) once `stream` has done what is queued on it now. Returns at
  // once. A request that the driver refuses is dropped: it costs time, nothing else.
  void Request(Direction direction, uint64_t offset, uint64_t bytes, CUstream stream);

  // From Hold, which waits for the move under way, to Resume, by the same thread, the engine's
  // thread makes no call of the driver.
  void Hold() ABSL_EXCLUSIVE_LOCK_FUNCTION(driver_mutex_) { driver_mutex_.lock(); }
  void Resume() ABSL_UNLOCK_FUNCTION(driver_mutex_) { driver_mutex_.unlock(); }

  uint64_t fetched_bytes() const { return moved_[0].load(std::memory_order_relaxed); }
  uint64_t evicted_bytes() const { return moved_[1].load(std::memory_order_relaxed); }

 private:
  struct Move {
    Direction direction;
    uint64_t offset, bytes;
    CUevent after;
  };
  void Run();
  void Perform(const Move& move, CUstream stream);
  CUevent TakeEvent();

  const DriverApi& driver_;
  const CUcontext context_;
  const CUdevice device_;
  ManagedRange& range_;
  int* (*const guard_)();
  std::atomic<uint64_t> moved_[2] = {};
  Mutex driver_mutex_;  // see Hold
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Move> moves_ ABSL_GUARDED_BY(mutex_);
  std::vector<CUevent> events_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ebt::tier

#endif  // EBBTIDE_SRC_TIER_MANAGED_H_
