// A driver for the recorder's tests: kernels are FakeKernel objects, streams and contexts bare
// numbers, and GPU time is what the test says.
#ifndef EBBTIDE_TESTS_UNIT_RECORDER_FAKE_DRIVER_H_
#define EBBTIDE_TESTS_UNIT_RECORDER_FAKE_DRIVER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "src/driver/driver_api.h"

namespace ebt::record {

// The handle of a kernel is the address of one of these.
struct FakeKernel {
  const char* name = nullptr;
  std::vector<size_t> sizes;    // of the parameters
  bool library_kernel = false;  // a CUkernel: cuFuncGetParamInfo refuses it
};

struct FakeEvent {
  std::atomic<float> recorded_ms{-1};
};

// What the driver answers; tests change it. One test runs at a time.
struct FakeDriverState {
  std::atomic<uint64_t> context{1};
  std::atomic<int> device{0};
  std::atomic<float> now_ms{0};
  std::atomic<bool> ready{true};                      // the GPU has passed every event
  std::atomic<bool> capturing{false};                 // every stream is capturing
  std::atomic<CUresult> record_result{CUDA_SUCCESS};  // of cuEventRecord
  std::atomic<int> layout_questions{0};
  std::atomic<int> events_recorded{0};
  std::atomic<int> events_created{0};
  std::atomic<int> times_asked{0};   // of events
  std::atomic<int> memory_asked{0};  // how much is free
  std::atomic<uint64_t> free_bytes{900}, total_bytes{1000};
  // The recorder destroys no event: a context takes its own along.
  std::mutex events_mutex;
  std::deque<FakeEvent> events;
};
inline FakeDriverState fake;

inline CUresult FakeParamInfo(const FakeKernel& kernel, size_t index, size_t* offset,
                              size_t* size) {
  ++fake.layout_questions;
  if (index >= kernel.sizes.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = 0;
  for (size_t i = 0; i < index; ++i) *offset += (kernel.sizes[i] + 7) / 8 * 8;
  *size = kernel.sizes[index];
  return CUDA_SUCCESS;
}

inline DriverApi FakeDriver() {
  DriverApi api;
  api.fn_cuDriverGetVersion = [](int* version) {
    *version = 13000;
    return CUDA_SUCCESS;
  };
  api.fn_cuCtxGetCurrent = [](CUcontext* context) {
    *context = reinterpret_cast<CUcontext>(fake.context.load());
    return CUDA_SUCCESS;
  };
  api.fn_cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  api.fn_cuCtxGetDevice = [](CUdevice* device) {
    *device = fake.device;
    return CUDA_SUCCESS;
  };
  api.fn_cuDeviceGetName = [](char* name, int, CUdevice) {
    name[0] = 'F';
    name[1] = 0;
    return CUDA_SUCCESS;
  };
  api.fn_cuDeviceTotalMem_v2 = [](size_t* bytes, CUdevice) {
    *bytes = fake.total_bytes;
    return CUDA_SUCCESS;
  };
  api.fn_cuMemGetInfo_v2 = [](size_t* free, size_t* total) {
    *free = fake.free_bytes;
    *total = fake.total_bytes;
    ++fake.memory_asked;
    return CUDA_SUCCESS;
  };
  api.fn_cuFuncGetParamInfo = [](CUfunction function, size_t index, size_t* offset, size_t* size) {
    const auto& kernel = *reinterpret_cast<FakeKernel*>(function);
    if (kernel.library_kernel) return CUDA_ERROR_INVALID_HANDLE;
    return FakeParamInfo(kernel, index, offset, size);
  };
  api.fn_cuKernelGetParamInfo = [](CUkernel function, size_t index, size_t* offset, size_t* size) {
    return FakeParamInfo(*reinterpret_cast<FakeKernel*>(function), index, offset, size);
  };
  api.fn_cuFuncGetName = [](const char** name, CUfunction function) {
    const auto& kernel = *reinterpret_cast<FakeKernel*>(function);
    if (kernel.library_kernel) return CUDA_ERROR_INVALID_HANDLE;
    *name = kernel.name;
    return CUDA_SUCCESS;
  };
  api.fn_cuKernelGetName = [](const char** name, CUkernel function) {
    *name = reinterpret_cast<FakeKernel*>(function)->name;
    return CUDA_SUCCESS;
  };
  api.fn_cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {
    *status = fake.capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  api.fn_cuEventCreate = [](CUevent* event, unsigned) {
    ++fake.events_created;
    std::lock_guard lock(fake.events_mutex);
    *event = reinterpret_cast<CUevent>(&fake.events.emplace_back());
    return CUDA_SUCCESS;
  };
  api.fn_cuEventRecord = [](CUevent event, CUstream) {
    if (fake.record_result != CUDA_SUCCESS) return fake.record_result.load();
    ++fake.events_recorded;
    reinterpret_cast<FakeEvent*>(event)->recorded_ms = fake.now_ms.load();
    return CUDA_SUCCESS;
  };
  api.fn_cuEventQuery = [](CUevent) { return fake.ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; };
  api.fn_cuEventElapsedTime = [](float* ms, CUevent from, CUevent to) {
    *ms = reinterpret_cast<FakeEvent*>(to)->recorded_ms -
          reinterpret_cast<FakeEvent*>(from)->recorded_ms;
    ++fake.times_asked;
    return CUDA_SUCCESS;
  };
  api.fn_cuGetErrorName = [](CUresult, const char** name) {
    *name = "CUDA_ERROR_FAKE";
    return CUDA_SUCCESS;
  };
  return api;
}

}  // namespace ebt::record

#endif  // EBBTIDE_TESTS_UNIT_RECORDER_FAKE_DRIVER_H_
