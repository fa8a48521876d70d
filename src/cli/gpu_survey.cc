#include "src/cli/gpu_survey.h"

#include <cuda.h>
#include <dlfcn.h>
#include <link.h>

#include <cstring>

#include "fmt/format.h"
#include "src/driver/driver_api.h"

namespace ebt::cli {
namespace {

struct HookRow {
  const char* symbol;
  const char* family;
};
constexpr HookRow kHooks[] = {
#define EBT_HOOK(symbol, base, since, mode, family, body, service) {#symbol, #family},
#include "hooks/cuda_hooks.def"
#undef EBT_HOOK
};

std::string PathOf(void* library) {
  link_map* map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "libcuda.so.1";
}

std::vector<FamilyCoverage> Coverage(void* library) {
  std::vector<FamilyCoverage> families;
  for (const HookRow& row : kHooks) {
    if (families.empty() || families.back().family != row.family) {
      families.push_back({.family = row.family});
    }
    ++families.back().hooked;
    if (dlsym(library, row.symbol) != nullptr) ++families.back().in_driver;
  }
  return families;
}

int Attribute(const DriverApi& driver, CUdevice device, CUdevice_attribute attribute,
              int otherwise) {
  int value = 0;
  const CUresult result = driver.fn_cuDeviceGetAttribute(&value, attribute, device);
  return result == CUDA_SUCCESS ? value : otherwise;
}

DeviceSurvey SurveyDevice(const DriverApi& driver, int ordinal) {
  DeviceSurvey survey = {.ordinal = ordinal};
  CUdevice device = 0;
  if (driver.fn_cuDeviceGet(&device, ordinal) != CUDA_SUCCESS) return survey;
  char name[256] = "unknown";
  driver.fn_cuDeviceGetName(name, sizeof(name) - 1, device);
  survey.name = name;
  size_t total = 0;
  driver.fn_cuDeviceTotalMem_v2(&total, device);
  survey.total_bytes = total;
  const auto has = [&](CUdevice_attribute attribute) {
    return Attribute(driver, device, attribute, 0) != 0;
  };
  survey.virtual_memory = has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
  survey.memory_pools = has(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  survey.managed_memory = has(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
  survey.concurrent_managed_access = has(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
  survey.pageable_access = has(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  survey.host_numa_virtual_memory =
      has(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
  survey.host_numa_id = Attribute(driver, device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1);
  return survey;
}

// Never closed: a driver does not survive being unloaded.
void* Driver() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); }

}  // namespace

std::string WhyNoDriver() {
  return Driver() == nullptr ? fmt::format("no driver: {}", dlerror()) : "";
}

GpuSurvey SurveyGpus() {
  GpuSurvey survey;
  void* library = Driver();
  if (library == nullptr) {
    survey.problem = fmt::format("no driver: {}", dlerror());
    return survey;
  }
  survey.driver_path = PathOf(library);
  survey.coverage = Coverage(library);
  const auto driver = LoadDriverApi([library](const char* name) { return dlsym(library, name); });
  const auto init = reinterpret_cast<CUresult (*)(unsigned)>(dlsym(library, "cuInit"));
  if (!driver.ok() || init == nullptr) {
    survey.problem = driver.ok() ? survey.driver_path + ": has no cuInit, so it is no CUDA driver"
                                 : std::string(driver.status().message());
    return survey;
  }
  driver->fn_cuDriverGetVersion(&survey.driver_version);
  CUresult result = init(0);
  int count = 0;
  if (result == CUDA_SUCCESS) result = driver->fn_cuDeviceGetCount(&count);
  if (result != CUDA_SUCCESS) {
    survey.problem = fmt::format("the driver does not start: {}", ErrorName(*driver, result));
    return survey;
  }
  if (count == 0) survey.problem = "the driver sees no device";
  for (int i = 0; i < count; ++i) survey.devices.push_back(SurveyDevice(*driver, i));
  return survey;
}

}  // namespace ebt::cli
