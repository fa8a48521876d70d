#include "src/tier/managed.h"

#include <algorithm>
#include <chrono>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/log.h"
#include "src/base/own_threads.h"
#include "src/base/units.h"

namespace ebt::tier {
namespace {

// Measured on an H200: pieces of 2 MiB move at 18 GB/s, of 64 MiB at 44.
constexpr uint64_t kPieceBytes = 64 * kMiB;

absl::Status Refused(const DriverApi& driver, const char* what, CUresult result) {
  return absl::UnavailableError(absl::StrCat(what, " failed: ", ErrorName(driver, result)));
}

// Puts host memory behind the whole range now.
CUresult Populate(const DriverApi& driver, CUdeviceptr base, uint64_t size) {
  CUstream stream = nullptr;
  CUresult result = driver.fn_cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0);
  if (result != CUDA_SUCCESS) return result;
  for (uint64_t at = 0; at < size && result == CUDA_SUCCESS; at += kPieceBytes)
    result = driver.fn_cuMemPrefetchAsync(base + at, std::min(kPieceBytes, size - at),
                                          CU_DEVICE_CPU, stream);
  if (result == CUDA_SUCCESS) result = driver.fn_cuStreamSynchronize(stream);
  driver.fn_cuStreamDestroy_v2(stream);
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ManagedRange>> ManagedRange::Create(const DriverApi& driver,
                                                                   CUdevice device, uint64_t size) {
  int concurrent = 0;
  driver.fn_cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                                 device);
  if (!concurrent)
    return absl::UnavailableError(
        "the device cannot share managed memory with the host while "
        "kernels run (concurrentManagedAccess is 0)");
  size_t free_bytes = 0, total_bytes = 0;
  CUresult result = driver.fn_cuMemGetInfo_v2(&free_bytes, &total_bytes);
  if (result != CUDA_SUCCESS) return Refused(driver, "cuMemGetInfo", result);
  if (size > free_bytes)
    return absl::ResourceExhaustedError(absl::StrCat("cold blocks need ", FormatSize(size),
                                                     " of managed memory, which must not be "
                                                     "more than the card has free (",
                                                     FormatSize(free_bytes), ")"));
  CUdeviceptr base = 0;
  result = driver.fn_cuMemAllocManaged(&base, size, CU_MEM_ATTACH_GLOBAL);
  if (result != CUDA_SUCCESS) return Refused(driver, "cuMemAllocManaged", result);
  result = driver.fn_cuMemAdvise(base, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU);
  if (result == CUDA_SUCCESS)
    result = driver.fn_cuMemAdvise(base, size, CU_MEM_ADVISE_SET_ACCESSED_BY, device);
  if (result == CUDA_SUCCESS) result = Populate(driver, base, size);
  if (result != CUDA_SUCCESS) {
    driver.fn_cuMemFree_v2(base);
    return Refused(driver, "placing managed memory on the host", result);
  }
  return std::unique_ptr<ManagedRange>(new ManagedRange(base, size));
}

Prefetcher::Prefetcher(const DriverApi& driver, CUcontext context, CUdevice device,
                       ManagedRange& range, int* (*guard)())
    : driver_(driver),
      context_(context),
      device_(device),
      range_(range),
      guard_(guard),
      thread_([this] { Run(); }) {}

Prefetcher::~Prefetcher() {
  {
    MutexLock lock(&mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

CUevent Prefetcher::TakeEvent() {
  {
    MutexLock lock(&mutex_);
    if (!events_.empty()) {
      const CUevent event = events_.back();
      events_.pop_back();
      return event;
    }
  }
  CUevent event = nullptr;
  return driver_.fn_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS ? event
                                                                                   : nullptr;
}

void Prefetcher::Request(Direction direction, uint64_t offset, uint64_t bytes, CUstream stream) {
  const CUevent after = TakeEvent();
  if (!after) return;
  const bool recorded = driver_.fn_cuEventRecord(after, stream) == CUDA_SUCCESS;
  MutexLock lock(&mutex_);
  if (recorded) {
    moves_.push_back({direction, offset, bytes, after});
    changed_.notify_one();
  } else {
    events_.push_back(after);
  }
}

void Prefetcher::Run() {
  *guard_() = 1;
  const OwnThread own;
  CUstream stream = nullptr;
  driver_mutex_.lock();
  CUresult result = driver_.fn_cuCtxSetCurrent(context_);
  if (result == CUDA_SUCCESS)
    result = driver_.fn_cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0);
  const bool ready = result == CUDA_SUCCESS;
  // A program may be quicker than a thread that begins: then nobody is there to be told.
  if (!ready && result != CUDA_ERROR_CONTEXT_IS_DESTROYED)
    Log(LogLevel::kWarning, "cold blocks cannot be fetched ahead; they are used in place");
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  driver_.fn_cuThreadExchangeStreamCaptureMode(&mode);
  driver_mutex_.unlock();
  while (true) {
    Move move;
    {
      MutexLock lock(&mutex_);
      const auto asked = [this]()
                             ABSL_NO_THREAD_SAFETY_ANALYSIS { return ending_ || !moves_.empty(); };
      while (!changed_.wait_for(mutex_, kLookForProgram, asked))
        if (ProgramThreadsAreGone()) return;
      if (ending_) return;
      move = moves_.front();
      moves_.pop_front();
    }
    if (ready) {
      MutexLock driver(&driver_mutex_);
      Perform(move, stream);
    }
    MutexLock lock(&mutex_);
    events_.push_back(move.after);
  }
}

void Prefetcher::Perform(const Move& move, CUstream stream) {
  const bool fetch = move.direction == Direction::kFetch;
  if (driver_.fn_cuStreamWaitEvent(stream, move.after, 0) != CUDA_SUCCESS) return;
  for (uint64_t at = 0; at < move.bytes; at += kPieceBytes) {
    const uint64_t piece = std::min(kPieceBytes, move.bytes - at);
    if (driver_.fn_cuMemPrefetchAsync(range_.base() + move.offset + at, piece,
                                      fetch ? device_ : CU_DEVICE_CPU, stream) != CUDA_SUCCESS)
      return;
    moved_[fetch ? 0 : 1].fetch_add(piece, std::memory_order_relaxed);
    range_.AddFetched(fetch ? static_cast<int64_t>(piece) : -static_cast<int64_t>(piece));
  }
}

}  // namespace ebt::tier
