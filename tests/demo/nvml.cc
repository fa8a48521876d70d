#include "nvml.h"

#include <dlfcn.h>

#include <stdexcept>

namespace demo {
namespace {

struct MemoryInfo {  // nvmlMemory_t
  unsigned long long total, free, used;
};

template <typename Function>
Function Find(void* library, const char* name) {
  void* function = dlsym(library, name);
  if (function == nullptr) throw std::runtime_error(std::string("NVML has no ") + name);
  return reinterpret_cast<Function>(function);
}

}  // namespace

DeviceMemory::DeviceMemory(unsigned device) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) throw std::runtime_error(std::string("no NVML: ") + dlerror());
  auto init = Find<int (*)()>(library, "nvmlInit_v2");
  auto by_index = Find<int (*)(unsigned, void**)>(library, "nvmlDeviceGetHandleByIndex_v2");
  memory_info_ = Find<int (*)(void*, void*)>(library, "nvmlDeviceGetMemoryInfo");
  if (init() != 0 || by_index(device, &handle_) != 0) {
    throw std::runtime_error("NVML does not know device " + std::to_string(device));
  }
}

uint64_t DeviceMemory::Used() const {
  MemoryInfo info = {};
  if (memory_info_(handle_, &info) != 0) throw std::runtime_error("NVML gives no memory figures");
  return info.used;
}

}  // namespace demo
