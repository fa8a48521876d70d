#include "src/driver/driver_api.h"

#include <array>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ebt {
namespace {

// Absent from older drivers; whoever calls them checks.
constexpr std::array<std::string_view, 7> kOptional = {"cuKernelGetParamInfo",
                                                       "cuFuncGetParamInfo",
                                                       "cuFuncGetName",
                                                       "cuKernelGetName",
                                                       "cuDevicePrimaryCtxGetState",
                                                       "cuDevicePrimaryCtxRetain",
                                                       "cuDevicePrimaryCtxRelease_v2"};

bool IsOptional(std::string_view name) {
  for (std::string_view optional : kOptional)
    if (name == optional) return true;
  return false;
}

}  // namespace

absl::StatusOr<DriverApi> LoadDriverApi(const std::function<void*(const char*)>& resolve) {
  DriverApi api;
#define EBT_LOAD(name, parameters)                                           \
  api.fn_##name = reinterpret_cast<decltype(api.fn_##name)>(resolve(#name)); \
  if (!api.fn_##name && !IsOptional(#name))                                  \
    return absl::UnavailableError(                                           \
        absl::StrCat("the CUDA driver lacks ", #name, ": Ebbtide needs CUDA 12 or later"));
  EBT_DRIVER_FUNCTIONS(EBT_LOAD)
#undef EBT_LOAD
  return api;
}

const char* ErrorName(const DriverApi& driver, CUresult result) {
  const char* name = nullptr;
  if (!driver.fn_cuGetErrorName || driver.fn_cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
    return "unknown CUDA error";
  return name;
}

}  // namespace ebt
