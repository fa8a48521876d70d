// Run logs (profiles/RUNLOG.md): reading, and what they say for people.
#ifndef EBBTIDE_SRC_REPORT_RUN_LOG_H_
#define EBBTIDE_SRC_REPORT_RUN_LOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ebt::report {

struct RunLog {
  // The "run" line.
  std::string program, plan, gpu, ebbtide;
  int driver_version = 0;
  uint64_t budget = 0, cold_swap = 0, cold_managed = 0, cold_off = 0;
  int64_t pid = 0, time = 0;

  // The last sample: every number by its name. A name that an older log lacks reads as 0.
  std::map<std::string, double> last;
  uint64_t samples = 0;
  bool ended = false;        // the process came to its end and said so
  std::string last_as_json;  // {"run":{...},"sample":{...}} or with "end"

  // One line a problem: file, line number, what. The rest of the file has been read.
  std::vector<std::string> damage;

  double Number(const std::string& name) const;
};

// An error where the file cannot be read or is no run log; it says what else it looks like.
absl::StatusOr<RunLog> ReadRunLog(const std::string& path);

// At most 100 columns wide, no colours, ends with a newline.
std::string RunTable(const RunLog& log);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_RUN_LOG_H_
