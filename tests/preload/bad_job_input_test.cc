// What a person or a disk can get wrong, before a job that trains on the simulated driver: exactly
// one line on stderr says what and where, and the job ends as it would have without us. By the
// command and by plain LD_PRELOAD.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

using nlohmann::ordered_json;

std::vector<std::string> Trainer() {
  return {Product("tests/demo/ebbtide-demo-trainer"),
          "--json",
          "--layers",
          "2",
          "--hidden",
          "65536",
          "--steps",
          "5"};
}

Variables OnTheSimulator(Variables variables = {}) {
  variables.emplace("LD_LIBRARY_PATH", Product("tests/simcuda"));
  return variables;
}

// A folder with a real plan of the trainer, and what the trainer prints by itself.
struct Job {
  std::string folder;
  ordered_json plan;
  ordered_json native;
};

Job PrepareJob() {
  Job job{.folder = testing::TempDir() + "ebbtide-bad-job-input"};
  std::filesystem::remove_all(job.folder);
  std::filesystem::create_directories(job.folder);
  job.native = ordered_json::parse(RunProcess(Trainer(), OnTheSimulator()).out);
  std::vector<std::string> record = {Product("ebbtide"), "record", "-o", "job.ebp", "--"};
  for (const std::string& word : Trainer()) record.push_back(word);
  RunProcess(record, OnTheSimulator(), job.folder);
  RunProcess({Product("ebbtide"), "plan", "job.ebp", "-o", "good.json"}, {}, job.folder);
  job.plan = ordered_json::parse(std::ifstream(job.folder + "/good.json"));
  return job;
}

enum class Way { kCommand, kPreload };

class BadJobInput : public testing::TestWithParam<Way> {
 protected:
  static void SetUpTestSuite() {
    job_ = new Job(PrepareJob());
    const auto cold = [](const ordered_json& slot) { return slot["tier"] == "cold"; };
    const ordered_json& prologue = job_->plan["prologue"];
    ASSERT_TRUE(std::any_of(prologue.begin(), prologue.end(), cold)) << "nothing would be moved";
  }
  static void TearDownTestSuite() { delete job_; }

  static std::string Path(const std::string& name) { return job_->folder + "/" + name; }

  // The trainer with the plan in the file `name`.
  static Outcome Train(const std::string& name, Variables variables = {}) {
    std::vector<std::string> words;
    if (GetParam() == Way::kCommand) {
      words = {Product("ebbtide"), "run", "--plan", Path(name), "--"};
    } else {
      variables.emplace("LD_PRELOAD", Product("libebbtide.so"));
      variables.emplace("EBBTIDE_MODE", "replay");
      variables.emplace("EBBTIDE_PLAN", Path(name));
    }
    for (const std::string& word : Trainer()) words.push_back(word);
    return RunProcess(words, OnTheSimulator(std::move(variables)), job_->folder);
  }

  // The results are those without us, and stderr is one line that holds all of `parts`.
  static void ExpectOneLine(const Outcome& outcome, const std::vector<std::string>& parts) {
    ExpectNativeResults(outcome);
    EXPECT_EQ(outcome.err.rfind("ebbtide: ", 0), 0u) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    for (const std::string& part : parts)
      EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " in: " << outcome.err;
    EXPECT_EQ(outcome.err.find("json.exception"), std::string::npos) << outcome.err;
  }
  static void ExpectNativeResults(const Outcome& outcome) {
    ASSERT_EQ(outcome.code, 0) << outcome;
    const ordered_json out = ordered_json::parse(outcome.out, nullptr, false);
    for (const char* key : {"losses", "losses_checksum", "parameters_checksum"})
      EXPECT_EQ(out[key], job_->native[key]) << key;
  }
  // Ebbtide did not take part at all.
  static void ExpectRefused(const std::string& name, const std::vector<std::string>& parts,
                            const Variables& variables = {}) {
    const Outcome outcome = Train(name, variables);
    ExpectOneLine(outcome, parts);
    EXPECT_EQ(ordered_json::parse(outcome.out, nullptr, false)["peak_bytes"],
              job_->native["peak_bytes"]);
    EXPECT_NE(outcome.err.find(GetParam() == Way::kCommand ? "runs without Ebbtide" : "natively"),
              std::string::npos)
        << outcome.err;
  }
  static void ExpectDamageRefused(const std::function<void(ordered_json&)>& damage,
                                  const std::vector<std::string>& parts = {}) {
    ordered_json plan = job_->plan;
    damage(plan);
    std::ofstream(Path("bad.json")) << plan.dump(1);
    std::vector<std::string> all = parts;
    all.push_back(Path("bad.json") + ": ");
    ExpectRefused("bad.json", all);
  }

  static Job* job_;
};
Job* BadJobInput::job_ = nullptr;

TEST_P(BadJobInput, GoodPlanIsKeptToWithoutAWord) {
  const Outcome outcome = Train("good.json");
  ExpectNativeResults(outcome);
  EXPECT_EQ(outcome.err, "");
  EXPECT_LT(ordered_json::parse(outcome.out)["peak_bytes"], job_->native["peak_bytes"]);
}

TEST_P(BadJobInput, MissingPlanIsNamed) { ExpectRefused("gone.json", {Path("gone.json")}); }

TEST_P(BadJobInput, CutPlanIsRefused) {
  const std::string whole = job_->plan.dump(1);
  for (const size_t length : {size_t{0}, size_t{1}, whole.size() / 2, whole.size() - 2}) {
    std::ofstream(Path("cut.json")) << whole.substr(0, length);
    ExpectRefused("cut.json", {Path("cut.json") + ": line ", "make the plan anew"});
  }
}

// Every key of the plan, of one slot of each tier, of a site and of a slab.
std::vector<ordered_json::json_pointer> Fields(const ordered_json& plan) {
  std::vector<ordered_json::json_pointer> fields;
  const ordered_json::json_pointer root;
  for (const auto& [key, value] : plan.items()) {
    fields.push_back(root / key);
    std::vector<std::string> tiers;
    for (size_t i = 0; value.is_array() && i < value.size(); ++i) {
      const std::string tier = value[i].value("tier", "");
      if (std::find(tiers.begin(), tiers.end(), tier) != tiers.end()) continue;
      tiers.push_back(tier);
      for (const auto& [member, ignored] : value[i].items())
        fields.push_back(root / key / i / member);
    }
  }
  return fields;
}

TEST_P(BadJobInput, FieldOfAnotherKindIsRefusedAndNamed) {
  for (const auto& field : Fields(job_->plan)) {
    SCOPED_TRACE(field.to_string());
    ExpectDamageRefused([&](ordered_json& plan) { plan[field] = -0.5; }, {field.back()});
    if (testing::Test::HasFailure()) return;
  }
}

TEST_P(BadJobInput, MissingFieldIsRefusedUnlessItHasADefault) {
  for (const auto& field : Fields(job_->plan)) {
    SCOPED_TRACE(field.to_string());
    const auto remove = [&](ordered_json& plan) {
      plan[field.parent_pointer()].erase(field.back());
    };
    const std::string& key = field.back();
    const bool of_slot = field.to_string().rfind("/slabs/", 0) != 0;
    if (!of_slot || (key != "fingerprint" && key != "stream" && key != "persistent" &&
                     key != "class" && key != "use" && key != "fetch_launch" &&
                     key != "evict_launch" && key != "after" && key != "hotness")) {
      ExpectDamageRefused(remove, {key + ": is missing"});
    } else {
      ordered_json plan = job_->plan;
      remove(plan);
      std::ofstream(Path("less.json")) << plan.dump(1);
      ExpectNativeResults(Train("less.json"));
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST_P(BadJobInput, NumberThatCannotBeIsRefused) {
  for (const char* key : {"budget", "overhead_bytes", "warm_bytes", "cold_bytes", "step_launches",
                          "max_live_bytes", "planned_peak_bytes"}) {
    SCOPED_TRACE(key);
    ExpectDamageRefused([&](ordered_json& plan) { plan[key] = UINT64_MAX; }, {key});
  }
  for (const char* key : {"bytes", "offset", "ordinal", "launch", "stream"}) {
    SCOPED_TRACE(key);
    ExpectDamageRefused([&](ordered_json& plan) { plan["step"][0][key] = UINT64_MAX; });
  }
  ExpectDamageRefused([](ordered_json& plan) { plan["step_launches"] = 0; }, {"\"launch\""});
  ExpectDamageRefused([](ordered_json& plan) { plan["warm_bytes"] = 5; }, {"multiple of 2 MiB"});
  ExpectDamageRefused([](ordered_json& plan) { plan["cold_bytes"] = 0; }, {"\"bounds\""});
  ExpectDamageRefused([](ordered_json& plan) { plan["step"][0]["offset"] = 1; }, {"\"alignment\""});
  ExpectDamageRefused([](ordered_json& plan) { plan["step"][0]["bytes"] = 0; }, {"\"size\""});
  ExpectDamageRefused([](ordered_json& plan) { plan["step"].push_back(plan["step"].back()); },
                      {"\"duplicate\""});
  ExpectDamageRefused([](ordered_json& plan) { plan["slab_bytes"] = 3 << 20; }, {"slab_bytes"});
  ExpectDamageRefused([](ordered_json& plan) { plan["schema"] = 4; }, {"plan again"});
  ExpectDamageRefused([](ordered_json& plan) { plan["budget"] = 1; }, {"the budget is 1 B"});
}

TEST_P(BadJobInput, PlanOfAnotherProgramIsRefused) {
  ExpectDamageRefused(
      [](ordered_json& plan) { plan["program"] = "trainer[00000000]"; },
      {"is the plan of trainer[00000000]", "ebbtide-demo-trainer", "record and plan this program"});
}

TEST_P(BadJobInput, BudgetBelowWhatCannotBeMovedIsRefused) {
  // Context and kernels alone take more.
  ExpectRefused("good.json",
                {Path("good.json"), "the budget is 8.00 MiB", "ebbtide plan job.ebp --budget"},
                {{"EBBTIDE_BUDGET", "8MiB"}});
}

TEST_P(BadJobInput, UnknownVariableIsSaidWithTheNearest) {
  ExpectOneLine(Train("good.json", {{"EBBTIDE_COLDD", "off"}}),
                {"EBBTIDE_COLDD", "did you mean EBBTIDE_COLD?"});
}

TEST_P(BadJobInput, ValueThatIsNotUnderstoodIsSaid) {
  ExpectOneLine(Train("good.json", {{"EBBTIDE_COLD", "freezing"}}),
                {"EBBTIDE_COLD=freezing", "auto, swap, managed, off"});
}

TEST_P(BadJobInput, TooLittleHostMemoryKeepsColdBlocksOnTheDevice) {
  ExpectOneLine(Train("good.json", {{"EBBTIDE_HOST_BUDGET", "1MiB"}}),
                {"host memory", "1.00 MiB", "EBBTIDE_HOST_BUDGET"});
}

TEST_P(BadJobInput, WithoutADriverTheJobsOwnErrorIsLast) {
  const Variables none = {{"LD_LIBRARY_PATH", ""}};
  const Outcome native = RunProcess(Trainer(), none, job_->folder);
  if (native.code == 0) GTEST_SKIP() << "a driver is installed here";
  const Outcome outcome = Train("good.json", none);
  EXPECT_EQ(outcome.code, native.code);
  EXPECT_EQ(outcome.out, native.out);
  // Without the command nobody can know that the program looks for a driver.
  const size_t ours = GetParam() == Way::kCommand ? outcome.err.find('\n') + 1 : 0;
  EXPECT_EQ(outcome.err.substr(ours), native.err);
  EXPECT_EQ(outcome.err.rfind("ebbtide: no driver: libcuda.so.1", 0) == 0, ours > 0);
}

TEST_P(BadJobInput, MistypedModeLeavesTheJobAlone) {
  if (GetParam() == Way::kCommand) GTEST_SKIP() << "the command sets it";
  ExpectOneLine(Train("good.json", {{"EBBTIDE_MODE", "reply"}}), {"EBBTIDE_MODE", "reply"});
  // Its name: as if it were not set.
  ExpectOneLine(Train("good.json", {{"EBBTIDE_MODE", ""}, {"EBBTIDE_MOD", "replay"}}),
                {"EBBTIDE_MODE is not set", "EBBTIDE_MOD=replay"});
}

INSTANTIATE_TEST_SUITE_P(By, BadJobInput, testing::Values(Way::kCommand, Way::kPreload),
                         [](const auto& info) {
                           return info.param == Way::kCommand ? "Command" : "Preload";
                         });

}  // namespace
}  // namespace ebt::test
