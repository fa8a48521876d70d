// A run log may be anything: whatever the bytes, reading it ends in a log whose table can be
// printed or in one error.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "src/report/run_log.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int fd = memfd_create("run_log", 0);
  static const std::string path = fmt::format("/proc/self/fd/{}", fd);
  if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != static_cast<ssize_t>(size)) abort();
  const auto log = ebt::report::ReadRunLog(path);
  if (!log.ok()) {
    if (log.status().message().empty()) abort();
    return 0;
  }
  const std::string table = ebt::report::RunTable(*log);
  if (table.empty() || table.back() != '\n') abort();
  return 0;
}
