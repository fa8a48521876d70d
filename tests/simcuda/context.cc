// Contexts: the primary one of each device, others, and the stack of each thread.
#include <algorithm>
#include <cstdlib>

#include "api.h"
#include "pool.h"
#include "state.h"

namespace sim {
namespace {

// Of what needs no destructor: destructors of the program's that run later use contexts too.
class ContextStack {
 public:
  bool empty() const { return count_ == 0; }
  Context*& back() { return contexts_[count_ - 1]; }
  void push_back(Context* context) {
    if (count_ == kMost) abort();
    contexts_[count_++] = context;
  }
  void pop_back() { --count_; }

 private:
  static constexpr size_t kMost = 64;
  Context* contexts_[kMost];
  size_t count_;
};
thread_local constinit ContextStack t_stack{};

Context* Known(CUcontext handle) {
  Context* context = reinterpret_cast<Context*>(handle);
  return S().contexts.count(context) != 0 ? context : nullptr;
}

CUcontext Handle(Context* context) { return reinterpret_cast<CUcontext>(context); }

Context* NewContext(Device* device, unsigned flags) {
  auto* context = new Context();
  context->device = device;
  context->flags = flags;
  context->id = S().next_id++;
  S().contexts.insert(context);
  context->legacy = NewStream(context, true, 0);
  return context;
}

// Memory that the context's own calls have allocated goes with it.
void FreeMemoryOf(Context* context) {
  std::vector<uint64_t> bases;
  for (const auto& [base, region] : Regions()) {
    if (region.context == context && region.kind != Kind::kMapped) bases.push_back(base);
  }
  for (uint64_t base : bases) {
    Region* region = FindRegion(base);
    if (region->kind == Kind::kManaged) DropManaged(region);
    if (region->accounted != 0) GiveMemory(region->device, region->accounted);
    if (region->kind != Kind::kRegistered) UnmapMemory(base, region->bytes);
    EraseRegion(base);
  }
}

}  // namespace

Context* CurrentContext() {
  while (!t_stack.empty() && t_stack.back() != nullptr && S().contexts.count(t_stack.back()) == 0) {
    t_stack.back() = nullptr;  // destroyed by another thread
  }
  return t_stack.empty() ? nullptr : t_stack.back();
}

void DestroyContext(Context* context) {
  // Streams that were destroyed go while others are waited for.
  std::vector<TokenRef> last;
  for (const auto& stream : S().streams) {
    if (stream->context == context && stream->last) last.push_back(stream->last);
  }
  for (const TokenRef& token : last) AwaitToken(token);
  FreeMemoryOf(context);
  std::erase_if(S().streams, [&](const auto& stream) { return stream->context == context; });
  std::erase_if(S().events, [&](Event* event) {
    if (event->context != context) return false;
    delete event;
    return true;
  });
  S().contexts.erase(context);
  // A fault ends with the last context of its device.
  const bool another = std::any_of(S().contexts.begin(), S().contexts.end(), [&](Context* other) {
    return other->device == context->device;
  });
  if (!another) context->device->fault = CUDA_SUCCESS;
  if (context->device->primary == context) context->device->primary = nullptr;
  delete context;
}

CUresult PrimaryRetain(CUcontext* context, CUdevice ordinal) {
  Device* device = DeviceOf(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device->primary == nullptr) {
    device->primary = NewContext(device, device->primary_flags);
    device->primary->primary = true;
  }
  ++device->primary_references;
  *context = Handle(device->primary);
  return CUDA_SUCCESS;
}

CUresult PrimaryRelease(CUdevice ordinal) {
  Device* device = DeviceOf(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (device->primary_references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--device->primary_references == 0) DestroyContext(device->primary);
  return CUDA_SUCCESS;
}

CUresult PrimaryReset(CUdevice ordinal) {
  Device* device = DeviceOf(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (device->primary != nullptr) {
    DestroyContext(device->primary);
    device->default_pool->Reset();
  }
  device->primary_references = 0;
  return CUDA_SUCCESS;
}

CUresult PrimarySetFlags(CUdevice ordinal, unsigned int flags) {
  Device* device = DeviceOf(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  device->primary_flags = flags;
  if (device->primary != nullptr) device->primary->flags = flags;
  return CUDA_SUCCESS;
}

CUresult PrimaryGetState(CUdevice ordinal, unsigned int* flags, int* active) {
  Device* device = DeviceOf(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = device->primary_flags;
  *active = device->primary != nullptr ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult CtxCreate(CUcontext* context, unsigned int flags, CUdevice ordinal) {
  Device* device = DeviceOf(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  t_stack.push_back(NewContext(device, flags));
  *context = Handle(t_stack.back());
  return CUDA_SUCCESS;
}

CUresult CtxCreate3(CUcontext* context, CUexecAffinityParam*, int, unsigned int flags,
                    CUdevice ordinal) {
  return CtxCreate(context, flags, ordinal);
}

CUresult CtxCreate4(CUcontext* context, CUctxCreateParams*, unsigned int flags, CUdevice ordinal) {
  return CtxCreate(context, flags, ordinal);
}

CUresult CtxDestroy(CUcontext handle) {
  Context* context = Known(handle);
  if (context == nullptr || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  if (!t_stack.empty() && t_stack.back() == context) t_stack.pop_back();
  DestroyContext(context);
  return CUDA_SUCCESS;
}

CUresult CtxPushCurrent(CUcontext handle) {
  if (Known(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  t_stack.push_back(Known(handle));
  return CUDA_SUCCESS;
}

CUresult CtxPopCurrent(CUcontext* handle) {
  if (t_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  Context* context = CurrentContext();
  t_stack.pop_back();
  if (handle != nullptr) *handle = Handle(context);
  return CUDA_SUCCESS;
}

CUresult CtxSetCurrent(CUcontext handle) {
  if (handle == nullptr) {
    if (!t_stack.empty()) t_stack.pop_back();
    return CUDA_SUCCESS;
  }
  if (Known(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (t_stack.empty()) {
    t_stack.push_back(Known(handle));
  } else {
    t_stack.back() = Known(handle);
  }
  return CUDA_SUCCESS;
}

CUresult CtxGetCurrent(CUcontext* handle) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *handle = Handle(CurrentContext());
  return CUDA_SUCCESS;
}

CUresult CtxGetDevice(CUdevice* device) { return CtxGetDevice2(device, nullptr); }

CUresult CtxGetDevice2(CUdevice* device, CUcontext handle) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = handle == nullptr ? CurrentContext() : Known(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult CtxGetApiVersion(CUcontext handle, unsigned int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (handle != nullptr && Known(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult CtxGetFlags(unsigned int* flags) {
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CurrentContext() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *flags = CurrentContext()->flags;
  return CUDA_SUCCESS;
}

CUresult CtxGetId(CUcontext handle, unsigned long long* id) {
  Context* context = handle == nullptr ? CurrentContext() : Known(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = context->id;
  return CUDA_SUCCESS;
}

CUresult CtxSynchronize() { return CtxSynchronize2(nullptr); }

CUresult CtxSynchronize2(CUcontext handle) {
  Context* context = handle == nullptr ? CurrentContext() : Known(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  for (const auto& stream : S().streams) {
    if (stream->context == context && stream->capture != nullptr) {
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  AwaitDevice(context->device);
  TrimPools();
  return context->device->fault;
}

CUresult CtxGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult CtxGetLimit(size_t* value, CUlimit limit) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      *value = 1024;
      return CUDA_SUCCESS;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      *value = 1 << 20;
      return CUDA_SUCCESS;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      *value = 8 << 20;
      return CUDA_SUCCESS;
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
}

CUresult CtxSetLimit(CUlimit limit, size_t) {
  size_t value = 0;  // nothing that is simulated depends on one
  return CtxGetLimit(&value, limit);
}

CUresult CtxEnablePeerAccess(CUcontext handle, unsigned int flags) {
  Context* peer = Known(handle);
  Context* context = CurrentContext();
  if (peer == nullptr || peer->device == context->device) return CUDA_ERROR_INVALID_CONTEXT;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const uint32_t bit = uint32_t{1} << peer->device->ordinal;
  if ((context->peers & bit) != 0) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  context->peers |= bit;
  return CUDA_SUCCESS;
}

CUresult CtxDisablePeerAccess(CUcontext handle) {
  Context* peer = Known(handle);
  if (peer == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const uint32_t bit = uint32_t{1} << peer->device->ordinal;
  if ((CurrentContext()->peers & bit) == 0) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  CurrentContext()->peers &= ~bit;
  return CUDA_SUCCESS;
}

CUresult CtxResetPersistingL2Cache() { return CUDA_SUCCESS; }

}  // namespace sim
