// Runs python_frames.py with every CPython that can be found here: the frames that are captured
// must be those that the interpreter reports, and the sites the same in every run. A version that
// is not here is skipped.
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

constexpr int kUnsuited = 77;  // see python_frames_shot.py

std::string Setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// The real files of all pythons of this name ("3.9", "3.13t"): on PATH, pyenv's, the system's and
// what scripts/fetch_python brought.
std::set<std::string> Interpreters(const std::string& version) {
  const std::string name = "python" + version;
  const bool free_threaded = version.ends_with('t');
  const std::string minor = version.substr(0, version.size() - (free_threaded ? 1 : 0));
  std::vector<std::string> patterns = {
      "/usr/bin/" + name, Setting("PYTHON_FRAMES_FETCHED") + "/" + name + "/bin/" + name,
      Setting("HOME") + "/.pyenv/versions/" + minor + ".*/bin/" + name};
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

std::vector<std::string> Command(const std::string& interpreter, const char* script) {
  return {interpreter, Setting("PYTHON_FRAMES_SCRIPTS") + "/" + script,
          Setting("PYTHON_FRAMES_PROBE")};
}

std::string Name(const testing::TestParamInfo<std::string>& info) {
  std::string name = "Python" + info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

class PythonFrames : public testing::TestWithParam<std::string> {};

TEST_P(PythonFrames, AreThoseThatTheInterpreterReportsAndTheSameInEveryRun) {
  bool found = false;
  for (const std::string& interpreter : Interpreters(GetParam())) {
    SCOPED_TRACE(interpreter);
    const std::vector<std::string> command = Command(interpreter, "python_frames.py");
    const ebt::test::Variables variables = {{"PYTHONHASHSEED", "random"}};
    const ebt::test::Outcome first = ebt::test::RunProcess(command, variables);
    if (first.code == kUnsuited) continue;
    found = true;
    EXPECT_EQ(first.code, 0) << first;
    EXPECT_EQ(first.err, "");
    EXPECT_EQ(ebt::test::RunProcess(command, variables).out, first.out);
  }
  if (!found) GTEST_SKIP() << "no python" << GetParam() << " with a GIL and ctypes here";
}

INSTANTIATE_TEST_SUITE_P(Versions, PythonFrames,
                         testing::Values("3.9", "3.10", "3.11", "3.12", "3.13", "3.14"), Name);

class UnreadablePython : public testing::TestWithParam<std::string> {};

TEST_P(UnreadablePython, IsSaidInOneLineAndLeavesTheNativeFrames) {
  bool found = false;
  for (const std::string& interpreter : Interpreters(GetParam())) {
    SCOPED_TRACE(interpreter);
    const ebt::test::Outcome outcome =
        ebt::test::RunProcess(Command(interpreter, "python_frames_none.py"));
    if (outcome.code == kUnsuited) continue;
    found = true;
    EXPECT_EQ(outcome.code, 0) << outcome;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome;
    EXPECT_NE(outcome.err.find("call sites show no Python frames"), std::string::npos) << outcome;
  }
  if (!found) GTEST_SKIP() << "no python" << GetParam() << " with ctypes here";
}

// Without a GIL, and older and newer than those that can be read.
INSTANTIATE_TEST_SUITE_P(Versions, UnreadablePython,
                         testing::Values("3.13t", "3.14t", "3.8", "3.15"), Name);

}  // namespace
