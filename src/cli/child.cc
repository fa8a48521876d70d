#include "src/cli/child.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "src/base/log.h"
#include "src/cli/exit_codes.h"

namespace ebt::cli {
namespace {

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

std::atomic<pid_t> g_child{0};

// The terminal sends its signals to the whole foreground group, CMD included: passing those on
// would interrupt it twice.
void Forward(int number, siginfo_t* info, void*) {
  const bool from_terminal = info->si_code > 0;
  const pid_t child = g_child.load();
  const int saved_errno = errno;
  if (!from_terminal && child > 0) kill(child, number);
  errno = saved_errno;
}

sigset_t ForwardedSet() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : kForwarded) sigaddset(&set, number);
  return set;
}

void InstallForwarding() {
  struct sigaction action = {};
  action.sa_sigaction = Forward;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (int number : kForwarded) {
    struct sigaction before;
    sigaction(number, nullptr, &before);
    // nohup and background shells ignore some of them on purpose; CMD inherits that.
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Never returns. The pipe is closed by a successful exec, else carries errno.
[[noreturn]] void Exec(char** argv, char** environment, int report, const sigset_t* mask) {
  for (int number : kForwarded) {
    struct sigaction now;
    sigaction(number, nullptr, &now);
    if (now.sa_handler != SIG_IGN) signal(number, SIG_DFL);
  }
  sigprocmask(SIG_SETMASK, mask, nullptr);
  execvpe(argv[0], argv, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(report, &error, sizeof(error));
  _exit(kOwnFailure);
}

int WaitFor(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      Log(LogLevel::kError, "CMD's end cannot be awaited: {}", strerror(errno));
      return kOwnFailure;
    }
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int ExplainExecFailure(const std::string& program, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    Log(LogLevel::kError, "{}: not found; give a path, or a name that PATH leads to", program);
    return kNotFound;
  }
  Log(LogLevel::kError, "{}: cannot be executed: {}", program, strerror(error));
  return kNotExecutable;
}

}  // namespace

int RunCommand(const std::vector<std::string>& command, const Environment& environment) {
  std::vector<std::string> words = command;
  std::vector<std::string> entries;
  for (const auto& [name, value] : environment) entries.push_back(name + "=" + value);
  const std::vector<char*> argv = Pointers(words), envp = Pointers(entries);

  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    Log(LogLevel::kError, "no pipe to CMD: {}", strerror(errno));
    return kOwnFailure;
  }
  // Held back until the child's number is known: none may be lost in between.
  const sigset_t forwarded = ForwardedSet();
  sigset_t mask;
  sigprocmask(SIG_BLOCK, &forwarded, &mask);
  const pid_t child = fork();
  if (child == 0)
    Exec(const_cast<char**>(argv.data()), const_cast<char**>(envp.data()), report[1], &mask);
  const int fork_error = errno;
  g_child = child;
  if (child > 0) InstallForwarding();
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  close(report[1]);
  if (child < 0) {
    close(report[0]);
    Log(LogLevel::kError, "no process for CMD: {}", strerror(fork_error));
    return kOwnFailure;
  }

  int exec_error = 0;
  ssize_t got;
  do {
    got = read(report[0], &exec_error, sizeof(exec_error));
  } while (got < 0 && errno == EINTR);
  close(report[0]);
  const int code = WaitFor(child);
  g_child = 0;
  return got == sizeof(exec_error) ? ExplainExecFailure(words[0], exec_error) : code;
}

}  // namespace ebt::cli
