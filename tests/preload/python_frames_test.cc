// Runs python_frames.py with every CPython that can be found here: the frames that are captured
// must be those that the interpreter reports, and the sites the same in every run, compiled or not.
// A version that is not here is skipped.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/preload/python_frames_interpreters.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

constexpr int kUnsuited = 77;  // see python_frames_shot.py

std::vector<std::string> Command(const std::string& interpreter, const char* script) {
  return {interpreter, Setting("PYTHON_FRAMES_SCRIPTS") + "/" + script,
          Setting("PYTHON_FRAMES_PROBE"), Setting("PYTHON_FRAMES_NATIVE")};
}

class PythonFrames : public testing::TestWithParam<std::string> {};

TEST_P(PythonFrames, AreThoseThatTheInterpreterReportsAndTheSameInEveryRun) {
  bool found = false;
  for (const std::string& interpreter : Interpreters(GetParam())) {
    SCOPED_TRACE(interpreter);
    const std::vector<std::string> command = Command(interpreter, "python_frames.py");
    const Variables variables = {{"PYTHONHASHSEED", "random"}};
    const Outcome first = RunProcess(command, variables);
    if (first.code == kUnsuited) continue;
    found = true;
    EXPECT_EQ(first.code, 0) << first;
    EXPECT_EQ(first.err, "");
    EXPECT_EQ(RunProcess(command, {{"PYTHON_JIT", "1"}}).out, first.out);
  }
  if (!found) GTEST_SKIP() << "no python" << GetParam() << " with a GIL and ctypes here";
}

TEST_P(PythonFrames, MayGoAwayUnderThreadsThatCapture) {
  constexpr int kRuns = 5;
  bool found = false;
  for (const std::string& interpreter : Interpreters(GetParam())) {
    SCOPED_TRACE(interpreter);
    for (int run = 0; run < kRuns; ++run) {
      const Outcome outcome = RunProcess(Command(interpreter, "python_frames_exit.py"));
      if (outcome.code == kUnsuited) break;
      found = true;
      EXPECT_EQ(outcome, (Outcome{0, "", ""}));
    }
  }
  if (!found) GTEST_SKIP() << "no python" << GetParam() << " with ctypes here";
}

// The numbers are what one looks at: a bound would have to hold on a busy machine, too.
TEST_P(PythonFrames, CostWhatIsPrinted) {
  bool found = false;
  for (const std::string& interpreter : Interpreters(GetParam())) {
    SCOPED_TRACE(interpreter);
    const Outcome outcome = RunProcess(Command(interpreter, "python_frames_cost.py"));
    if (outcome.code == kUnsuited) continue;
    found = true;
    EXPECT_EQ(outcome.code, 0) << outcome;
    std::fputs(outcome.out.c_str(), stdout);
  }
  if (!found) GTEST_SKIP() << "no python" << GetParam() << " with ctypes here";
}

INSTANTIATE_TEST_SUITE_P(Versions, PythonFrames, kReadablePythons, PythonName);

class UnreadablePython : public testing::TestWithParam<std::string> {};

TEST_P(UnreadablePython, IsSaidInOneLineAndLeavesTheNativeFrames) {
  bool found = false;
  for (const std::string& interpreter : Interpreters(GetParam())) {
    SCOPED_TRACE(interpreter);
    const Outcome outcome = RunProcess(Command(interpreter, "python_frames_none.py"));
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
                         testing::Values("3.13t", "3.14t", "3.8", "3.15"), PythonName);

}  // namespace
}  // namespace ebt::test
