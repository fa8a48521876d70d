#include "src/cli/trial_run.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "fmt/format.h"

namespace ebt::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLook = std::chrono::milliseconds(20);
constexpr auto kGrace = std::chrono::seconds(5);  // from SIGTERM to SIGKILL
constexpr size_t kTailBytes = 4096;
constexpr size_t kTailLines = 20;

std::atomic<int> g_interrupted{0};

void Note(int number) { g_interrupted = number; }

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Never returns. The pipe is closed by a successful exec, else carries errno.
[[noreturn]] void Exec(char** argv, char** environment, const char* error_path, int report,
                       pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);
  const int nothing = open("/dev/null", O_RDWR);
  const int errors = open(error_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  dup2(errors < 0 ? nothing : errors, STDERR_FILENO);
  execvpe(argv[0], argv, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(report, &error, sizeof(error));
  _exit(1);
}

// The process, leader of its group.
absl::StatusOr<pid_t> Start(const TrialJob& job, const TrialFolder& folder,
                            const Environment& environment) {
  std::vector<std::string> words = job.command, entries;
  for (const auto& [name, value] : environment) entries.push_back(name + "=" + value);
  const std::vector<char*> argv = Pointers(words), envp = Pointers(entries);
  const std::string error_path = folder.Stderr();
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0)
    return absl::UnavailableError(fmt::format("no pipe to CMD: {}", strerror(errno)));
  const pid_t self = getpid(), child = fork();
  if (child == 0)
    Exec(const_cast<char**>(argv.data()), const_cast<char**>(envp.data()), error_path.c_str(),
         report[1], self);
  int error = child < 0 ? errno : 0;
  close(report[1]);
  if (child > 0) {
    setpgid(child, child);
    ssize_t got;
    do {
      got = read(report[0], &error, sizeof(error));
    } while (got < 0 && errno == EINTR);
    if (got != sizeof(error)) error = 0;
  }
  close(report[0]);
  if (error == 0) return child;
  if (child > 0) waitpid(child, nullptr, 0);
  return absl::NotFoundError(
      fmt::format("{} cannot be started: {}", job.command[0], strerror(error)));
}

// The process's status once it has ended.
std::optional<int> Ended(pid_t child) {
  int status = 0;
  return waitpid(child, &status, WNOHANG) == child ? std::optional<int>(status) : std::nullopt;
}

void EndGroup(pid_t child) {
  kill(-child, SIGTERM);
  const auto patience = Clock::now() + kGrace;
  bool ended = false;
  while (!ended && Clock::now() < patience) {
    std::this_thread::sleep_for(kLook);
    ended = Ended(child).has_value();
  }
  kill(-child, SIGKILL);  // and whatever its leader left behind
  if (!ended) waitpid(child, nullptr, 0);
}

std::string Tail(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const std::streamoff size = file.tellg();
  const std::streamoff from = std::max<std::streamoff>(0, size - std::streamoff(kTailBytes));
  std::string text(static_cast<size_t>(size - from), '\0');
  file.seekg(from);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  size_t lines = 0, at = text.size();
  while (at > 0 && lines <= kTailLines) lines += text[--at] == '\n';
  return lines > kTailLines ? text.substr(at + 1) : text;
}

// Reads what has been added to the outcome.
class Follower {
 public:
  explicit Follower(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Follower() { close(fd_); }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  void Read(TrialWatch* watch) const {
    char part[4096];
    ssize_t got;
    while ((got = read(fd_, part, sizeof(part))) > 0) watch->Add({part, static_cast<size_t>(got)});
  }

 private:
  const int fd_;
};

enum class Stop { kWatched, kFault, kEnded, kTime, kSignal };

// Until there is a reason to stop. *status: of a process that ended.
Stop Follow(const TrialJob& job, pid_t child, const Follower& follower, TrialWatch* watch,
            int* status) {
  const auto deadline = Clock::now() + job.timeout;
  while (true) {
    const std::optional<int> ended = Ended(child);
    follower.Read(watch);
    if (ended) {
      *status = *ended;
      return Stop::kEnded;
    }
    if (watch->fault()) return Stop::kFault;
    if (watch->WatchedSteps() >= job.steps) return Stop::kWatched;
    if (g_interrupted != 0) return Stop::kSignal;
    if (Clock::now() >= deadline) return Stop::kTime;
    std::this_thread::sleep_for(kLook);
  }
}

std::string EndText(int status) {
  return WIFSIGNALED(status) ? fmt::format("ended by signal {}", WTERMSIG(status))
                             : fmt::format("exit code {}", WEXITSTATUS(status));
}

absl::StatusOr<TrialResult> Judge(const TrialJob& job, Stop stop, int status,
                                  const TrialWatch& watch) {
  TrialResult result;
  result.steps = watch.WatchedSteps();
  result.untouched = watch.Untouched();
  const bool enough = result.steps >= job.steps;
  if (stop == Stop::kSignal) return absl::CancelledError("interrupted");
  if (watch.fault() && watch.fault()->kind == "driver")
    return absl::UnavailableError(
        fmt::format("the driver refused what a trial needs: {}", watch.fault()->error));
  if (watch.fault()) {
    result.verdict = TrialResult::Verdict::kFailed;
    result.fault = *watch.fault();
  } else if (stop == Stop::kEnded && status != 0 && !enough) {
    result.verdict = TrialResult::Verdict::kFailed;
    result.fault = {"exit", "", EndText(status), {}};
  } else if (watch.gpu().empty()) {
    return absl::FailedPreconditionError(
        stop == Stop::kTime
            ? fmt::format(
                  "no process of CMD kept to the plan within {} seconds; raise --timeout if "
                  "CMD takes longer to begin",
                  job.timeout.count())
            : "no process of CMD kept to the plan: it allocated nothing on the device, or is not "
              "the program that was planned");
  } else if (result.steps == 0) {
    if (stop == Stop::kTime && result.untouched.empty())
      return absl::DeadlineExceededError(fmt::format(
          "no steady step was over within {} seconds; raise --timeout", job.timeout.count()));
    result.verdict = TrialResult::Verdict::kUnwatched;
  }
  return result;
}

}  // namespace

absl::StatusOr<TrialFolder> TrialFolder::Make() {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "ebbtide-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr)
    return absl::UnavailableError(
        fmt::format("no folder for the trial in {}: {}; TMPDIR names another",
                    std::filesystem::path(path).parent_path().string(),
                    error ? error.message() : strerror(errno)));
  return TrialFolder(path);
}

TrialFolder::~TrialFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = Note;
  sigemptyset(&action.sa_mask);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before;
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
}

int InterruptedBy() { return g_interrupted; }

absl::StatusOr<TrialResult> RunTrial(const TrialJob& job, const TrialFolder& folder,
                                     const std::vector<uint64_t>& sites, TrialContext* context) {
  if (!std::ofstream(folder.Outcome(), std::ios::trunc))
    return absl::UnavailableError(
        fmt::format("{}: cannot be created: {}", folder.Outcome(), strerror(errno)));
  Environment environment = job.environment;
  environment["EBBTIDE_TRIAL"] = folder.Outcome();
  std::string list;
  for (uint64_t site : sites) list += fmt::format("{}{:#x}", list.empty() ? "" : ",", site);
  environment["EBBTIDE_TRIAL_SITES"] = list;

  TrialWatch watch(sites);
  const Follower follower(folder.Outcome());
  const absl::StatusOr<pid_t> child = Start(job, folder, environment);
  if (!child.ok()) return child.status();
  int status = 0;
  const Stop stop = Follow(job, *child, follower, &watch, &status);
  if (stop != Stop::kEnded) EndGroup(*child);
  follower.Read(&watch);
  context->stderr_tail = Tail(folder.Stderr());
  if (!watch.gpu().empty()) {
    context->gpu = watch.gpu();
    context->driver_version = watch.driver_version();
  }
  return Judge(job, stop, status, watch);
}

}  // namespace ebt::cli
