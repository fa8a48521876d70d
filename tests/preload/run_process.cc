#include "tests/preload/run_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>

namespace ebt::test {
namespace {

void ApplyVariables(const Variables& variables) {
  for (const auto& [name, value] : variables) {
    if (value.empty()) {
      unsetenv(name.c_str());
    } else {
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
}

int ShellCode(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Both pipes to their ends, whichever fills first.
void Drain(std::array<int, 2> pipes, std::array<std::string*, 2> texts) {
  int open_pipes = 2;
  while (open_pipes > 0) {
    std::array<pollfd, 2> ready;
    for (size_t i = 0; i < 2; ++i) ready[i] = {.fd = pipes[i], .events = POLLIN, .revents = 0};
    if (poll(ready.data(), ready.size(), -1) < 0) break;
    for (size_t i = 0; i < 2; ++i) {
      if (ready[i].revents == 0) continue;
      char part[4096];
      const ssize_t got = read(pipes[i], part, sizeof(part));
      if (got > 0) {
        texts[i]->append(part, static_cast<size_t>(got));
      } else {
        close(pipes[i]);
        pipes[i] = -1;  // poll passes it over
        --open_pipes;
      }
    }
  }
}

}  // namespace

std::ostream& operator<<(std::ostream& stream, const Outcome& outcome) {
  return stream << "exit code " << outcome.code << "\nstdout: " << outcome.out
                << "\nstderr: " << outcome.err;
}

Process Start(const std::vector<std::string>& argv, const Variables& variables,
              const std::string& folder) {
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) return {};
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    if (!folder.empty() && chdir(folder.c_str()) != 0) _exit(99);
    ApplyVariables(variables);
    std::vector<char*> words;
    for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execvp(words[0], words.data());
    _exit(99);
  }
  close(out[1]);
  close(err[1]);
  return {pid, out[0], err[0]};
}

Outcome Finish(const Process& process) {
  Outcome outcome;
  Drain({process.out, process.err}, {&outcome.out, &outcome.err});
  int status = 0;
  waitpid(process.pid, &status, 0);
  outcome.code = ShellCode(status);
  return outcome;
}

Outcome RunProcess(const std::vector<std::string>& argv, const Variables& variables,
                   const std::string& folder) {
  return Finish(Start(argv, variables, folder));
}

double TimeProcess(const std::vector<std::string>& argv, const Variables& variables) {
  std::map<std::string, std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    merged[text.substr(0, text.find('='))] = text;
  }
  for (const auto& [name, value] : variables) merged[name] = name + "=" + value;
  std::vector<char*> environment, words;
  for (auto& [name, entry] : merged) environment.push_back(entry.data());
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  environment.push_back(nullptr);
  words.push_back(nullptr);

  const auto start = std::chrono::steady_clock::now();
  pid_t pid = 0;
  if (posix_spawn(&pid, words[0], nullptr, nullptr, words.data(), environment.data()) != 0) {
    return -1;
  }
  waitpid(pid, nullptr, 0);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

std::string Product(const std::string& name) {
  // Named unlike the variables of Ebbtide, about which the children would complain.
  const char* build = getenv("BUILD_FOLDER");
  return std::string(build == nullptr ? "build" : build) + "/" + name;
}

std::string FreshFolder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(test->test_suite_name()) + "." + test->name();
  std::string flat = testing::TempDir() + "ebbtide-" + name;
  for (size_t i = testing::TempDir().size(); i < flat.size(); ++i) {
    if (flat[i] == '/') flat[i] = '-';
  }
  std::filesystem::remove_all(flat);
  std::filesystem::create_directories(flat);
  return flat;
}

}  // namespace ebt::test
