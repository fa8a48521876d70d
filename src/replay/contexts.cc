// The end of contexts: what was kept in one is gone, and the program runs on natively.
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "src/driver/current_context.h"
#include "src/driver/primary_context.h"
#include "src/replay/replayer.h"

namespace ebt::replay {
namespace {

constexpr int kMostMoments = 1000;  // of a millisecond

// What the calling thread holds from PrimaryReleasing to PrimaryReleased. Hooks run until the
// thread is gone, so it has no destructor.
thread_local std::shared_ptr<Space>* t_releasing = nullptr;

}  // namespace

void Replayer::Forget(bool gone) {
  Finish();
  RunSample last = Sample();
  last.device_bytes = 0;
  std::shared_ptr<Space> space;
  {
    MutexLock lock(&mutex_);
    if (!space_) return;
    last_sample_ = last;
    blocks_.clear();
    capturing_.clear();
    captures_ = synchronized_blocks_ = 0;
    cold_live_bytes_ = warm_live_bytes_ = 0;
    space = std::move(space_);
  }
  pools_.Clear();
  // What is queued may still use the memory; it ends with the context, and we before it. The
  // context that ends need not be the one that is current.
  {
    const CurrentContext before =
        gone ? CurrentContext(driver_) : CurrentContext(driver_, space->context());
    if (!gone && before.result() == CUDA_SUCCESS) driver_.fn_cuCtxSynchronize();
    // Other threads' calls hold it for a moment.
    for (int i = 0; i < kMostMoments && space.use_count() > 1; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    // A thread that is inside for longer finds it as it was, for good.
    if (space.use_count() > 1) new std::shared_ptr<Space>(space);
    space.reset();
  }
  // Said when the program allocates again: at their end most processes give their contexts back.
  context_ended_ = true;
  disabled_ = true;
}

void Replayer::ContextGone(CUcontext context) {
  {
    MutexLock lock(&mutex_);
    // A primary context is not destroyed by its handle: the driver refuses, and everything stays.
    if (!space_ || space_->context() != context || space_->primary()) return;
  }
  Forget(/*gone=*/false);
}

bool Replayer::IsPrimaryOf(CUdevice device) {
  MutexLock lock(&mutex_);
  return space_ && space_->primary() && space_->device() == device;
}

void Replayer::DeviceReset(CUdevice device) {
  if (IsPrimaryOf(device)) Forget(/*gone=*/false);
}

void Replayer::PrimaryReleasing(CUdevice device) {
  if (!IsPrimaryOf(device)) return;
  t_releasing = new std::shared_ptr<Space>(AnySpace());
  if (*t_releasing) (*t_releasing)->HoldThreads();
}

void Replayer::PrimaryReleased(CUdevice device) {
  const std::unique_ptr<std::shared_ptr<Space>> held(std::exchange(t_releasing, nullptr));
  if (!held || !*held) return;
  const bool gone = !PrimaryContextIsActive(driver_, device);
  if (gone) (*held)->ContextIsGone();
  (*held)->ResumeThreads();
  held->reset();
  if (gone) Forget(/*gone=*/true);
}

}  // namespace ebt::replay
