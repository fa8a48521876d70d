// The engine of one process: what its mode is, and who answers for it.
#ifndef EBBTIDE_SRC_RUNTIME_ENGINE_H_
#define EBBTIDE_SRC_RUNTIME_ENGINE_H_

#include <unistd.h>

#include <atomic>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "ebbtide/ebbtide.h"
#include "hooks/core_api.h"
#include "src/base/config.h"
#include "src/base/mutex.h"
#include "src/driver/driver_api.h"
#include "src/driver/primary_context.h"
#include "src/record/recorder.h"
#include "src/replay/replayer.h"

namespace ebt::runtime {

// Lives from the first use of the driver to the end of the process and is never destroyed: at
// exit the driver may be gone before us.
class Engine {
 public:
  // nullptr: there is nothing to do in this process, and if that is not what the user asked
  // for, one line has said why.
  static Engine* Open(const ebt_front& front);

  // The recorder of record mode, made on first use so that a process that never allocates
  // leaves no file; nullptr in other modes and when it cannot be had.
  record::Recorder* recorder();
  // The replayer of replay mode, nullptr in others.
  replay::Replayer* replayer() { return replayer_.get(); }

  // The primary context of a device, NULL where it is not active.
  CUcontext Primary(CUdevice device) const { return PrimaryContext(driver_, device); }
  bool IsPrimary(CUcontext context) const;
  // A reference to it is about to be given up; it was: the context if that was the last one.
  void ReleasingPrimary(CUdevice device);
  CUcontext PrimaryThatEnded(CUdevice device);

  ebbtide_statistics Statistics();
  void AfterFork();
  // The process ends: what is recorded is written, what was replayed is summed up.
  void Exiting();

 private:
  Engine(const ebt_front& front, Config config) : front_(front), config_(std::move(config)) {}
  bool PrepareReplay();
  record::Recorder* CreateRecorder();

  const pid_t pid_ = getpid();
  const ebt_front front_;
  const Config config_;
  DriverApi driver_;
  std::unique_ptr<replay::Replayer> replayer_;
  Mutex mutex_;
  bool recorder_tried_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<record::Recorder> recorder_owner_ ABSL_GUARDED_BY(mutex_);
  std::atomic<record::Recorder*> recorder_{nullptr};
  absl::flat_hash_map<CUdevice, CUcontext> releasing_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ebt::runtime

#endif  // EBBTIDE_SRC_RUNTIME_ENGINE_H_
