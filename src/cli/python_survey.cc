#include "src/cli/python_survey.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "absl/strings/str_split.h"

namespace ebt::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(5);

// Prints the interpreter's path, then "name version" for each framework that is installed.
constexpr const char* kScript = R"(
import importlib.metadata as metadata, sys
print(sys.executable)
wanted = ('torch', 'jax', 'jaxlib', 'cupy', 'tensorflow', 'triton')
for package in metadata.distributions():
    name = (package.metadata['Name'] or '').lower()
    if name in wanted or name.startswith('cupy-cuda'):
        print(name, package.version)
)";

[[noreturn]] void ExecPython(int out) {
  const int null = open("/dev/null", O_RDWR);
  dup2(null, STDIN_FILENO);
  dup2(null, STDERR_FILENO);
  dup2(out, STDOUT_FILENO);
  unsetenv("LD_PRELOAD");
  execlp("python3", "python3", "-c", kScript, nullptr);
  _exit(127);
}

// Everything up to the end of the pipe, or nothing if that takes too long.
std::string ReadAll(int pipe) {
  const auto deadline = Clock::now() + kPatience;
  std::string text;
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd ready = {.fd = pipe, .events = POLLIN, .revents = 0};
    if (left <= 0 || poll(&ready, 1, static_cast<int>(left)) <= 0) return "";
    char part[4096];
    const ssize_t got = read(pipe, part, sizeof(part));
    if (got <= 0) return got == 0 ? text : "";
    text.append(part, static_cast<size_t>(got));
  }
}

std::string AskPython() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  const pid_t child = fork();
  if (child == 0) ExecPython(ends[1]);
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return "";
  }
  std::string text = ReadAll(ends[0]);
  close(ends[0]);
  if (text.empty()) kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return text;
}

}  // namespace

PythonSurvey SurveyPython() {
  PythonSurvey survey;
  for (absl::string_view line : absl::StrSplit(AskPython(), '\n', absl::SkipEmpty())) {
    if (survey.executable.empty()) {
      survey.executable = std::string(line);
      continue;
    }
    const std::pair<std::string, std::string> entry = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    survey.packages.push_back({entry.first, entry.second});
  }
  return survey;
}

}  // namespace ebt::cli
