// Device memory in use as the machine sees it, whatever the driver's answers say.
#ifndef EBBTIDE_TESTS_DEMO_NVML_H_
#define EBBTIDE_TESTS_DEMO_NVML_H_

#include <cstdint>
#include <string>

namespace demo {

class DeviceMemory {
 public:
  // Throws std::runtime_error when NVML is not there or does not know the device.
  explicit DeviceMemory(unsigned device);
  // Bytes in use on the device, other processes' included.
  uint64_t Used() const;

 private:
  void* handle_ = nullptr;
  int (*memory_info_)(void*, void*) = nullptr;
};

}  // namespace demo

#endif  // EBBTIDE_TESTS_DEMO_NVML_H_
