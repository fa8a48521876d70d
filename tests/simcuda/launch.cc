// Kernel launches and host functions.
#include <algorithm>
#include <cstring>

#include "api.h"
#include "graph.h"
#include "kernels.h"
#include "state.h"

namespace sim {
namespace {

constexpr Ns kKernelMinimum = Microseconds(2);

// Copies the launch's parameters, which the caller may change as soon as the call returns.
CUresult Pack(const Kernel& kernel, void** parameters, void** extra,
              std::vector<std::byte>* packed) {
  packed->assign(kernel.parameter_bytes, std::byte{0});
  if (parameters != nullptr) {
    if (extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < kernel.parameters.size(); ++i) {
      const Parameter& parameter = kernel.parameters[i];
      memcpy(packed->data() + parameter.offset, parameters[i], parameter.bytes);
    }
    return CUDA_SUCCESS;
  }
  const void* buffer = nullptr;
  size_t bytes = 0;
  for (void** at = extra; at != nullptr && *at != CU_LAUNCH_PARAM_END; at += 2) {
    if (at[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = at[1];
    } else if (at[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      bytes = *static_cast<size_t*>(at[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (buffer == nullptr || bytes < kernel.parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
  memcpy(packed->data(), buffer, kernel.parameter_bytes);
  return CUDA_SUCCESS;
}

Ns KernelTime(const Kernel& kernel, const std::vector<Span>& spans, Device* device) {
  Traffic traffic;
  AccessScope access;
  uint64_t elements = 0;
  for (const Span& span : spans) {
    Touch(span, device, &traffic);
    elements = std::max(elements, span.bytes / 4);
  }
  const Ns arithmetic = static_cast<Ns>(elements * kernel.picoseconds / 1000);
  return std::max({kKernelMinimum, arithmetic, TrafficTime(traffic)});
}

Work KernelWork(const Kernel* kernel, std::vector<std::byte> packed, Grid grid, Device* device) {
  auto parameters = std::make_shared<std::vector<std::byte>>(std::move(packed));
  auto spans = std::make_shared<std::vector<Span>>(kernel->spans(parameters->data(), grid));
  auto all_accessible = [device](const std::vector<Span>& list) {
    return std::all_of(list.begin(), list.end(),
                       [&](const Span& span) { return Accessible(span, device); });
  };
  auto accessible = [=] {
    return all_accessible(*spans) && (kernel->reached == nullptr ||
                                      all_accessible(kernel->reached(parameters->data(), grid)));
  };
  Work work;
  work.engine = [] { return Engine::kCompute; };
  work.duration = [=] {
    // An access that faults takes its time too; the fault comes at the end.
    if (!accessible()) return kKernelMinimum;
    std::vector<Span> touched = *spans;
    if (kernel->reached != nullptr) {
      const std::vector<Span> more = kernel->reached(parameters->data(), grid);
      touched.insert(touched.end(), more.begin(), more.end());
    }
    return KernelTime(*kernel, touched, device);
  };
  work.effect = [=] {
    if (!accessible()) return CUDA_ERROR_ILLEGAL_ADDRESS;
    kernel->run(parameters->data(), grid);
    return CUDA_SUCCESS;
  };
  return work;
}

// The work of a launch on `device`.
CUresult MakeWork(void* function, const Grid& grid, void** parameters, void** extra, Device* device,
                  Work* work) {
  const Kernel* kernel = KernelOfHandle(function);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (int i = 0; i < 3; ++i) {
    if (grid.blocks[i] == 0 || grid.threads[i] == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  if (uint64_t{grid.threads[0]} * grid.threads[1] * grid.threads[2] > 1024) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<std::byte> packed;
  CUresult result = Pack(*kernel, parameters, extra, &packed);
  if (result != CUDA_SUCCESS) return result;
  *work = KernelWork(kernel, std::move(packed), grid, device);
  return CUDA_SUCCESS;
}

CUresult Launch(CUfunction function, const Grid& grid, CUstream handle, void** parameters,
                void** extra) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Work work;
  CUresult result = MakeWork(function, grid, parameters, extra, stream->context->device, &work);
  if (result == CUDA_SUCCESS) Enqueue(stream, std::move(work));
  return result;
}

template <typename NodeParams>
Grid GridOf(const NodeParams& p) {
  return {{p.gridDimX, p.gridDimY, p.gridDimZ}, {p.blockDimX, p.blockDimY, p.blockDimZ}};
}

}  // namespace

CUresult LaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
                      unsigned int bx, unsigned int by, unsigned int bz, unsigned int,
                      CUstream stream, void** parameters, void** extra) {
  return Launch(function, {{gx, gy, gz}, {bx, by, bz}}, stream, parameters, extra);
}

CUresult LaunchKernelEx(const CUlaunchConfig* c, CUfunction function, void** parameters,
                        void** extra) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Grid grid = {{c->gridDimX, c->gridDimY, c->gridDimZ},
                     {c->blockDimX, c->blockDimY, c->blockDimZ}};
  return Launch(function, grid, c->hStream, parameters, extra);
}

CUresult LaunchCooperative(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
                           unsigned int bx, unsigned int by, unsigned int bz, unsigned int,
                           CUstream stream, void** parameters) {
  return Launch(function, {{gx, gy, gz}, {bx, by, bz}}, stream, parameters, nullptr);
}

CUresult KernelNodeWork(const CUDA_KERNEL_NODE_PARAMS_v2& p, Work* work) {
  void* function = p.func != nullptr ? static_cast<void*>(p.func) : p.kern;
  // A function is of a context; a kernel takes the current one.
  const Context* context = CurrentContext();
  if (context == nullptr && p.func == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Device* device = context != nullptr ? context->device : S().devices.front().get();
  return MakeWork(function, GridOf(p), p.kernelParams, p.extra, device, work);
}

CUresult LaunchCooperativeMulti(CUDA_LAUNCH_PARAMS* list, unsigned int count, unsigned int) {
  if (list == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    const CUresult result =
        Launch(list[i].function, GridOf(list[i]), list[i].hStream, list[i].kernelParams, nullptr);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult LaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  work.host = [function, data] { function(data); };
  Enqueue(stream, std::move(work));
  return CUDA_SUCCESS;
}

CUresult StreamAddCallback(CUstream handle, CUstreamCallback callback, void* data,
                           unsigned int flags) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  work.host = [handle, callback, data] { callback(handle, CUDA_SUCCESS, data); };
  Enqueue(stream, std::move(work));
  return CUDA_SUCCESS;
}

}  // namespace sim
