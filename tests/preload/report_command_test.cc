// `ebbtide report` of what whole programs left on the simulated driver, and of what is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/profile/reader.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

class ReportCommand : public testing::Test {
 protected:
  void SetUp() override { folder_ = FreshFolder(); }

  Outcome Ebbtide(Words words) {
    words.insert(words.begin(), Product("ebbtide"));
    return RunProcess(words, {{"LD_LIBRARY_PATH", Product("tests/simcuda")}}, folder_);
  }
  void Record(const std::string& file, const Words& options = {}) {
    Words words = {"record", "-o",      file, "--", Product("tests/demo/ebbtide-demo-trainer"),
                   "--json", "--steps", "8"};
    words.insert(words.end(), options.begin(), options.end());
    const Outcome outcome = Ebbtide(words);
    ASSERT_EQ(outcome.code, 0) << outcome;
  }
  json Json(Words words) {
    words.insert(words.begin(), "report");
    words.push_back("--json");
    const Outcome outcome = Ebbtide(words);
    EXPECT_EQ(outcome.code, 0) << outcome;
    EXPECT_EQ(outcome.err, "");
    return json::parse(outcome.out, nullptr, false);
  }
  void ExpectRefused(const Words& words, const std::string& reason) {
    const Outcome outcome = Ebbtide(words);
    EXPECT_EQ(outcome.code, 125) << outcome;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith("ebbtide: "));
    EXPECT_THAT(outcome.err, HasSubstr(reason));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  std::string Put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
    return name;
  }
  std::string Get(const std::string& name) {
    std::stringstream text;
    text << std::ifstream(folder_ + "/" + name, std::ios::binary).rdbuf();
    return text.str();
  }

  std::string folder_;
};

// The most bytes of blocks at once, each rounded up to 512, by the recording's events alone.
uint64_t PeakOf(const profile::Profile& profile) {
  uint64_t live = 0, peak = 0;
  for (const profile::Event& event : profile.events) {
    if (event.kind != profile::EventKind::kAlloc && event.kind != profile::EventKind::kFree)
      continue;
    const uint64_t bytes = (profile.blocks[event.block].bytes + 511) / 512 * 512;
    live = event.kind == profile::EventKind::kAlloc ? live + bytes : live - bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

TEST_F(ReportCommand, NumbersOfARecordingAreThoseOfItsEventsAndAddUp) {
  Record("job.ebp");
  const json it = Json({"job.ebp"});
  const auto profile = profile::ReadProfile(folder_ + "/job.ebp");
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(it["peak_bytes"], PeakOf(*profile));
  EXPECT_EQ(it["events"], profile->events.size());
  EXPECT_EQ(it["steps"], 7);  // of 8: the first makes the optimizer's state
  uint64_t kinds = 0, sites = 0, blocks = 0;
  for (const auto& [name, kind] : it["kinds"].items()) kinds += kind["bytes"].get<uint64_t>();
  for (const json& site : it["sites"]) {
    sites += site["bytes"].get<uint64_t>();
    blocks += site["blocks"].get<uint64_t>();
  }
  EXPECT_EQ(kinds, it["peak_bytes"]);
  EXPECT_EQ(sites, it["peak_bytes"]);
  EXPECT_EQ(blocks, it["peak_blocks"]);
}

TEST_F(ReportCommand, NativePeakIsThatOfThePlan) {
  Record("job.ebp");
  const Outcome plan = Ebbtide({"plan", "job.ebp", "--json"});
  ASSERT_EQ(plan.code, 0) << plan;
  EXPECT_EQ(Json({"job.ebp"})["native_peak_bytes"], json::parse(plan.out)["native_peak_bytes"]);
}

TEST_F(ReportCommand, SitesHaveTheNamesOfTheProgramsFunctions) {
  Record("job.ebp");
  const Outcome outcome = Ebbtide({"report", "job.ebp"});
  EXPECT_EQ(outcome.code, 0) << outcome;
  EXPECT_THAT(outcome.out, HasSubstr("ebbtide-demo-trainer demo::Trainer::Forward"));
  EXPECT_THAT(outcome.out, HasSubstr("Trainer::AddOptimizerState"));
  bool full = false;
  const json it = Json({"job.ebp"});
  for (const json& site : it["sites"]) {
    for (const json& frame : site["frames"]) {
      full |= frame["function"].get<std::string>().find("demo::Trainer::Forward(") == 0;
    }
  }
  EXPECT_TRUE(full);
}

TEST_F(ReportCommand, AsManySitesAreListedAsAskedFor) {
  Record("job.ebp");
  const Outcome one = Ebbtide({"report", "job.ebp", "--sites", "1"});
  EXPECT_THAT(one.out, HasSubstr("more (--sites N)"));
  EXPECT_GT(Ebbtide({"report", "job.ebp", "--sites", "100"}).out.size(), one.out.size());
}

TEST_F(ReportCommand, AnUnfinishedRecordingIsReportedWithAWarning) {
  Record("job.ebp");
  const std::string bytes = Get("job.ebp");
  Put("cut.ebp", bytes.substr(0, bytes.size() - 5));
  const Outcome outcome = Ebbtide({"report", "cut.ebp"});
  EXPECT_EQ(outcome.code, 0) << outcome;
  EXPECT_THAT(outcome.err, HasSubstr("cut.ebp ends early"));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("cut short"));
}

TEST_F(ReportCommand, WhereverARecordingIsCutTheAnswerIsAReportOrOneLine) {
  Record("job.ebp");
  const std::string bytes = Get("job.ebp");
  for (size_t part = 1; part < 40; ++part) {
    Put("cut.ebp", bytes.substr(0, bytes.size() * part / 40));
    const Outcome outcome = Ebbtide({"report", "cut.ebp"});
    EXPECT_EQ(outcome.code, outcome.out.empty() ? 125 : 0) << outcome;
    EXPECT_THAT(outcome.err, HasSubstr("cut.ebp"));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST_F(ReportCommand, ADamagedRecordingIsRefusedWithTheByte) {
  Record("job.ebp");
  std::string bytes = Get("job.ebp");
  bytes[bytes.size() / 2] = char(bytes[bytes.size() / 2] ^ 0x10);
  ExpectRefused({"report", Put("bad.ebp", bytes)}, "bad.ebp: byte ");
  ExpectRefused({"report", "job.ebp", "--diff", "bad.ebp"}, "bad.ebp: byte ");
}

TEST_F(ReportCommand, WhatIsNoneOfTheTwoIsRefusedInOneLine) {
  ExpectRefused({"report", "none.ebp"}, "none.ebp: cannot be opened");
  ExpectRefused({"report", "/bin/true"}, "/bin/true is neither a recording");
  ExpectRefused({"report", Put("empty", "")}, "empty is empty");
  ExpectRefused({"report", Put("text", "hello\n")}, "text is neither a recording");
  ExpectRefused({"report", Put("plan.json", "{\n\"schema\": 2\n}")}, "plan.json is not a run log");
  ExpectRefused({"report", Put("start.ebp",
                               "\x89"
                               "EB")},
                "start.ebp");
}

TEST_F(ReportCommand, ARecordingDiffersFromAnotherByWhatWasChanged) {
  Record("small.ebp", {"--batch", "1"});
  Record("large.ebp", {"--batch", "2"});
  const json it = Json({"small.ebp", "--diff", "large.ebp"});
  EXPECT_GT(it["peak_bytes"]["after"], it["peak_bytes"]["before"]);
  int64_t sum = 0;
  for (const json& site : it["sites"]) sum += site["difference_bytes"].get<int64_t>();
  EXPECT_EQ(sum,
            it["peak_bytes"]["after"].get<int64_t>() - it["peak_bytes"]["before"].get<int64_t>());
  EXPECT_EQ(it["sites"][0]["change"], "grown");
  const Outcome table = Ebbtide({"report", "small.ebp", "--diff", "large.ebp"});
  EXPECT_THAT(table.out, HasSubstr("demo::Trainer::Forward"));
  EXPECT_THAT(table.out, HasSubstr("grown"));
}

TEST_F(ReportCommand, ARecordingIsTheSameAsItself) {
  Record("job.ebp");
  const json it = Json({"job.ebp", "--diff", "job.ebp"});
  EXPECT_FALSE(it["sites"].empty());
  for (const json& site : it["sites"]) EXPECT_EQ(site["change"], "same");
}

TEST_F(ReportCommand, BadCommandLinesAreTwo) {
  const std::vector<Words> bad = {{"report"},
                                  {"report", "a", "b"},
                                  {"report", "a", "--diff"},
                                  {"report", "a", "--sites", "many"},
                                  {"report", "a", "--", "true"}};
  for (const Words& words : bad) {
    const Outcome outcome = Ebbtide(words);
    EXPECT_EQ(outcome.code, 2) << outcome;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

}  // namespace
}  // namespace ebt::test
