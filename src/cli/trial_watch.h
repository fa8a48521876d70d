// What the outcome of a trial run (src/replay/trial_outcome.h) says so far.
#ifndef EBBTIDE_SRC_CLI_TRIAL_WATCH_H_
#define EBBTIDE_SRC_CLI_TRIAL_WATCH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ebt::cli {

struct TrialFault {
  std::string kind;    // "access", "captured", "driver"; "exit": the program ended badly
  std::string launch;  // what ran when it happened; may be empty
  std::string error;
  std::vector<uint64_t> sites;  // those to blame, where that is known
};

// Pure bookkeeping: the file's text comes in as it grows.
class TrialWatch {
 public:
  explicit TrialWatch(const std::vector<uint64_t>& sites) : sites_(sites.begin(), sites.end()) {}

  // The file's next bytes; a line may come in pieces. What is no line of an outcome is passed
  // over: it can only mean that less has been seen.
  void Add(std::string_view text);

  // Steps gone through since each site on trial had been named, by the process that has seen the
  // fewest of them.
  uint64_t WatchedSteps() const;
  // Sites on trial that no process has named.
  std::vector<uint64_t> Untouched() const;
  const std::optional<TrialFault>& fault() const { return fault_; }
  // Of the first process that kept to the plan; empty, 0: none did.
  const std::string& gpu() const { return gpu_; }
  int driver_version() const { return driver_version_; }

 private:
  struct Process {
    std::set<uint64_t> touched;
    uint64_t steps = 0;
    std::optional<uint64_t> base;  // steps when all sites had been touched
  };

  void TakeLine(std::string_view line);

  const std::set<uint64_t> sites_;
  std::string rest_;  // the beginning of a line
  std::map<int64_t, Process> processes_;
  std::optional<TrialFault> fault_;
  std::string gpu_;
  int driver_version_ = 0;
};

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_TRIAL_WATCH_H_
