// The driver's real functions as an injected struct: everything above hooks/ calls the driver
// only through this, so it runs unchanged on the simulated driver and never re-enters a hook.
#ifndef EBBTIDE_SRC_DRIVER_DRIVER_API_H_
#define EBBTIDE_SRC_DRIVER_DRIVER_API_H_

#include <cuda.h>

#include <functional>

#include "absl/status/statusor.h"

namespace ebt {

// X(exported symbol, parameters): the ABI is that of the exported symbol, whatever macros
// cuda.h of the build machine puts on the name.
#define EBT_DRIVER_FUNCTIONS(X)                                                                \
  X(cuDriverGetVersion, (int*))                                                                \
  X(cuCtxGetCurrent, (CUcontext*))                                                             \
  X(cuCtxGetDevice, (CUdevice*))                                                               \
  X(cuCtxSetCurrent, (CUcontext))                                                              \
  X(cuCtxSynchronize, (void))                                                                  \
  X(cuDeviceGet, (CUdevice*, int))                                                             \
  X(cuDeviceGetCount, (int*))                                                                  \
  X(cuDeviceGetAttribute, (int*, CUdevice_attribute, CUdevice))                                \
  X(cuDeviceGetName, (char*, int, CUdevice))                                                   \
  X(cuDeviceTotalMem_v2, (size_t*, CUdevice))                                                  \
  X(cuDeviceGetDefaultMemPool, (CUmemoryPool*, CUdevice))                                      \
  X(cuDeviceGetMemPool, (CUmemoryPool*, CUdevice))                                             \
  X(cuMemGetInfo_v2, (size_t*, size_t*))                                                       \
  X(cuMemAlloc_v2, (CUdeviceptr*, size_t))                                                     \
  X(cuMemFree_v2, (CUdeviceptr))                                                               \
  X(cuMemAllocManaged, (CUdeviceptr*, size_t, unsigned))                                       \
  X(cuMemAdvise, (CUdeviceptr, size_t, CUmem_advise, CUdevice))                                \
  X(cuMemPrefetchAsync, (CUdeviceptr, size_t, CUdevice, CUstream))                             \
  X(cuMemAddressReserve, (CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long))      \
  X(cuMemAddressFree, (CUdeviceptr, size_t))                                                   \
  X(cuMemCreate,                                                                               \
    (CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*, unsigned long long))   \
  X(cuMemRelease, (CUmemGenericAllocationHandle))                                              \
  X(cuMemMap, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long)) \
  X(cuMemUnmap, (CUdeviceptr, size_t))                                                         \
  X(cuMemSetAccess, (CUdeviceptr, size_t, const CUmemAccessDesc*, size_t))                     \
  X(cuMemGetAllocationGranularity,                                                             \
    (size_t*, const CUmemAllocationProp*, CUmemAllocationGranularity_flags))                   \
  X(cuMemPoolGetAttribute, (CUmemoryPool, CUmemPool_attribute, void*))                         \
  X(cuMemPoolSetAttribute, (CUmemoryPool, CUmemPool_attribute, void*))                         \
  X(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                           \
  X(cuMemcpyAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                               \
  X(cuStreamCreateWithPriority, (CUstream*, unsigned, int))                                    \
  X(cuStreamDestroy_v2, (CUstream))                                                            \
  X(cuStreamSynchronize, (CUstream))                                                           \
  X(cuStreamQuery, (CUstream))                                                                 \
  X(cuStreamWaitEvent, (CUstream, CUevent, unsigned))                                          \
  X(cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus*))                                   \
  X(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode*))                                 \
  X(cuEventCreate, (CUevent*, unsigned))                                                       \
  X(cuEventRecord, (CUevent, CUstream))                                                        \
  X(cuEventQuery, (CUevent))                                                                   \
  X(cuEventSynchronize, (CUevent))                                                             \
  X(cuEventElapsedTime, (float*, CUevent, CUevent))                                            \
  X(cuEventDestroy_v2, (CUevent))                                                              \
  X(cuFuncGetParamInfo, (CUfunction, size_t, size_t*, size_t*))                                \
  X(cuKernelGetParamInfo, (CUkernel, size_t, size_t*, size_t*))                                \
  X(cuFuncGetName, (const char**, CUfunction))                                                 \
  X(cuKernelGetName, (const char**, CUkernel))                                                 \
  X(cuDevicePrimaryCtxGetState, (CUdevice, unsigned*, int*))                                   \
  X(cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice))                                          \
  X(cuDevicePrimaryCtxRelease_v2, (CUdevice))                                                  \
  X(cuGetErrorName, (CUresult, const char**))

// Member names carry no version suffix trick: api.cuMemAlloc_v2(...). NULL where the driver
// has no such function; callers of optional ones check.
struct DriverApi {
#define EBT_MEMBER(name, parameters) CUresult(*fn_##name) parameters = nullptr;
  EBT_DRIVER_FUNCTIONS(EBT_MEMBER)
#undef EBT_MEMBER
};

// Looks every function up with `resolve` (NULL: missing). Fails when one is missing without
// which nothing works; younger ones stay NULL.
absl::StatusOr<DriverApi> LoadDriverApi(const std::function<void*(const char*)>& resolve);

// "CUDA_ERROR_OUT_OF_MEMORY"; static storage, never NULL.
const char* ErrorName(const DriverApi& driver, CUresult result);

}  // namespace ebt

#endif  // EBBTIDE_SRC_DRIVER_DRIVER_API_H_
