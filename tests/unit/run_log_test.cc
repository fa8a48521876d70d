// Both ends of the run log: what src/replay writes, and what src/report makes of it.
#include "src/replay/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/report/run_log.h"

namespace ebt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class RunLogTest : public ::testing::Test {
 protected:
  RunLogTest() {
    folder_ = testing::TempDir() + "ebbtide-run-log-" + std::to_string(getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    path_ = folder_ + "/run.log";
  }
  ~RunLogTest() override { std::filesystem::remove_all(folder_); }

  static replay::RunInfo Info() {
    replay::RunInfo info;
    info.program = "trainer[09fe]";
    info.plan = "/jobs/a \"b\".plan.json";
    info.gpu = "NVIDIA H200";
    info.driver_version = 13000;
    info.budget = 3ull << 30;
    info.cold_swap = 2 << 20;
    return info;
  }
  // Four steps; 8 MB in, 4 MB out; 7 planned fetches were begun and 3 given up.
  static replay::RunSample Sample() {
    replay::RunSample sample;
    sample.steps = 4;
    sample.device_bytes = 1 << 20;
    sample.peak_warm = 3 << 20;
    sample.swap.bytes_in = 8'000'000;
    sample.swap.bytes_out = 4'000'000;
    sample.swap.fetches = 7;
    sample.swap.hits = 6;
    sample.swap.missed_room = 2;
    sample.swap.missed_busy = 1;
    sample.swap.off_plan = 5;
    sample.swap.waits_departure = 9;
    sample.swap.waits_departure_ms = 6;
    sample.swap.waits_room = 2;
    sample.swap.host_room_ms = 1.5;
    sample.planned = 40;
    sample.native = 3;
    return sample;
  }
  void Write(const std::string& text) { std::ofstream(path_, std::ios::trunc) << text; }
  std::string Text(const std::string& path) const {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  std::string folder_, path_;
};

TEST_F(RunLogTest, WhatIsWrittenIsReadBack) {
  {
    auto log = replay::RunLog::Open(path_, Info());
    ASSERT_NE(log, nullptr);
    log->Sample(replay::RunSample{});
    log->Finish(Sample());
  }
  const auto read = report::ReadRunLog(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->damage, IsEmpty());
  EXPECT_EQ(read->plan, "/jobs/a \"b\".plan.json");
  EXPECT_EQ(read->gpu, "NVIDIA H200");
  EXPECT_EQ(read->pid, getpid());
  EXPECT_EQ(read->samples, 2u);
  EXPECT_TRUE(read->ended);
  EXPECT_EQ(read->Number("steps"), 4);
  EXPECT_EQ(read->Number("bytes_in"), 8e6);
  EXPECT_EQ(read->Number("host_room_ms"), 1.5);
  EXPECT_EQ(read->Number("native"), 3);
}

TEST_F(RunLogTest, EveryNameOfTheTableIsWritten) {
  Write(replay::RunLine(Info(), 1, 0) + replay::SampleLine("end", 1, Sample()));
  const auto read = report::ReadRunLog(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  for (const char* name : {"t_s",
                           "steps",
                           "device_bytes",
                           "peak_warm",
                           "peak_cold_on_device",
                           "peak_cold_on_host",
                           "bytes_in",
                           "bytes_out",
                           "managed_in",
                           "managed_out",
                           "fetches",
                           "hits",
                           "missed_room",
                           "missed_busy",
                           "off_plan",
                           "in_place_slabs",
                           "waits_arrival",
                           "waits_arrival_ms",
                           "waits_departure",
                           "waits_departure_ms",
                           "peak_device_bytes",
                           "waits_room",
                           "host_room_ms",
                           "host_issue_ms",
                           "host_off_plan_ms",
                           "planned",
                           "dynamic",
                           "native"})
    EXPECT_EQ(read->last.count(name), 1u) << name;
}

TEST_F(RunLogTest, TheTableSaysRatesSharesAndWaits) {
  Write(replay::RunLine(Info(), 4711, 0) + replay::SampleLine("end", 2, Sample()));
  const auto read = report::ReadRunLog(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  const std::string table = report::RunTable(*read);
  EXPECT_THAT(table, HasSubstr("Steps      4 in 2.0 s (500.00 ms each)\n"));
  EXPECT_THAT(table, HasSubstr("driver 13.0"));
  EXPECT_THAT(table, HasSubstr("1970-01-01 00:00 UTC"));
  // 8 MB are 7.63 MiB; a quarter of that a step; 0.004 GB/s.
  EXPECT_THAT(table, HasSubstr("swapped in                      7.63 MiB    1.91 MiB     0.00\n"));
  // 7 of 10.
  EXPECT_THAT(table, HasSubstr("begun                                  7      70.0 %\n"));
  EXPECT_THAT(table, HasSubstr("given up: no room                      2      20.0 %\n"));
  EXPECT_THAT(table,
              HasSubstr("host: room for a block                 2        1.50       0.375\n"));
  EXPECT_THAT(table,
              HasSubstr("device: copy out (sampled)             9        6.00       1.500\n"));
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST_F(RunLogTest, ACutLastLineIsNamedAndTheRestReported) {
  const std::string end = replay::SampleLine("end", 2, Sample());
  Write(replay::RunLine(Info(), 1, 0) + replay::SampleLine("sample", 1, Sample()) +
        end.substr(0, end.size() / 2));
  const auto read = report::ReadRunLog(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->damage, ElementsAre(path_ + ":3: is cut off or no JSON"));
  EXPECT_FALSE(read->ended);
  EXPECT_EQ(read->Number("t_s"), 1);
  EXPECT_THAT(report::RunTable(*read), HasSubstr("the end is missing"));
}

TEST_F(RunLogTest, WhatIsNoNumberReadsAsNothing) {
  Write(replay::RunLine(Info(), 1, 0) +
        "{\"sample\":{\"t_s\":\"x\",\"steps\":-3,\"bytes_in\":null,\"new\":1}}\n[]\n{\"a\":1}\n");
  const auto read = report::ReadRunLog(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->Number("steps"), 0);
  EXPECT_EQ(read->Number("bytes_in"), 0);
  EXPECT_THAT(read->damage, ElementsAre(path_ + ":3: is no line of a run log",
                                        path_ + ":4: is neither a sample nor the end"));
}

TEST_F(RunLogTest, OtherFilesAreRefusedForWhatTheyAre) {
  Write(
      "\x89"
      "EBTP\r\n\x1a");
  EXPECT_THAT(std::string(report::ReadRunLog(path_).status().message()), HasSubstr("is a profile"));
  Write("{\n \"schema\": 1,\n");
  EXPECT_THAT(std::string(report::ReadRunLog(path_).status().message()), HasSubstr("a plan"));
  Write("{\"run\":{\"schema\":2}}\n");
  EXPECT_THAT(std::string(report::ReadRunLog(path_).status().message()), HasSubstr("schema 2"));
  Write("");
  EXPECT_THAT(std::string(report::ReadRunLog(path_).status().message()), HasSubstr("empty"));
  Write(replay::RunLine(Info(), 1, 0));
  EXPECT_THAT(std::string(report::ReadRunLog(path_).status().message()), HasSubstr("no sample"));
  EXPECT_FALSE(report::ReadRunLog(folder_ + "/none").ok());
}

TEST_F(RunLogTest, ASecondProcessTakesANameOfItsOwn) {
  Write("of yesterday");
  auto log = replay::RunLog::Open(path_, Info());
  ASSERT_NE(log, nullptr);
  const std::string number = std::to_string(getpid());
  EXPECT_EQ(log->path(), folder_ + "/run." + number + ".log");
  auto again = replay::RunLog::Open(path_, Info());
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->path(), folder_ + "/run." + number + ".2.log");
  EXPECT_EQ(Text(path_), "of yesterday");
}

TEST_F(RunLogTest, AFolderThatIsNotThereIsNoLog) {
  EXPECT_EQ(replay::RunLog::Open(folder_ + "/no/run.log", Info()), nullptr);
}

TEST_F(RunLogTest, NothingFollowsTheEnd) {
  auto log = replay::RunLog::Open(path_, Info());
  ASSERT_NE(log, nullptr);
  log->Finish(Sample());
  const std::string text = Text(path_);
  log->Sample(Sample());
  log->Finish(Sample());
  EXPECT_EQ(Text(path_), text);
}

TEST_F(RunLogTest, AChildAfterAForkWritesNothing) {
  auto log = replay::RunLog::Open(path_, Info());
  ASSERT_NE(log, nullptr);
  const std::string text = Text(path_);
  const pid_t child = fork();
  if (child == 0) {
    log->Finish(Sample());
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(Text(path_), text);
}

TEST_F(RunLogTest, NoSampleIsDueAtTheStart) {
  auto log = replay::RunLog::Open("/dev/null", Info());
  ASSERT_NE(log, nullptr);
  EXPECT_EQ(log->path(), "/dev/null");
  EXPECT_FALSE(log->Due());
}

}  // namespace
}  // namespace ebt
