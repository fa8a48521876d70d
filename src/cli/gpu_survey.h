// What the driver says about itself and its devices, for `ebbtide doctor`. Loads libcuda as a
// program would, asks, and creates no context: a look costs no device memory.
#ifndef EBBTIDE_SRC_CLI_GPU_SURVEY_H_
#define EBBTIDE_SRC_CLI_GPU_SURVEY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ebt::cli {

struct DeviceSurvey {
  int ordinal = 0;
  std::string name;
  uint64_t total_bytes = 0;
  // What the engines need; false where the device or the driver lacks it.
  bool virtual_memory = false;             // arenas, budget
  bool memory_pools = false;               // frameworks' stream-ordered allocators
  bool managed_memory = false;             // cold blocks
  bool concurrent_managed_access = false;  // cold blocks that the host may touch meanwhile
  bool pageable_access = false;
  bool host_numa_virtual_memory = false;
  int host_numa_id = -1;  // of the host memory next to the device; -1: unknown
};

// How many rows of hooks/cuda_hooks.def one family has, and how many of them this driver exports.
struct FamilyCoverage {
  std::string family;
  int hooked = 0;
  int in_driver = 0;
};

struct GpuSurvey {
  std::string driver_path;  // empty: no libcuda.so.1 could be loaded
  int driver_version = 0;   // 1000 * major + 10 * minor
  // Why there are no devices, in one line; empty: all is well.
  std::string problem;
  std::vector<DeviceSurvey> devices;
  std::vector<FamilyCoverage> coverage;
};

GpuSurvey SurveyGpus();

// Why a program started here would find no driver, in one line; empty: it finds one.
std::string WhyNoDriver();

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_GPU_SURVEY_H_
