// The run log (profiles/RUNLOG.md): what replay moved and waited for, as JSON lines while the
// program runs. Read by src/report/run_log.h.
#ifndef EBBTIDE_SRC_REPLAY_RUN_LOG_H_
#define EBBTIDE_SRC_REPLAY_RUN_LOG_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "src/base/mutex.h"
#include "src/tier/swap.h"

namespace ebt::replay {

// What does not change during a run. Sizes in bytes.
struct RunInfo {
  std::string program;  // ProgramIdentity
  std::string plan;     // the file
  std::string gpu;
  int driver_version = 0;
  uint64_t budget = 0;  // 0: none
  // The cold blocks by the engine that serves them; off: they stay on the device.
  uint64_t cold_swap = 0, cold_managed = 0, cold_off = 0;
};

// Since the start of the run, except for device_bytes.
struct RunSample {
  uint64_t steps = 0;         // steady steps gone through
  uint64_t device_bytes = 0;  // of ours on the device now
  uint64_t peak_device_bytes = 0;
  uint64_t peak_warm = 0, peak_cold_on_device = 0, peak_cold_on_host = 0;
  tier::SwapCounters swap;
  uint64_t managed_in = 0, managed_out = 0;       // bytes fetched and evicted by the managed engine
  uint64_t planned = 0, dynamic = 0, native = 0;  // allocations
};

// {"run":{...}}, {"sample":{...}}, {"end":{...}} with a newline.
std::string RunLine(const RunInfo& info, pid_t pid, int64_t unix_time);
std::string SampleLine(std::string_view kind, double seconds, const RunSample& sample);

// Thread-safe; never fails towards the caller and never throws: the first failure is one line on
// stderr, and nothing is written after it. Silent in a child after a fork.
class RunLog {
 public:
  // Creates `path` and writes what the run is. Where there is a file already, this process's
  // number goes before the suffix ("run.log" becomes "run.4711.log", then "run.4711.2.log"), and
  // one line says so. What is no regular file (a pipe, /dev/null) is opened as it is. Null: it
  // could not be opened, and one line said why.
  static std::unique_ptr<RunLog> Open(const std::string& path, const RunInfo& info) noexcept;
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  // True at most once in kInterval: a sample is due. Cheap.
  bool Due() noexcept;
  void Sample(const RunSample& sample) noexcept { Write("sample", sample); }
  // The last line: call it at the end of the process. Later calls do nothing.
  void Finish(const RunSample& sample) noexcept;

  const std::string& path() const { return path_; }

 private:
  RunLog(int fd, std::string path);

  void Write(std::string_view kind, const RunSample& sample) noexcept;
  void WriteLine(std::string_view line) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int fd_;
  const std::string path_;
  const pid_t pid_;
  const int64_t started_ns_;
  std::atomic<int64_t> next_ns_;
  Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ebt::replay

#endif  // EBBTIDE_SRC_REPLAY_RUN_LOG_H_
