// Runs python_frames.py with every CPython that can be found here: the frames that are captured
// must be those that the interpreter reports, and the sites the same in every run.
#include <glob.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "tests/preload/run_process.h"

namespace {

constexpr int kNoCtypes = 77;  // see python_frames.py

std::string Setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// The real files of all pythons of this minor version: on PATH, pyenv's and the system's.
std::set<std::string> Interpreters(int minor) {
  const std::string name = "python3." + std::to_string(minor);
  std::vector<std::string> patterns = {
      "/usr/bin/" + name,
      Setting("HOME") + "/.pyenv/versions/3." + std::to_string(minor) + ".*/bin/" + name};
  const std::string path = Setting("PATH");
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    // A pyenv shim is a script that may refuse to run.
    const std::string folder = path.substr(begin, end - begin);
    if (folder.find("shims") == std::string::npos) patterns.push_back(folder + "/" + name);
    begin = end + 1;
  }
  std::set<std::string> found;
  for (const std::string& pattern : patterns) {
    glob_t matches{};
    if (glob(pattern.c_str(), 0, nullptr, &matches) == 0) {
      for (size_t i = 0; i < matches.gl_pathc; ++i) {
        char resolved[4096];
        if (realpath(matches.gl_pathv[i], resolved) != nullptr && access(resolved, X_OK) == 0) {
          found.insert(resolved);
        }
      }
    }
    globfree(&matches);
  }
  return found;
}

class PythonFrames : public testing::TestWithParam<int> {};

TEST_P(PythonFrames, AreThoseThatTheInterpreterReportsAndTheSameInEveryRun) {
  const std::set<std::string> interpreters = Interpreters(GetParam());
  if (interpreters.empty()) GTEST_SKIP() << "no python3." << GetParam() << " on this machine";
  for (const std::string& interpreter : interpreters) {
    SCOPED_TRACE(interpreter);
    const std::vector<std::string> command = {interpreter, Setting("PYTHON_FRAMES_SCRIPT"),
                                              Setting("PYTHON_FRAMES_PROBE")};
    const ebt::test::Variables variables = {{"PYTHONHASHSEED", "random"}};
    const ebt::test::Outcome first = ebt::test::RunProcess(command, variables);
    if (first.code == kNoCtypes) GTEST_SKIP() << interpreter << " has no ctypes";
    EXPECT_EQ(first.code, 0) << first;
    EXPECT_EQ(first.err, "");
    EXPECT_EQ(ebt::test::RunProcess(command, variables).out, first.out);
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, PythonFrames, testing::Range(9, 14),
                         [](const auto& info) { return "Python3_" + std::to_string(info.param); });

}  // namespace
