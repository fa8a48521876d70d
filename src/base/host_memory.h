// Free host memory as the kernel tells it below a given root, so that a test can bring its own
// /proc and /sys. AvailableHostMemory() of config.h is this with the real root.
#ifndef EBBTIDE_SRC_BASE_HOST_MEMORY_H_
#define EBBTIDE_SRC_BASE_HOST_MEMORY_H_

#include <cstdint>
#include <string>

namespace ebt {

// Bytes that can still be used: the least of MemAvailable in <root>/proc/meminfo and what each
// cgroup (v2, v1) from the process's own up to <root>/sys/fs/cgroup leaves. 0: unknown; 1: known
// to be nothing.
uint64_t AvailableHostMemoryBelow(const std::string& root);

}  // namespace ebt

#endif  // EBBTIDE_SRC_BASE_HOST_MEMORY_H_
