#include "src/replay/run_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <iterator>

#include "fmt/format.h"
#include "src/base/json_text.h"
#include "src/base/log.h"

namespace ebt::replay {
namespace {

constexpr int kSchema = 1;
constexpr int64_t kIntervalNs = 10'000'000'000;
constexpr int kMostNames = 100;
constexpr int kOpenFlags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC;

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// "run.log" -> "run.4711.log", from the second attempt on "run.4711.2.log".
std::string WithNumbers(const std::string& path, int attempt) {
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  const size_t dot = path.rfind('.');
  const size_t suffix = dot == std::string::npos || dot <= name ? path.size() : dot;
  const std::string number = attempt == 1 ? "" : fmt::format(".{}", attempt);
  return fmt::format("{}.{}{}{}", path.substr(0, suffix), getpid(), number, path.substr(suffix));
}

// A file of our own, its name in *path. -1 with errno: none could be had.
int OpenBeside(std::string* path) {
  const std::string wanted = *path;
  for (int attempt = 1; attempt <= kMostNames; ++attempt) {
    const int fd = ::open(path->c_str(), kOpenFlags | O_EXCL, 0644);
    if (fd >= 0 || errno != EEXIST) return fd;
    struct stat status;
    if (::stat(path->c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
      // A pipe that nobody reads is an error and no reason to wait.
      return ::open(path->c_str(), kOpenFlags | O_NONBLOCK, 0644);
    }
    *path = WithNumbers(wanted, attempt);
  }
  errno = EEXIST;
  return -1;
}

}  // namespace

std::string RunLine(const RunInfo& info, pid_t pid, int64_t unix_time) {
  return fmt::format(
      "{{\"run\":{{\"schema\":{},\"ebbtide\":\"{}\",\"program\":{},\"plan\":{},\"gpu\":{},"
      "\"driver\":{},\"budget\":{},\"cold_swap\":{},\"cold_managed\":{},\"cold_off\":{},"
      "\"pid\":{},\"time\":{}}}}}\n",
      kSchema, EBBTIDE_VERSION, JsonText(info.program), JsonText(info.plan), JsonText(info.gpu),
      info.driver_version, info.budget, info.cold_swap, info.cold_managed, info.cold_off, pid,
      unix_time);
}

std::string SampleLine(std::string_view kind, double seconds, const RunSample& sample) {
  const tier::SwapCounters& swap = sample.swap;
  fmt::memory_buffer out;
  fmt::format_to(std::back_inserter(out), "{{\"{}\":{{\"t_s\":{:.3f}", kind, seconds);
  const std::pair<const char*, uint64_t> counts[] = {
      {"steps", sample.steps},
      {"device_bytes", sample.device_bytes},
      {"peak_device_bytes", sample.peak_device_bytes},
      {"peak_warm", sample.peak_warm},
      {"peak_cold_on_device", sample.peak_cold_on_device},
      {"peak_cold_on_host", sample.peak_cold_on_host},
      {"bytes_in", swap.bytes_in},
      {"bytes_out", swap.bytes_out},
      {"fetches", swap.fetches},
      {"hits", swap.hits},
      {"missed_room", swap.missed_room},
      {"missed_busy", swap.missed_busy},
      {"off_plan", swap.off_plan},
      {"waits_arrival", swap.waits_arrival},
      {"waits_departure", swap.waits_departure},
      {"waits_room", swap.waits_room},
      {"in_place_slabs", swap.in_place_slabs},
      {"swap_device_bytes", swap.device_bytes},
      {"swap_peak_device_bytes", swap.peak_device_bytes},
      {"managed_in", sample.managed_in},
      {"managed_out", sample.managed_out},
      {"planned", sample.planned},
      {"dynamic", sample.dynamic},
      {"native", sample.native}};
  for (const auto& [name, count] : counts) {
    fmt::format_to(std::back_inserter(out), ",\"{}\":{}", name, count);
  }
  const std::pair<const char*, double> times[] = {{"waits_arrival_ms", swap.waits_arrival_ms},
                                                  {"waits_departure_ms", swap.waits_departure_ms},
                                                  {"host_room_ms", swap.host_room_ms},
                                                  {"host_issue_ms", swap.host_issue_ms},
                                                  {"host_off_plan_ms", swap.host_off_plan_ms}};
  for (const auto& [name, ms] : times) {
    fmt::format_to(std::back_inserter(out), ",\"{}\":{:.3f}", name, ms);
  }
  fmt::format_to(std::back_inserter(out), "}}}}\n");
  return fmt::to_string(out);
}

RunLog::RunLog(int fd, std::string path)
    : fd_(fd),
      path_(std::move(path)),
      pid_(getpid()),
      started_ns_(NowNs()),
      next_ns_(started_ns_ + kIntervalNs) {}

RunLog::~RunLog() { ::close(fd_); }

std::unique_ptr<RunLog> RunLog::Open(const std::string& path, const RunInfo& info) noexcept {
  try {
    std::string name = path;
    const int fd = OpenBeside(&name);
    if (fd < 0) {
      Log(LogLevel::kWarning, "{}: the run log cannot be created: {}", path, strerror(errno));
      return nullptr;
    }
    if (name != path)
      Log(LogLevel::kWarning, "{} is there already; this process's run log is {}", path, name);
    std::unique_ptr<RunLog> log(new RunLog(fd, name));
    const std::string line = RunLine(info, log->pid_, std::time(nullptr));
    MutexLock lock(&log->mutex_);
    log->WriteLine(line);
    return log;
  } catch (...) {
    Log(LogLevel::kWarning, "{}: no memory for the run log", path);
    return nullptr;
  }
}

bool RunLog::Due() noexcept {
  const int64_t now = NowNs();
  int64_t next = next_ns_.load(std::memory_order_relaxed);
  return now >= next &&
         next_ns_.compare_exchange_strong(next, now + kIntervalNs, std::memory_order_relaxed);
}

void RunLog::Finish(const RunSample& sample) noexcept {
  Write("end", sample);
  MutexLock lock(&mutex_);
  ended_ = true;
}

void RunLog::Write(std::string_view kind, const RunSample& sample) noexcept {
  if (getpid() != pid_) return;
  try {
    const std::string line =
        SampleLine(kind, static_cast<double>(NowNs() - started_ns_) / 1e9, sample);
    MutexLock lock(&mutex_);
    WriteLine(line);
  } catch (...) {
    // Out of memory: this sample is missing.
  }
}

void RunLog::WriteLine(std::string_view line) noexcept {
  if (ended_) return;
  const ssize_t written = ::write(fd_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return;
  ended_ = true;
  Log(LogLevel::kWarning, "{}: the run log ends here: {}", path_,
      written < 0 ? strerror(errno) : "the disk is full");
}

}  // namespace ebt::replay
