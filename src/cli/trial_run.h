// One run of CMD with some sites on trial.
#ifndef EBBTIDE_SRC_CLI_TRIAL_RUN_H_
#define EBBTIDE_SRC_CLI_TRIAL_RUN_H_

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/cli/bisect.h"
#include "src/cli/child.h"

namespace ebt::cli {

// A folder of its own for the files of trial runs; gone with the object.
class TrialFolder {
 public:
  static absl::StatusOr<TrialFolder> Make();
  ~TrialFolder();
  TrialFolder(TrialFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TrialFolder& operator=(TrialFolder&&) = delete;

  std::string Outcome() const { return path_ + "/outcome"; }
  std::string Stderr() const { return path_ + "/stderr"; }

 private:
  explicit TrialFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

struct TrialJob {
  std::vector<std::string> command;
  Environment environment;  // all but what names the trial
  uint64_t steps = 3;       // to watch
  std::chrono::seconds timeout{600};
};

// What the last run printed and where it ran.
struct TrialContext {
  std::string gpu;
  int driver_version = 0;
  std::string stderr_tail;  // the last lines
};

// From now on SIGINT, SIGTERM and SIGHUP end a trial run instead of this process.
void CatchInterrupts();
// The signal that came, 0: none.
int InterruptedBy();

// Runs the job in a process group of its own, its stdout dropped and its stderr kept, until
// job.steps steps have been watched, it fails, it ends or the time is up; what still runs then is
// ended (SIGTERM, after five seconds SIGKILL). An error: it could not be started, nothing of it
// kept to the plan, the driver refused what a trial needs, the time was up before anything was
// watched, or a signal came.
absl::StatusOr<TrialResult> RunTrial(const TrialJob& job, const TrialFolder& folder,
                                     const std::vector<uint64_t>& sites, TrialContext* context);

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_TRIAL_RUN_H_
