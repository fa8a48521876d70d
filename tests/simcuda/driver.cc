// What belongs to no device: initialization, errors, entry point look-up, the price of calls.
#include <dlfcn.h>

#include <cstring>
#include <unordered_map>

#include "api.h"
#include "state.h"

namespace sim {
namespace {

const Entry* FindEntry(const char* base, int version, bool per_thread, bool* known) {
  const Entry* best = nullptr;
  *known = false;
  for (const Entry& entry : Entries()) {
    if (strcmp(entry.base, base) != 0) continue;
    *known = true;
    if (entry.since > version) continue;
    if (entry.mode == StreamMode::kPerThread && !per_thread) continue;
    const bool younger = best == nullptr || entry.since > best->since;
    // The variant for per-thread streams of an ABI wins over that ABI's legacy one, but an old
    // ABI never wins over a young one.
    const bool preferred = best != nullptr && per_thread && best->mode == StreamMode::kLegacy &&
                           entry.mode == StreamMode::kPerThread && entry.since >= best->since;
    if (younger || preferred) best = &entry;
  }
  return best;
}

CUresult Look(const char* symbol, void** pfn, int version, cuuint64_t flags,
              CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || pfn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const cuuint64_t both =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  *pfn = nullptr;
  if ((flags & ~both) != 0 || (flags & both) == both) return CUDA_ERROR_INVALID_VALUE;
  bool known = false;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const Entry* entry = FindEntry(symbol, version, per_thread, &known);
  if (status != nullptr) {
    *status = entry != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : known          ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                               : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  if (entry == nullptr) return CUDA_ERROR_NOT_FOUND;
  *pfn = entry->address;
  return CUDA_SUCCESS;
}

struct ErrorText {
  CUresult code;
  const char* name;
  const char* text;
};
#define SIM_ERROR(name, text) \
  { CUDA_##name, "CUDA_" #name, text }
constexpr ErrorText kErrors[] = {
    SIM_ERROR(SUCCESS, "no error"),
    SIM_ERROR(ERROR_INVALID_VALUE, "invalid argument"),
    SIM_ERROR(ERROR_OUT_OF_MEMORY, "out of memory"),
    SIM_ERROR(ERROR_NOT_INITIALIZED, "initialization error"),
    SIM_ERROR(ERROR_DEINITIALIZED, "driver shutting down"),
    SIM_ERROR(ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    SIM_ERROR(ERROR_INVALID_DEVICE, "invalid device ordinal"),
    SIM_ERROR(ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    SIM_ERROR(ERROR_INVALID_CONTEXT, "invalid device context"),
    SIM_ERROR(ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
    SIM_ERROR(ERROR_FILE_NOT_FOUND, "file not found"),
    SIM_ERROR(ERROR_INVALID_HANDLE, "invalid resource handle"),
    SIM_ERROR(ERROR_NOT_FOUND, "named symbol not found"),
    SIM_ERROR(ERROR_NOT_READY, "device not ready"),
    SIM_ERROR(ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    SIM_ERROR(ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    SIM_ERROR(ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    SIM_ERROR(ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process"),
    SIM_ERROR(ERROR_HOST_MEMORY_ALREADY_REGISTERED, "memory is already registered"),
    SIM_ERROR(ERROR_HOST_MEMORY_NOT_REGISTERED, "memory is not registered"),
    SIM_ERROR(ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    SIM_ERROR(ERROR_NOT_PERMITTED, "operation not permitted"),
    SIM_ERROR(ERROR_NOT_SUPPORTED, "operation not supported"),
    SIM_ERROR(ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    SIM_ERROR(ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to an earlier capture error"),
    SIM_ERROR(ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    SIM_ERROR(ERROR_UNKNOWN, "unknown error"),
};

const ErrorText* FindError(CUresult error) {
  for (const ErrorText& entry : kErrors) {
    if (entry.code == error) return &entry;
  }
  return nullptr;
}

}  // namespace

CUresult Init(unsigned int flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (S().devices.empty()) return CUDA_ERROR_NO_DEVICE;
  // The way of real drivers, some of whose parts look functions of the others up. Whoever hooks
  // dlsym is asked while this driver's lock is held.
  if (void* self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)) {
    for (const char* name : {"cuMemAlloc_v2", "cuGetProcAddress_v2", "cuDeviceGetName"})
      if (dlsym(self, name) == nullptr) return CUDA_ERROR_NOT_FOUND;
    dlclose(self);
  }
  S().initialized = true;
  return CUDA_SUCCESS;
}

CUresult DriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

CUresult GetErrorName(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* entry = FindError(error);
  *text = entry == nullptr ? nullptr : entry->name;
  return entry == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult GetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* entry = FindError(error);
  *text = entry == nullptr ? nullptr : entry->text;
  return entry == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult GetProcAddress(const char* symbol, void** pfn, int version, cuuint64_t flags) {
  return Look(symbol, pfn, version, flags, nullptr);
}

CUresult GetProcAddress2(const char* symbol, void** pfn, int version, cuuint64_t flags,
                         CUdriverProcAddressQueryResult* status) {
  return Look(symbol, pfn, version, flags, status);
}

CUresult GetExportTable(const void** table, const CUuuid*) {
  if (table == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

Ns CallCost(const char* base) {
  // Microseconds; VMM and allocation figures from the middle of what was measured. Never destroyed:
  // threads may be in here while the process ends.
  static const auto& costs = *new std::unordered_map<std::string, double>{
      {"cuLaunchKernel", 4},
      {"cuLaunchKernelEx", 4},
      {"cuLaunchCooperativeKernel", 4},
      {"cuGraphLaunch", 8},
      {"cuMemAlloc", 70},
      {"cuMemAllocPitch", 70},
      {"cuMemFree", 70},
      {"cuMemAllocManaged", 30},
      {"cuMemAllocAsync", 0.35},
      {"cuMemAllocFromPoolAsync", 0.35},
      {"cuMemFreeAsync", 0.35},
      {"cuMemCreate", 40},
      {"cuMemMap", 4},
      {"cuMemSetAccess", 60},
      {"cuMemUnmap", 30},
      {"cuMemRelease", 40},
      {"cuMemAddressReserve", 2},
      {"cuMemAddressFree", 2},
      {"cuMemcpyAsync", 2.5},
      {"cuMemcpyHtoDAsync", 2.5},
      {"cuMemcpyDtoHAsync", 2.5},
      {"cuMemcpyDtoDAsync", 2.5},
      {"cuMemcpyHtoD", 2.5},
      {"cuMemcpyDtoH", 2.5},
      {"cuMemcpy", 2.5},
      {"cuMemcpyDtoD", 2.5},
      {"cuMemcpy2D", 2.5},
      {"cuMemcpy2DAsync", 2.5},
      {"cuMemAdvise", 10},
      {"cuMemPrefetchAsync", 10},
      {"cuStreamSynchronize", 1},
      {"cuEventSynchronize", 1},
      {"cuEventRecord", 0.7},
      {"cuStreamWaitEvent", 0.7},
      {"cuStreamWaitValue64", 1},
      {"cuStreamWriteValue64", 1},
      {"cuStreamCreate", 10},
      {"cuStreamCreateWithPriority", 10},
      {"cuLaunchHostFunc", 3},
      {"cuModuleLoadData", 300},
  };
  auto cost = costs.find(base);
  return cost == costs.end() ? Microseconds(0.2) : Microseconds(cost->second);
}

}  // namespace sim
