// Streams and events.
#include <algorithm>

#include "api.h"
#include "graph.h"
#include "pool.h"
#include "state.h"

namespace sim {
namespace {

// A thread that keeps asking gives the devices more and more time, so that polling ends.
CUresult NotReady() {
  static thread_local Ns patience = Microseconds(1);
  static thread_local Ns last = -1;
  if (ThreadClock() - last > Microseconds(5) + patience) patience = Microseconds(1);
  ThreadClock() += patience;
  last = ThreadClock();
  patience = std::min(2 * patience, Microseconds(100));
  CatchUp();
  return CUDA_ERROR_NOT_READY;
}

bool Idle(const Stream* stream) { return !stream->last || stream->last->done; }

template <typename T>
CUresult WaitValue(CUstream handle, CUdeviceptr address, T value, unsigned flags) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (address % sizeof(T) != 0 || FindRegion(address) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const unsigned comparison = flags & 3;
  Work work;
  work.satisfied = [=] {
    if (FindRegion(address) == nullptr) return true;  // the effect reports the fault
    const T now = __atomic_load_n(reinterpret_cast<T*>(address), __ATOMIC_ACQUIRE);
    switch (comparison) {
      case CU_STREAM_WAIT_VALUE_GEQ:
        return static_cast<std::make_signed_t<T>>(now - value) >= 0;
      case CU_STREAM_WAIT_VALUE_EQ:
        return now == value;
      case CU_STREAM_WAIT_VALUE_AND:
        return (now & value) != 0;
      default:  // NOR
        return static_cast<T>(~(now | value)) != 0;
    }
  };
  work.satisfied_at = [address] {
    auto write = S().value_writes.find(address);
    return write == S().value_writes.end() ? Ns{-1} : write->second;
  };
  work.effect = [address] {
    return FindRegion(address) == nullptr ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
  };
  Enqueue(stream, std::move(work));
  return CUDA_SUCCESS;
}

template <typename T>
CUresult WriteValue(CUstream handle, CUdeviceptr address, T value) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (address % sizeof(T) != 0 || FindRegion(address) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = stream->context->device;
  Work work;
  work.effect = [=] {
    if (!Accessible({address, sizeof(T), false, true}, device)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    __atomic_store_n(reinterpret_cast<T*>(address), value, __ATOMIC_RELEASE);
    S().value_writes[address] = stream->end;
    return CUDA_SUCCESS;
  };
  Enqueue(stream, std::move(work));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult StreamCreate(CUstream* stream, unsigned int flags) {
  return StreamCreateWithPriority(stream, flags, 0);
}

CUresult StreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  if (stream == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *stream = reinterpret_cast<CUstream>(
      NewStream(CurrentContext(), flags != CU_STREAM_NON_BLOCKING, std::clamp(priority, -5, 0)));
  return CUDA_SUCCESS;
}

CUresult StreamDestroy(CUstream handle) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  stream->destroyed = true;  // goes when its work is done
  return CUDA_SUCCESS;
}

CUresult StreamSynchronize(CUstream handle) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  AwaitStream(stream);
  TrimPools();
  return CUDA_SUCCESS;
}

CUresult StreamQuery(CUstream handle) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream != stream->context->legacy) return Idle(stream) ? CUDA_SUCCESS : NotReady();
  const bool idle = std::all_of(S().streams.begin(), S().streams.end(), [&](const auto& other) {
    return other->context != stream->context || !other->blocking || Idle(other.get());
  });
  return idle ? CUDA_SUCCESS : NotReady();
}

CUresult StreamWaitEvent(CUstream handle, CUevent event_handle, unsigned int) {
  Stream* stream = FindStream(handle);
  Event* event = FindEvent(event_handle);
  if (stream == nullptr || event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->captured != nullptr) {
    JoinCapture(stream, event->captured);
    return CUDA_SUCCESS;
  }
  if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  if (event->recorded) Enqueue(stream, {}, {event->recorded});
  return CUDA_SUCCESS;
}

CUresult StreamGetPriority(CUstream handle, int* priority) {
  const Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult StreamGetFlags(CUstream handle, unsigned int* flags) {
  const Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream->blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
  return CUDA_SUCCESS;
}

CUresult StreamGetId(CUstream handle, unsigned long long* id) {
  const Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = stream->id;
  return CUDA_SUCCESS;
}

CUresult StreamGetCtx(CUstream handle, CUcontext* context) {
  const Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = reinterpret_cast<CUcontext>(stream->context);
  return CUDA_SUCCESS;
}

CUresult StreamGetDevice(CUstream handle, CUdevice* device) {
  const Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = stream->context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult StreamAttachMem(CUstream handle, CUdeviceptr address, size_t, unsigned int) {
  if (FindStream(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return FindRegion(address) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult StreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                           unsigned int flags) {
  return WaitValue<uint32_t>(stream, address, value, flags);
}
CUresult StreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                           unsigned int flags) {
  return WaitValue<uint64_t>(stream, address, value, flags);
}
CUresult StreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int) {
  return WriteValue<uint32_t>(stream, address, value);
}
CUresult StreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int) {
  return WriteValue<uint64_t>(stream, address, value);
}

CUresult StreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* list,
                          unsigned int flags) {
  if (list == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    const auto& wait = list[i].waitValue;
    const auto& write = list[i].writeValue;
    CUresult result = CUDA_SUCCESS;
    switch (list[i].operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        result = WaitValue<uint32_t>(stream, wait.address, wait.value, wait.flags);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        result = WaitValue<uint64_t>(stream, wait.address, wait.value64, wait.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        result = WriteValue<uint32_t>(stream, write.address, write.value);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        result = WriteValue<uint64_t>(stream, write.address, write.value64);
        break;
      default:
        break;  // barriers and flushes: everything is in order here
    }
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult ValueNodeWork(const CUstreamBatchMemOpParams* operations, unsigned count, Work* work) {
  if (operations == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<CUstreamBatchMemOpParams> list(operations, operations + count);
  Device* device = CurrentContext()->device;
  for (const CUstreamBatchMemOpParams& one : list) {
    if (one.operation != CU_STREAM_MEM_OP_WRITE_VALUE_32) return CUDA_ERROR_NOT_SUPPORTED;
  }
  work->effect = [list, device] {
    for (const CUstreamBatchMemOpParams& one : list) {
      const CUdeviceptr at = one.writeValue.address;
      if (!Accessible({at, 4, false, true}, device)) return CUDA_ERROR_ILLEGAL_ADDRESS;
      __atomic_store_n(reinterpret_cast<uint32_t*>(at), one.writeValue.value, __ATOMIC_RELEASE);
    }
    return CUDA_SUCCESS;
  };
  return CUDA_SUCCESS;
}

CUresult EventCreate(CUevent* handle, unsigned int flags) {
  if (handle == nullptr || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  auto* event = new Event();
  event->context = CurrentContext();
  event->timing = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  S().events.insert(event);
  *handle = reinterpret_cast<CUevent>(event);
  return CUDA_SUCCESS;
}

CUresult EventRecord(CUevent event, CUstream stream) {
  return EventRecordWithFlags(event, stream, 0);
}

CUresult EventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned int) {
  Event* event = FindEvent(handle);
  Stream* stream = FindStream(stream_handle);
  if (event == nullptr || stream == nullptr || event->context != stream->context)
    return CUDA_ERROR_INVALID_HANDLE;
  event->captured = stream->capture != nullptr ? stream : nullptr;
  event->recorded = event->captured == nullptr ? Enqueue(stream, {}) : nullptr;
  return CUDA_SUCCESS;
}

CUresult EventQuery(CUevent handle) {
  const Event* event = FindEvent(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->captured != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  return !event->recorded || event->recorded->done ? CUDA_SUCCESS : NotReady();
}

CUresult EventSynchronize(CUevent handle) {
  const Event* event = FindEvent(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->captured != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  AwaitToken(event->recorded);
  TrimPools();
  return CUDA_SUCCESS;
}

CUresult EventDestroy(CUevent handle) {
  Event* event = FindEvent(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  S().events.erase(event);
  delete event;
  return CUDA_SUCCESS;
}

CUresult EventElapsedTime(float* ms, CUevent start_handle, CUevent end_handle) {
  const Event* start = FindEvent(start_handle);
  const Event* end = FindEvent(end_handle);
  if (ms == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (start == nullptr || end == nullptr || !start->timing || !end->timing || !start->recorded ||
      !end->recorded) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!start->recorded->done || !end->recorded->done) return CUDA_ERROR_NOT_READY;
  *ms = static_cast<float>(static_cast<double>(end->recorded->time - start->recorded->time) / 1e6);
  return CUDA_SUCCESS;
}

}  // namespace sim
