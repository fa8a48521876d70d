#include "src/cli/program.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "src/base/config.h"

namespace ebt::cli {
namespace {

namespace fs = std::filesystem;

// Programs and modules that start the real one as a child, or become it by exec.
constexpr std::string_view kLaunchers[] = {"accelerate",
                                           "bash",
                                           "busybox",
                                           "catchsegv",
                                           "chrt",
                                           "conda",
                                           "dash",
                                           "deepspeed",
                                           "docker",
                                           "env",
                                           "fish",
                                           "gdb",
                                           "ionice",
                                           "ksh",
                                           "make",
                                           "mpiexec",
                                           "mpirun",
                                           "nice",
                                           "nohup",
                                           "nsys",
                                           "numactl",
                                           "orterun",
                                           "perf",
                                           "pixi",
                                           "poetry",
                                           "prun",
                                           "ray",
                                           "setsid",
                                           "sh",
                                           "srun",
                                           "stdbuf",
                                           "strace",
                                           "systemd-run",
                                           "taskset",
                                           "time",
                                           "timeout",
                                           "torchrun",
                                           "uv",
                                           "xargs",
                                           "zsh",
                                           "torch.distributed.run",
                                           "torch.distributed.launch",
                                           "accelerate.commands.launch",
                                           "pytest",
                                           "ncu"};

// As the kernel's own limit on nested interpreters.
constexpr int kMaxInterpreters = 4;

bool IsLauncher(std::string_view name) {
  return std::find(std::begin(kLaunchers), std::end(kLaunchers), name) != std::end(kLaunchers);
}

std::string FindInPath(const std::string& program) {
  if (absl::StrContains(program, "/")) return program;
  const char* path = getenv("PATH");
  for (absl::string_view folder : absl::StrSplit(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    std::string candidate =
        (folder.empty() ? std::string(".") : std::string(folder)) + "/" + program;
    if (access(candidate.c_str(), X_OK) == 0 && !fs::is_directory(candidate)) return candidate;
  }
  return "";
}

// The words of a "#!" line, or nothing.
std::vector<std::string> InterpreterOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char mark[2];
  if (!file.read(mark, 2) || mark[0] != '#' || mark[1] != '!') return {};
  std::string line;
  std::getline(file, line);
  std::vector<std::string> words =
      absl::StrSplit(line, absl::MaxSplits(absl::ByAnyChar(" \t"), 1), absl::SkipWhitespace());
  // "#!/usr/bin/env python3" is python3 by the time that anything runs.
  if (words.size() == 2 && fs::path(words[0]).filename() == "env" && words[1][0] != '-') {
    words = {words[1]};
  }
  return words;
}

}  // namespace

std::string IdentityOfCommand(const std::vector<std::string>& command) {
  std::vector<std::string> argv = command;
  for (int depth = 0; depth <= kMaxInterpreters; ++depth) {
    if (argv.empty() || IsLauncher(fs::path(argv[0]).filename().string())) return "";
    const std::string path = FindInPath(argv[0]);
    std::error_code error;
    const std::string executable = fs::canonical(path, error).string();
    if (path.empty() || error) return "";
    std::vector<std::string> interpreter = InterpreterOf(executable);
    if (interpreter.empty()) {
      const std::string identity = ProgramIdentityOf(executable, argv);
      const std::string subject = identity.substr(std::min(identity.find(':'), identity.size()));
      return subject.size() > 1 && IsLauncher(subject.substr(1)) ? "" : identity;
    }
    argv[0] = path;
    argv.insert(argv.begin(), interpreter.begin(), interpreter.end());
  }
  return "";
}

}  // namespace ebt::cli
