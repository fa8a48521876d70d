// `ebbtide simulate` against what a run really holds on the simulated driver, and on input that is
// none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

class SimulateCommand : public testing::Test {
 protected:
  void SetUp() override { folder_ = FreshFolder(); }

  Outcome Ebbtide(Words words) {
    words.insert(words.begin(), Product("ebbtide"));
    return RunProcess(words, {{"LD_LIBRARY_PATH", Product("tests/simcuda")}}, folder_);
  }
  void Train(Words words, const Words& sizes = {}) {
    words.insert(words.end(),
                 {"--", Product("tests/demo/ebbtide-demo-trainer"), "--json", "--steps", "8"});
    words.insert(words.end(), sizes.begin(), sizes.end());
    const Outcome outcome = Ebbtide(words);
    ASSERT_EQ(outcome.code, 0) << outcome;
  }
  void RecordAndPlan() {
    Train({"record", "-o", "job.ebp"});
    const Outcome planned = Ebbtide({"plan", "job.ebp", "-o", "job.json"});
    ASSERT_EQ(planned.code, 0) << planned;
  }
  json Simulated(Words words) {
    words.insert(words.begin(), {"simulate", "job.ebp", "--json"});
    const Outcome outcome = Ebbtide(words);
    EXPECT_EQ(outcome.code, 0) << outcome;
    EXPECT_EQ(outcome.err, "");
    return json::parse(outcome.out, nullptr, false);
  }
  void ExpectOneLine(const Words& words, int code, const std::string& reason) {
    const Outcome outcome = Ebbtide(words);
    EXPECT_EQ(outcome.code, code) << outcome;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith("ebbtide: "));
    EXPECT_THAT(outcome.err, HasSubstr(reason));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  std::string Put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
    return name;
  }
  // The last line of a run log: how it stood when the process ended.
  json EndOf(const std::string& log) {
    std::ifstream file(folder_ + "/" + log);
    json end;
    for (std::string line; std::getline(file, line);) {
      const json read = json::parse(line, nullptr, false);
      if (read.contains("end")) end = read["end"];
    }
    return end;
  }

  std::string folder_;
};

TEST_F(SimulateCommand, APlayedPlanHoldsWhatTheRunHolds) {
  RecordAndPlan();
  Train({"run", "--strict", "--plan", "job.json", "--cold", "off", "--log", "run.log"});
  const json end = EndOf("run.log");
  const json plan = Simulated({"--plan", "job.json", "--cold", "off"})["plan"];
  ASSERT_TRUE(end.is_object() && plan.is_object());
  EXPECT_EQ(plan["planned_bytes"].get<uint64_t>() + plan["dynamic_bytes"].get<uint64_t>(),
            end["peak_device_bytes"].get<uint64_t>());
  EXPECT_EQ(plan["planned_allocations"], end["planned"]);
}

TEST_F(SimulateCommand, AllPoliciesOrTheOneThatIsAskedForArePlayed) {
  Train({"record", "-o", "job.ebp"});
  const json all = Simulated({});
  ASSERT_EQ(all["policies"].size(), 4u);
  EXPECT_TRUE(all["plan"].is_null());
  EXPECT_TRUE(all["planned_peak_bytes"].is_null());
  EXPECT_TRUE(all["feasible"].get<bool>());
  const json one = Simulated({"--policy", "pool"});
  ASSERT_EQ(one["policies"].size(), 1u);
  EXPECT_EQ(one["policies"][0], all["policies"][2]);
}

TEST_F(SimulateCommand, ABudgetThatAnAllocatorExceedsIsSaid) {
  Train({"record", "-o", "job.ebp"});
  const json tight = Simulated({"--policy", "native", "--budget", "4MiB"});
  EXPECT_FALSE(tight["feasible"].get<bool>());
  EXPECT_THAT(tight["infeasible_reason"].get<std::string>(), StartsWith("native: no memory for "));
  EXPECT_LE(tight["policies"][0]["peak_process_bytes"].get<uint64_t>(), uint64_t{4} << 20);
  EXPECT_EQ(tight["budget_bytes"], uint64_t{4} << 20);
}

TEST_F(SimulateCommand, APlanOfTheFirstStepsIsPlayedOnTheOthers) {
  Train({"record", "-o", "job.ebp"});
  const json simulated = Simulated({"--plan-steps", "4", "--cold", "off"});
  EXPECT_EQ(simulated["plan"]["from_step"], 4);
  EXPECT_EQ(simulated["plan"]["unknown_allocations"], 0);
  EXPECT_EQ(simulated["plan"]["occupied_allocations"], 0);
}

TEST_F(SimulateCommand, EqualInputHasEqualOutput) {
  RecordAndPlan();
  const Words words = {"simulate", "job.ebp", "--plan", "job.json", "--budget", "64MiB"};
  const Outcome first = Ebbtide(words), second = Ebbtide(words);
  EXPECT_EQ(first.code, 0) << first;
  EXPECT_EQ(first.out, second.out);
}

TEST_F(SimulateCommand, BadFilesAre125AndOneLine) {
  Put("job.ebp", "no profile");
  ExpectOneLine({"simulate", "job.ebp"}, 125, "job.ebp");
  ExpectOneLine({"simulate", "gone.ebp"}, 125, "gone.ebp");
  RecordAndPlan();
  Put("bad.json", "{");
  ExpectOneLine({"simulate", "job.ebp", "--plan", "bad.json"}, 125, "bad.json");
  ExpectOneLine({"simulate", "job.ebp", "--plan", "gone.json"}, 125, "gone.json");
  ExpectOneLine({"simulate", "job.ebp", "--plan", "job.json", "--from-step", "99"}, 125,
                "there is no step 99");
  ExpectOneLine({"simulate", "job.ebp", "--plan-steps", "99"}, 125,
                "--plan-steps 99: job.ebp has ");
  ExpectOneLine({"simulate", "job.ebp", "--plan-steps", "1"}, 125, "--plan-steps 1 of the ");
  ExpectOneLine({"simulate", "job.ebp", "--device", "abacus"}, 125, "abacus");
}

TEST_F(SimulateCommand, ACutRecordingIsSaidToBeOne) {
  Train({"record", "-o", "job.ebp"});
  std::ifstream file(folder_ + "/job.ebp", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  Put("cut.ebp", whole.substr(0, whole.size() - 1));
  const Outcome cut = Ebbtide({"simulate", "cut.ebp"});
  EXPECT_THAT(cut.err, HasSubstr("cut.ebp ends early: the process was killed, or the file cut"));
  EXPECT_EQ(std::count(cut.err.begin(), cut.err.end(), '\n'), 1) << cut;
  Put("bare.ebp", whole.substr(0, 64));
  ExpectOneLine({"simulate", "bare.ebp"}, 125, "bare.ebp");
}

TEST_F(SimulateCommand, APlanThatKnowsLittleOfTheRecordingIsSaidToBeOfAnotherJob) {
  RecordAndPlan();
  Train({"record", "-o", "wide.ebp"}, {"--hidden", "3000", "--layers", "19"});
  const Outcome wide = Ebbtide({"simulate", "wide.ebp", "--plan", "job.json"});
  EXPECT_EQ(wide.code, 0) << wide;
  EXPECT_THAT(wide.err, HasSubstr("job.json: the plan knows "));
  EXPECT_EQ(std::count(wide.err.begin(), wide.err.end(), '\n'), 1) << wide;
}

TEST_F(SimulateCommand, APlanOfALaterVersionIsToBeMadeAgainOnce) {
  RecordAndPlan();
  json plan = json::parse(std::ifstream(folder_ + "/job.json"));
  plan["schema"] = 99;
  Put("later.json", plan.dump());
  ExpectOneLine({"simulate", "job.ebp", "--plan", "later.json"}, 125, "plan again\n");
}

TEST_F(SimulateCommand, BadCommandLinesAre2AndOneLine) {
  ExpectOneLine({"simulate"}, 2, "PROFILE");
  ExpectOneLine({"simulate", "job.ebp", "--policy", "buddy"}, 2, "buddy");
  ExpectOneLine({"simulate", "job.ebp", "--from-step", "1"}, 2, "--plan");
  ExpectOneLine({"simulate", "job.ebp", "--plan", "a", "--plan-steps", "1"}, 2, "--plan");
  for (const char* steps : {"0", "-1", "x"}) {
    ExpectOneLine({"simulate", "job.ebp", "--plan-steps", steps}, 2, "a whole number from 1;");
  }
  ExpectOneLine({"simulate", "job.ebp", "--plan", "a", "--from-step", "-1"}, 2,
                "a whole number from 0;");
  for (const char* option : {"--plan", "--device", "--budget"}) {
    ExpectOneLine({"simulate", "job.ebp", option, ""}, 2, option);
  }
  ExpectOneLine({"simulate", "job.ebp", "--budget", "much"}, 2, "much");
  ExpectOneLine({"simulate", "job.ebp", "--", "true"}, 2, "--");
}

}  // namespace
}  // namespace ebt::test
