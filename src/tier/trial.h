// The trial of `ebbtide verify`: cold blocks that are mapped only while a launch or a copy names
// them, so that an access through a pointer that nobody named faults instead of passing unseen.
//
// One piece of work of the process runs at a time: before the next one is queued the one before
// is waited for, and what it named is unmapped unless it is named again. That is slow, and it is
// what makes the answer sharp: a fault belongs to the work that ran alone.
#ifndef EBBTIDE_SRC_TIER_TRIAL_H_
#define EBBTIDE_SRC_TIER_TRIAL_H_

#include <cuda.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/mutex.h"
#include "src/driver/driver_api.h"
#include "src/memory/backing.h"

namespace ebt::tier {

// [offset, offset + bytes) of the range.
struct Extent {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct Fault {
  enum class Kind {
    kAccess,    // work failed on the device while what it did not name was unmapped
    kCaptured,  // named by work that goes into a graph: it runs later, whenever somebody likes
    kDriver,    // the trial itself cannot go on: the driver refuses to map or to unmap
  };
  Kind kind = Kind::kAccess;
  std::string work;               // the function's name, or "copy"
  CUresult error = CUDA_SUCCESS;  // kAccess, kDriver
  std::vector<Extent> captured;   // kCaptured: what was named
};

// "access", "captured", "driver".
const char* FaultWord(Fault::Kind kind);

// Thread-safe.
class Trial : public memory::Backing {
 public:
  // Reserves the range; memory comes with Ensure, a handle a granule, on the NUMA node next to
  // the device where the driver can, else on the device. granule: what is mapped at once, a
  // multiple of 2 MiB (a slab: what shares one with a named block is on the device then too).
  // bytes: a multiple of granule. on_fault is called with the trial's lock held, once for
  // kAccess and kDriver, after which everything stays mapped and nothing is waited for any more.
  // The driver must outlive the trial; `context` is current.
  static absl::StatusOr<std::unique_ptr<Trial>> Create(const DriverApi& driver, CUcontext context,
                                                       CUdevice device, uint64_t bytes,
                                                       uint64_t granule,
                                                       std::function<void(const Fault&)> on_fault);
  // Nothing on the device may use the range any more.
  ~Trial() override;

  CUdeviceptr base() const override { return base_; }
  uint64_t size() const override { return size_; }
  // Memory for these bytes, which keeps them while it is unmapped.
  CUresult Ensure(uint64_t offset, uint64_t bytes) override ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t device_bytes() const override ABSL_LOCKS_EXCLUDED(mutex_);

  // Before every launch, copy, memset and graph launch of the process: what was mapped for the
  // one before is waited for and unmapped unless it is named again; what is named is mapped.
  // what: of the work, for the report; copied. capturing: this work goes into a graph, or some
  // stream is being captured: nothing can be waited for now, and what is named stays mapped for
  // good and is reported as captured.
  void Begin(const std::vector<Extent>& named, const char* what, bool capturing)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The work has been queued, or refused. Other threads' Begin waits for this, at most some
  // seconds, so that nobody unmaps what is about to be queued.
  void Queued() ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits for the work before and reports a fault of it: at the end of the process, and wherever
  // the program is about to learn of one itself. Not while a stream is being captured.
  void Check() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Granule {
    CUmemGenericAllocationHandle handle = 0;  // 0: no memory yet
    bool on_device = false;
    bool mapped = false;
    bool pinned = false;  // named by captured work
    bool named = false;   // by the work that is beginning
  };

  Trial(const DriverApi& driver, CUcontext context, CUdevice device, CUdeviceptr base,
        uint64_t bytes, uint64_t granule, std::function<void(const Fault&)> on_fault);

  void TakeTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitForWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MapNamed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkNamed(const std::vector<Extent>& named, bool pin) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveUp(const Fault& fault) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CUresult MakeMemory(Granule& granule) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CUresult Map(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CUresult Unmap(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DriverApi& driver_;
  const CUcontext context_;
  const CUdevice device_;
  const CUdeviceptr base_;
  const uint64_t size_;
  const uint64_t granule_;
  const std::function<void(const Fault&)> on_fault_;
  int host_numa_ = -1;  // -1: memory comes from the device

  mutable Mutex mutex_;
  std::condition_variable_any turn_ended_;
  std::thread::id turn_ ABSL_GUARDED_BY(mutex_);  // whose work is being queued
  std::vector<Granule> granules_ ABSL_GUARDED_BY(mutex_);
  std::string work_ ABSL_GUARDED_BY(mutex_);  // not waited for yet; empty: none
  CUcontext work_context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ebt::tier

#endif  // EBBTIDE_SRC_TIER_TRIAL_H_
