#include "tests/preload/front_program.h"

#include <stdint.h>

#include <initializer_list>

namespace {

constexpr size_t kFloats = 1024;

// True when `find` has it and `call` of it succeeds.
template <typename... Parameters, typename... Arguments>
bool Call(Find find, const char* symbol, const char* base, CUresult (*)(Parameters...),
          Arguments... arguments) {
  const auto function = reinterpret_cast<CUresult (*)(Parameters...)>(find(symbol, base));
  return function != nullptr && function(arguments...) == CUDA_SUCCESS;
}

// The ABI of `name` is that of cuda.h's declaration; the symbol is spelled out.
#define CALL(symbol, name, ...) Call(find, symbol, #name, &name, __VA_ARGS__)

bool FillAndRead(Find find, CUfunction fill, CUstream stream, float value) {
  constexpr size_t kBytes = kFloats * sizeof(float);
  CUdeviceptr block = 0;
  float host[kFloats];
  uint64_t count = kFloats;
  void* parameters[] = {&block, &value, &count};
  const bool done = CALL("cuMemAllocAsync", cuMemAllocAsync, &block, kBytes, stream) &&
                    CALL("cuMemsetD8Async", cuMemsetD8Async, block, static_cast<unsigned char>(9),
                         kBytes, stream) &&
                    CALL("cuLaunchKernel", cuLaunchKernel, fill, 4u, 1u, 1u, 256u, 1u, 1u, 0u,
                         stream, parameters, static_cast<void**>(nullptr)) &&
                    CALL("cuMemcpyDtoHAsync_v2", cuMemcpyDtoHAsync, static_cast<void*>(host), block,
                         kBytes, stream) &&
                    CALL("cuMemFreeAsync", cuMemFreeAsync, block, stream) &&
                    CALL("cuStreamSynchronize", cuStreamSynchronize, stream);
  for (float read : host)
    if (!done || read != value) return false;
  return true;
}

bool RoundTrip(Find find) {
  const uint32_t sent[4] = {1, 2, 3, 4};
  uint32_t received[4] = {};
  CUdeviceptr block = 0;
  if (!CALL("cuMemAlloc_v2", cuMemAlloc, &block, sizeof(sent)) ||
      !CALL("cuMemcpyHtoD_v2", cuMemcpyHtoD, block, static_cast<const void*>(sent), sizeof(sent)) ||
      !CALL("cuMemcpyDtoH_v2", cuMemcpyDtoH, static_cast<void*>(received), block, sizeof(sent)) ||
      !CALL("cuMemFree_v2", cuMemFree, block))
    return false;
  return received[0] == 1 && received[3] == 4;
}

}  // namespace

bool UseContext(Find find) {
  CUcontext context = nullptr;
  return CALL("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain, &context, 0) &&
         CALL("cuCtxSetCurrent", cuCtxSetCurrent, context);
}

int UseDriver(Find find) {
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  if (!CALL("cuInit", cuInit, 0u) || !UseContext(find) || !RoundTrip(find)) return 1;
  if (!find("cuMemAllocAsync", "cuMemAllocAsync")) return 0;
  if (!CALL("cuModuleLoadData", cuModuleLoadData, &module, static_cast<const void*>("")) ||
      !CALL("cuModuleGetFunction", cuModuleGetFunction, &fill, module, "ebt_fill"))
    return 2;
  CUstream stream = nullptr;
  if (!CALL("cuStreamCreate", cuStreamCreate, &stream, 0u)) return 3;
  for (CUstream ordered : {stream, static_cast<CUstream>(nullptr), stream})
    if (!FillAndRead(find, fill, ordered, 1.5f)) return 4;
  return 0;
}
