#include "src/record/gpu_clock.h"

#include <algorithm>

#include "src/base/log.h"

namespace ebt::record {

GpuClock::GpuClock(const DriverApi& driver, EventBuffers& buffers)
    : driver_(driver),
      buffers_(buffers),
      works_(driver.fn_cuEventCreate != nullptr && driver.fn_cuEventRecord != nullptr &&
             driver.fn_cuEventQuery != nullptr && driver.fn_cuEventElapsedTime != nullptr &&
             driver.fn_cuStreamIsCapturing != nullptr && driver.fn_cuCtxGetCurrent != nullptr &&
             driver.fn_cuCtxSetCurrent != nullptr) {}

void GpuClock::Stop(const char* call, CUresult result) {
  if (!works_.exchange(false)) return;
  Log(LogLevel::kDebug, "{} failed with {}: the profile has no GPU times from here on", call,
      ErrorName(driver_, result));
}

CUevent GpuClock::SpareEvent(CUcontext context) {
  {
    std::lock_guard lock(mutex_);
    const auto it = std::find_if(spare_.begin(), spare_.end(),
                                 [&](const Spare& spare) { return spare.context == context; });
    if (it != spare_.end()) {
      const CUevent event = it->event;
      *it = spare_.back();
      spare_.pop_back();
      return event;
    }
  }
  CUevent event = nullptr;
  const CUresult result = driver_.fn_cuEventCreate(&event, CU_EVENT_DEFAULT);
  if (result != CUDA_SUCCESS) {
    Stop("cuEventCreate", result);
    return nullptr;
  }
  return event;
}

void GpuClock::Record(CUstream stream, uint16_t number) {
  if (!works_.load(std::memory_order_relaxed) || waiting() >= kMostWaiting) return;
  CUcontext context = nullptr;
  if (driver_.fn_cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return;
  const RelaxedCapture relaxed(driver_);
  // An error is no failure here: the legacy stream answers so while another one is capturing.
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver_.fn_cuStreamIsCapturing(stream, &capturing) != CUDA_SUCCESS ||
      capturing != CU_STREAM_CAPTURE_STATUS_NONE) {
    return;
  }
  const CUevent event = SpareEvent(context);
  if (event == nullptr) return;
  const CUresult result = driver_.fn_cuEventRecord(event, stream);
  if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_CONTEXT) {
    // The stream is another context's than the current one: no mark here, but elsewhere.
    std::lock_guard lock(mutex_);
    spare_.push_back({context, event});
    return;
  }
  if (result != CUDA_SUCCESS) return Stop("cuEventRecord", result);
  std::lock_guard lock(mutex_);
  waiting_.push_back({buffers_.Reserve(), context, event, number});
}

size_t GpuClock::waiting() {
  std::lock_guard lock(mutex_);
  return waiting_.size();
}

GpuClock::ContextClock& GpuClock::ClockOf(CUcontext context) {
  for (ContextClock& clock : clocks_) {
    if (clock.context == context) return clock;
  }
  return clocks_.emplace_back(ContextClock{.context = context});
}

bool GpuClock::Read(const Mark& mark, double& gpu_ms) {
  ContextClock& clock = ClockOf(mark.context);
  if (clock.base == nullptr) {
    clock.base = mark.event;
    gpu_ms = 0;
    return true;
  }
  float since_base = 0;
  const CUresult result = driver_.fn_cuEventElapsedTime(&since_base, clock.base, mark.event);
  if (result != CUDA_SUCCESS) {
    Stop("cuEventElapsedTime", result);
    return false;
  }
  gpu_ms = clock.base_ms + since_base;
  CUevent done = mark.event;
  if (since_base > kBaseMs) {
    std::swap(done, clock.base);
    clock.base_ms = gpu_ms;
  }
  std::lock_guard lock(mutex_);
  spare_.push_back({mark.context, done});
  return true;
}

void GpuClock::Poll(std::vector<EventRecord>& marks) {
  std::vector<Mark> asked;
  {
    std::lock_guard lock(mutex_);
    asked.swap(waiting_);
  }
  if (!works_.load(std::memory_order_relaxed)) return;
  std::vector<Mark> later;
  CUcontext current = nullptr;
  for (const Mark& mark : asked) {
    if (mark.context != current) {
      const CUresult set = driver_.fn_cuCtxSetCurrent(mark.context);
      if (set != CUDA_SUCCESS) return Stop("cuCtxSetCurrent", set);
      current = mark.context;
    }
    const CUresult result = driver_.fn_cuEventQuery(mark.event);
    if (result == CUDA_ERROR_NOT_READY) {
      later.push_back(mark);
      continue;
    }
    if (result != CUDA_SUCCESS) return Stop("cuEventQuery", result);
    double gpu_ms = 0;
    if (!Read(mark, gpu_ms)) return;
    marks.push_back({.sequence = mark.sequence,
                     .kind = RecordKind::kMark,
                     .stream = mark.stream,
                     .gpu_ms = gpu_ms});
  }
  std::lock_guard lock(mutex_);
  waiting_.insert(waiting_.begin(), later.begin(), later.end());
}

void GpuClock::ContextGone(CUcontext context) {
  const auto gone = [&](const auto& entry) {
    return context == nullptr || entry.context == context;
  };
  std::erase_if(clocks_, gone);
  std::lock_guard lock(mutex_);
  std::erase_if(waiting_, gone);
  std::erase_if(spare_, gone);
}

}  // namespace ebt::record
