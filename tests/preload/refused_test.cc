// What a recorded process leaves when the driver refuses it memory, and what it answers when it is
// asked. The simulated device has 512 MiB, of which its context takes some.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "src/base/config.h"
#include "src/base/units.h"
#include "src/plan/plan_file.h"
#include "src/profile/reader.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr uint64_t kPiece = 64 * kMiB;

class Refused : public testing::Test {
 protected:
  void SetUp() override { folder_ = FreshFolder(); }

  Variables Native() const {
    return {{"LD_LIBRARY_PATH", Product("tests/simcuda")}, {"SIMCUDA_MEMORY", "512MiB"}};
  }
  Variables Recorded(const Variables& more = {}) const {
    Variables variables = Native();
    variables["LD_PRELOAD"] = Product("libebbtide.so");
    variables["EBBTIDE_MODE"] = "record";
    variables["EBBTIDE_PROFILE"] = folder_ + "/job.ebp";
    for (const auto& [name, value] : more) variables[name] = value;
    return variables;
  }
  static std::vector<std::string> Argv(const std::string& action, const std::string& file = "") {
    return {Product("tests/preload/refused_program"), action, file};
  }
  Outcome Run(const std::string& action, const std::string& file = "",
              const Variables& more = {}) const {
    return RunProcess(Argv(action, file), Recorded(more), folder_);
  }
  Outcome Report(std::vector<std::string> words) const {
    words.insert(words.begin(), {Product("ebbtide"), "report"});
    return RunProcess(words, {}, folder_);
  }

  // Names of the files that tell what filled the memory.
  std::vector<std::string> Files(const std::string& part = ".json") const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      if (name.find(part) != name.npos) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  json Read(const std::string& name) const {
    return json::parse(std::ifstream(folder_ + "/" + name), nullptr, false);
  }
  void Put(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
  }

  std::string folder_;
};

int Lines(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

// The process numbers that a program says it is ready by, as many as are asked for.
std::vector<pid_t> AwaitReady(const Process& process, size_t count) {
  std::string text;
  std::vector<pid_t> pids;
  while (pids.size() < count) {
    char c = 0;
    if (read(process.out, &c, 1) != 1) break;
    text += c;
    if (c != '\n') continue;
    if (text.rfind("ready ", 0) == 0) pids.push_back(std::stoi(text.substr(6)));
    text.clear();
  }
  EXPECT_EQ(pids.size(), count);
  return pids;
}

uint64_t SumOfSites(const json& sites) {
  uint64_t sum = sites["other_bytes"].get<uint64_t>();
  for (const json& site : sites["largest"]) sum += site["bytes"].get<uint64_t>();
  return sum;
}

TEST_F(Refused, AllocationLeavesAFileAndOneLineAndTheDriversAnswer) {
  const Outcome native = RunProcess(Argv("fill"), Native(), folder_);
  const Outcome outcome = Run("fill");
  EXPECT_EQ(outcome.code, native.code);
  EXPECT_EQ(outcome.out, native.out);
  EXPECT_EQ(Lines(outcome.err), 1) << outcome.err;
  EXPECT_THAT(outcome.err, StartsWith("ebbtide: refused_program asked for 64.00 MiB and the driver "
                                      "had no more: "));
  EXPECT_THAT(outcome.err, HasSubstr(folder_ + "/job.oom-1.json says what filled the memory\n"));
  ASSERT_EQ(Files(), std::vector<std::string>{"job.oom-1.json"});

  const int pieces = std::stoi(native.out);
  const json file = Read("job.oom-1.json");
  EXPECT_EQ(file["refused"]["bytes"], kPiece);
  EXPECT_EQ(file["refused"]["kind"], "plain");
  EXPECT_EQ(file["refused"]["count"], 1);
  EXPECT_EQ(file["live_bytes"], pieces * kPiece);
  EXPECT_EQ(file["live_blocks"], pieces);
  EXPECT_EQ(file["total_bytes"], 512 * kMiB);
  EXPECT_LT(file["free_bytes"], kPiece);
  EXPECT_EQ(SumOfSites(file["sites"]), pieces * kPiece);
  EXPECT_EQ(file["sites"]["largest"][0]["site"], file["refused"]["site"]);
  EXPECT_TRUE(file["frames"].contains(file["refused"]["site"].get<std::string>()));
  EXPECT_FALSE(file["advice"].empty());
}

TEST_F(Refused, AllocationOfAProgramThatAbortsAtOnceHasLeftItsFile) {
  const Outcome outcome = Run("abort");
  EXPECT_EQ(outcome.code, 128 + SIGABRT);
  EXPECT_EQ(Files(), std::vector<std::string>{"job.oom-1.json"});
  EXPECT_THAT(outcome.err, HasSubstr("job.oom-1.json says what filled the memory"));
}

TEST_F(Refused, StormLeavesTheFirstAndTheLast) {
  const Outcome native = RunProcess(Argv("storm"), Native(), folder_);
  const Outcome outcome = Run("storm");
  EXPECT_EQ(outcome.out, native.out);
  const std::vector<std::string> files = Files();
  EXPECT_GE(files.size(), 2u);
  EXPECT_LE(files.size(), 8u);
  EXPECT_EQ(Lines(outcome.err), static_cast<int>(files.size())) << outcome.err;
  EXPECT_EQ(Read("job.oom-1.json")["refused"]["count"], 1);
  EXPECT_EQ(Read(files.back())["refused"]["count"], 2000);
  // More than the device has at all: said as such, and nothing else is advised.
  EXPECT_THAT(outcome.err, HasSubstr("asked for 1.00 TiB of the device's 512.00 MiB at once"));
  EXPECT_EQ(Read("job.oom-1.json")["advice"].size(), 1u);
}

TEST_F(Refused, NothingLeavesNoFileAndSaysNothing) {
  const Outcome outcome = Run("quiet");
  EXPECT_EQ(outcome.code, 0) << outcome;
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(Files().empty());
}

TEST_F(Refused, FileIsReadByReport) {
  Run("fill");
  const Outcome report = Report({"job.oom-1.json"});
  EXPECT_EQ(report.code, 0) << report;
  EXPECT_EQ(report.err, "");
  EXPECT_THAT(report.out,
              AllOf(HasSubstr("Refused    64.00 MiB of plain memory"), HasSubstr("refused_program"),
                    HasSubstr("FillUp"), HasSubstr("Try        ")));
  size_t widest = 0, start = 0;
  for (size_t end = report.out.find('\n'); end != std::string::npos;
       start = end + 1, end = report.out.find('\n', start))
    widest = std::max(widest, end - start);
  EXPECT_LE(widest, 100u) << report.out;
  const Outcome whole = Report({"job.oom-1.json", "--json"});
  EXPECT_EQ(json::parse(whole.out, nullptr, false), Read("job.oom-1.json"));
}

TEST_F(Refused, DamagedFileIsOneLine) {
  Run("fill");
  const auto size = std::filesystem::file_size(folder_ + "/job.oom-1.json");
  std::filesystem::resize_file(folder_ + "/job.oom-1.json", size / 2);
  const Outcome cut = Report({"job.oom-1.json"});
  EXPECT_EQ(cut.code, 125);
  EXPECT_EQ(cut.out, "");
  EXPECT_EQ(cut.err, "ebbtide: job.oom-1.json: is cut off or damaged: no whole JSON\n");
  Put("later.json", "{\"ebbtide_snapshot\": 2}");
  const Outcome later = Report({"later.json"});
  EXPECT_EQ(later.code, 125);
  EXPECT_EQ(later.err,
            "ebbtide: later.json: is a snapshot of version 2, and this Ebbtide reads 1\n");
}

TEST_F(Refused, FileOfAnEarlierRunStays) {
  Put("job.oom-1.json", "mine");
  const Outcome outcome = Run("fill");
  EXPECT_THAT(outcome.err, HasSubstr("job.oom-2.json"));
  std::ifstream first(folder_ + "/job.oom-1.json");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(first), {}), "mine");
}

TEST_F(Refused, FolderThatCannotBeWrittenIsOneLineAndTheJobGoesOn) {
  const Outcome native = RunProcess(Argv("fill"), Native(), folder_);
  const Outcome outcome = Run("fill", "", {{"EBBTIDE_DUMP", folder_ + "/absent/"}});
  EXPECT_EQ(outcome.code, native.code);
  EXPECT_EQ(outcome.out, native.out);
  EXPECT_EQ(Lines(outcome.err), 1) << outcome.err;
  EXPECT_THAT(
      outcome.err,
      AllOf(HasSubstr("asked for 64.00 MiB and the driver had no more"),
            HasSubstr("absent/job.oom-1.json cannot be written (No such file or directory)"),
            HasSubstr("EBBTIDE_DUMP")));
  EXPECT_TRUE(Files().empty());
}

TEST_F(Refused, DumpNamesAFolderOrAStem) {
  std::filesystem::create_directory(folder_ + "/dumps");
  Run("fill", "", {{"EBBTIDE_DUMP", folder_ + "/dumps"}});
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/dumps/job.oom-1.json"));
  Run("fill", "", {{"EBBTIDE_DUMP", folder_ + "/dumps/rank{rank}"}});
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/dumps/rank0.oom-1.json"));
}

TEST_F(Refused, WhereTheUserWantsNoFileThereIsNone) {
  const Outcome outcome = Run("fill", "", {{"EBBTIDE_DUMP", "off"}});
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(Files().empty());
}

// 2 of 14 steps are recorded; the memory is followed to the end, by the program's own marks.
TEST_F(Refused, LastTenStepsAreToldAlsoBehindACompleteRecording) {
  const Outcome outcome = Run("steps", "14", {{"EBBTIDE_STEPS", "2"}});
  ASSERT_EQ(outcome.code, 0) << outcome;
  const auto profile = profile::ReadProfile(folder_ + "/job.ebp");
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_FALSE(profile->truncated);
  int steps = 0, launches = 0, failures = 0;
  for (const profile::Event& event : profile->events) {
    steps += event.kind == profile::EventKind::kStep;
    launches += event.kind == profile::EventKind::kLaunch;
    failures += event.kind == profile::EventKind::kFailed;
  }
  EXPECT_GE(steps, 3);
  EXPECT_LT(steps, 14) << "the recording did not end";
  EXPECT_EQ(launches % 5, 0);
  EXPECT_EQ(failures, 0) << "the profile grew behind its end";

  ASSERT_EQ(Files(), std::vector<std::string>{"job.oom-1.json"}) << outcome;
  const json file = Read("job.oom-1.json");
  const json& told = file["steps"];
  ASSERT_EQ(told.size(), 11u);  // ten whole ones and what came behind the last mark
  for (size_t i = 0; i < 10; ++i) {
    // Step i of the ten is the program's step 4 + i, which has kept 5 + i pieces of 1 MiB.
    EXPECT_EQ(told[i]["by"], "marks");
    EXPECT_EQ(told[i]["launches"], 5);
    EXPECT_EQ(told[i]["peak_bytes"], kPiece + (5 + i) * kMiB) << i;
    EXPECT_EQ(told[i]["peak_blocks"], 6 + i);
    EXPECT_EQ(SumOfSites(told[i]["sites"]), kPiece + (5 + i) * kMiB);
  }
  EXPECT_FALSE(told[10]["whole"].get<bool>());
  // All but the pieces of the last two steps have lived through one; the marks end the last.
  EXPECT_EQ(file["persistent_bytes"], 13 * kMiB);
}

// The plan has the first piece; the others are the driver's, until it has no more.
TEST_F(Refused, RunByPlanLeavesTheSameFileWithWhatIsPlanned) {
  const std::vector<std::string> argv = Argv("fill");
  plan::Plan plan;
  plan.program = ProgramIdentityOf(argv[0], argv);
  plan.warm_bytes = kPiece;
  plan.step_launches = 5;
  plan::Slot piece;
  piece.site = 1;
  piece.bytes = kPiece;
  plan.prologue = {piece};
  plan.sites = {{1, "model.py:3 forward"}};
  ASSERT_TRUE(plan::WritePlan(plan, folder_ + "/plan.json").ok());
  Variables variables = Recorded();
  variables["EBBTIDE_MODE"] = "replay";
  variables["EBBTIDE_PLAN"] = folder_ + "/plan.json";
  const Outcome native = RunProcess(argv, Native(), folder_);
  const Outcome outcome = RunProcess(argv, variables, folder_);
  EXPECT_EQ(outcome.code, native.code) << outcome;
  EXPECT_EQ(outcome.out, native.out);
  EXPECT_EQ(Lines(outcome.err), 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("plan.oom-1.json says what filled the memory"));
  ASSERT_EQ(Files("oom"), std::vector<std::string>{"plan.oom-1.json"});
  const json file = Read("plan.oom-1.json");
  EXPECT_EQ(file["process"]["mode"], "replay");
  EXPECT_EQ(file["refused"]["bytes"], kPiece);
  EXPECT_EQ(file["plan"]["planned_bytes"], kPiece);
  EXPECT_EQ(file["plan"]["device_reserved_bytes"], kPiece);
  EXPECT_EQ(file["live_bytes"], kPiece);
  EXPECT_EQ(file["sites"]["largest"][0]["site"], "0x1");
  const Outcome report = Report({"plan.oom-1.json"});
  EXPECT_THAT(report.out, AllOf(HasSubstr("Plan       64.00 MiB planned, 0 B beside it"),
                                HasSubstr("model.py:3 forward")));
}

TEST_F(Refused, ProcessIsAskedWhileItRuns) {
  const Process process = Start(Argv("serve", folder_ + "/end"), Recorded(), folder_);
  const std::vector<pid_t> pids = AwaitReady(process, 1);
  ASSERT_EQ(pids.size(), 1u);
  const Outcome table = Report({"--live", std::to_string(pids[0])});
  const Outcome whole = Report({"--live", std::to_string(pids[0]), "--json"});
  Put("end", "");
  const Outcome outcome = Finish(process);
  EXPECT_EQ(outcome.code, 0) << outcome;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(table.code, 0) << table;
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("Live       64.00 MiB in 1 blocks"), Not(HasSubstr("Refused"))));
  EXPECT_EQ(json::parse(whole.out, nullptr, false)["live_bytes"], kPiece);
  EXPECT_TRUE(Files().empty());
  const Outcome gone = Report({"--live", std::to_string(pids[0])});
  EXPECT_EQ(gone.code, 125);
  EXPECT_EQ(gone.err, "ebbtide: there is no process " + std::to_string(pids[0]) + "\n");
}

TEST_F(Refused, ForkedChildDoesNotAnswerForItsParent) {
  const Process process = Start(Argv("fork", folder_ + "/end"), Recorded(), folder_);
  const std::vector<pid_t> pids = AwaitReady(process, 2);
  ASSERT_EQ(pids.size(), 2u);
  const pid_t child = pids[0] == process.pid ? pids[1] : pids[0];
  const Outcome of_child = Report({"--live", std::to_string(child)});
  const Outcome of_parent = Report({"--live", std::to_string(process.pid)});
  Put("end", "");
  EXPECT_EQ(Finish(process).code, 0);
  EXPECT_EQ(of_child.code, 125);
  EXPECT_THAT(of_child.err, HasSubstr("does not answer: it is not recorded"));
  EXPECT_EQ(of_parent.code, 0) << of_parent;
}

TEST_F(Refused, SignalThatIsNamedWritesAFileAndTheProgramsOwnHandlerRunsToo) {
  const Process process = Start(Argv("handler", folder_ + "/end"),
                                Recorded({{"EBBTIDE_DUMP_SIGNAL", "USR2"}}), folder_);
  const std::vector<pid_t> pids = AwaitReady(process, 1);
  ASSERT_EQ(pids.size(), 1u);
  kill(pids[0], SIGUSR2);
  for (int i = 0; i < 500 && Files().empty(); ++i) std::this_thread::sleep_for(milliseconds(20));
  Put("end", "");
  const Outcome outcome = Finish(process);
  EXPECT_EQ(outcome.code, 0) << outcome;
  EXPECT_THAT(outcome.out, HasSubstr("own handler ran"));
  EXPECT_EQ(Lines(outcome.err), 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("job.live-1.json"));
  EXPECT_EQ(Read("job.live-1.json")["live_bytes"], kPiece);
  EXPECT_FALSE(Read("job.live-1.json").contains("refused"));
}

TEST_F(Refused, SignalThatMakesNoSenseIsOneLineAndKeepsItsMeaning) {
  const Process process =
      Start(Argv("serve", folder_ + "/end"), Recorded({{"EBBTIDE_DUMP_SIGNAL", "KILL"}}), folder_);
  const std::vector<pid_t> pids = AwaitReady(process, 1);
  ASSERT_EQ(pids.size(), 1u);
  kill(pids[0], SIGUSR1);  // not caught: ends the program
  const Outcome outcome = Finish(process);
  EXPECT_EQ(outcome.code, 128 + SIGUSR1);
  EXPECT_EQ(
      outcome.err,
      "ebbtide: EBBTIDE_DUMP_SIGNAL=KILL is not understood; accepted: USR1, USR2, URG, WINCH, "
      "RTMIN+0 to RTMIN+30; none is caught\n");
}

}  // namespace
}  // namespace ebt::test
