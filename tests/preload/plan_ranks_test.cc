// `ebbtide plan` with the recordings of several ranks: which one is planned, and what is said of
// the others.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/plan/plan_file.h"
#include "src/profile/writer.h"
#include "tests/preload/run_process.h"
#include "tests/preload/small_profile.h"

namespace ebt::test {
namespace {

using Json = nlohmann::json;

class PlanRanks : public testing::Test {
 protected:
  void SetUp() override { folder_ = FreshFolder(); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  bool Exists(const std::string& name) const { return std::filesystem::exists(Path(name)); }

  void PutRank(const std::string& name, const std::string& rank,
               uint64_t activation_bytes = 32 * kMiB) {
    profile::Profile profile = SmallProfile(activation_bytes);
    profile.metadata["rank"] = rank;
    const absl::Status status = profile::WriteProfile(profile, Path(name));
    ASSERT_TRUE(status.ok()) << status;
  }

  void Damage(const std::string& name) {
    std::stringstream text;
    text << std::ifstream(Path(name), std::ios::binary).rdbuf();
    std::string bytes = text.str();
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x5a);
    std::ofstream(Path(name), std::ios::binary) << bytes;
  }

  Outcome Plan(std::vector<std::string> words) {
    words.insert(words.begin(), {Product("ebbtide"), "plan"});
    return RunProcess(words, {{"LD_LIBRARY_PATH", Product("tests/simcuda")}}, folder_);
  }

  std::string folder_;
};

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int Lines(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

TEST_F(PlanRanks, LowestRankIsPlannedThoughAShellSortsItBehindAnother) {
  PutRank("job.10.ebp", "10");
  PutRank("job.2.ebp", "2");
  const Outcome outcome = Plan({"job.10.ebp", "job.2.ebp"});
  EXPECT_EQ(outcome.code, 0) << outcome;
  EXPECT_TRUE(Exists("job.2.plan.json"));
  EXPECT_FALSE(Exists("job.10.plan.json"));
  EXPECT_TRUE(Contains(outcome.out,
                       "The plan is that of job.2.ebp (rank 2)\njob.10.ebp (rank 10): alike\n"))
      << outcome;
}

TEST_F(PlanRanks, ThePlanIsTheOneThatTheFirstProfileAloneGives) {
  PutRank("job.0.ebp", "0");
  PutRank("job.1.ebp", "1", 48 * kMiB);
  // What is coupled weighs more where ranks work together, unless somebody says otherwise.
  ASSERT_EQ(Plan({"job.0.ebp", "--gamma", "1", "-o", "alone.json"}).code, 0);
  ASSERT_EQ(Plan({"job.0.ebp", "job.1.ebp", "--gamma", "1", "-o", "ranks.json"}).code, 0);
  const auto alone = plan::ReadPlan(Path("alone.json")), ranks = plan::ReadPlan(Path("ranks.json"));
  ASSERT_TRUE(alone.ok() && ranks.ok());
  ASSERT_TRUE(plan::WritePlan(*alone, Path("alone.json")).ok());
  ASSERT_TRUE(plan::WritePlan(*ranks, Path("ranks.json")).ok());
  EXPECT_EQ(RunProcess({"cmp", "alone.json", "ranks.json"}, {}, folder_), (Outcome{0, "", ""}));
}

TEST_F(PlanRanks, DifferencesAreToldInNumbers) {
  PutRank("job.0.ebp", "0");
  PutRank("job.1.ebp", "1", 48 * kMiB);
  PutRank("job.2.ebp", "2");
  const Outcome outcome = Plan({"job.0.ebp", "job.1.ebp", "job.2.ebp", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["planned"]["profile"], "job.0.ebp");
  EXPECT_EQ(json["planned"]["rank"], 0);
  EXPECT_EQ(json["planned"]["step"]["bytes"], 32 * kMiB);
  EXPECT_EQ(json["planned"]["native_peak_bytes"], 160 * kMiB);
  ASSERT_EQ(json["ranks"].size(), 2u);
  const Json& other = json["ranks"][0];
  EXPECT_EQ(other["profile"], "job.1.ebp");
  EXPECT_EQ(other["rank"], 1);
  EXPECT_EQ(other["alike"], false);
  EXPECT_EQ(other["steps"], json["planned"]["steps"]);
  EXPECT_EQ(other["step_launches"], 4);
  EXPECT_EQ(other["native_peak_bytes"], 176 * kMiB);
  EXPECT_EQ(other["total_bytes"], 1024 * kMiB);
  EXPECT_EQ(other["step"]["allocations"], 1);
  EXPECT_EQ(other["step"]["unmatched"]["allocations"], 1);
  EXPECT_EQ(other["step"]["unmatched"]["bytes"], 48 * kMiB);
  EXPECT_EQ(other["step"]["unmatched"]["sites"][0]["site"], "site 0x3");
  EXPECT_EQ(other["step"]["missing"]["bytes"], 32 * kMiB);
  EXPECT_EQ(other["persistent"]["unmatched"]["allocations"], 0);
  EXPECT_EQ(json["ranks"][1]["alike"], true);
}

TEST_F(PlanRanks, OneProfileIsComparedWithNothing) {
  PutRank("job.0.ebp", "0");
  EXPECT_FALSE(Contains(Plan({"job.0.ebp"}).out, "The plan is that of"));
  const Json json = Json::parse(Plan({"job.0.ebp", "--json"}).out);
  EXPECT_EQ(json["ranks"], Json::array());
  EXPECT_FALSE(json.contains("planned"));
}

TEST_F(PlanRanks, DamagedFurtherProfileIsOneLineAndThePlanIsWritten) {
  for (const char* name : {"job.0.ebp", "job.1.ebp", "job.2.ebp"}) PutRank(name, {name[4]});
  Damage("job.1.ebp");
  const Outcome outcome = Plan({"job.0.ebp", "job.1.ebp", "job.2.ebp", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome;
  EXPECT_TRUE(Exists("job.0.plan.json"));
  EXPECT_EQ(outcome.err.rfind("ebbtide: left out: job.1.ebp: ", 0), 0u) << outcome;
  EXPECT_EQ(Lines(outcome.err), 2) << "and that the plan was written: " << outcome;
  const Json ranks = Json::parse(outcome.out)["ranks"];
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[0]["profile"], "job.2.ebp");
  EXPECT_EQ(ranks[1]["profile"], "job.1.ebp");
  EXPECT_TRUE(Contains(ranks[1]["error"], "job.1.ebp")) << ranks[1];
}

TEST_F(PlanRanks, ProfileWithoutAStepIsOneLineWhereverItStands) {
  PutRank("job.ebp", "0");
  profile::Profile launcher;
  launcher.metadata = {{"program", "torchrun"}, {"rank", "0"}};
  ASSERT_TRUE(profile::WriteProfile(launcher, Path("job.4711.ebp")).ok());
  const Outcome outcome = Plan({"job.4711.ebp", "job.ebp"});
  EXPECT_EQ(outcome.code, 0) << outcome;
  EXPECT_TRUE(Exists("job.plan.json"));
  EXPECT_TRUE(Contains(outcome.err, "left out: job.4711.ebp: no repeating step")) << outcome;
  EXPECT_EQ(Lines(outcome.err), 2) << outcome;
}

TEST_F(PlanRanks, WhereNoneCanBePlannedEachHasALineAndItIs125) {
  PutRank("job.0.ebp", "0");
  Damage("job.0.ebp");
  const Outcome outcome = Plan({"job.0.ebp", "gone.ebp"});
  EXPECT_EQ(outcome.code, 125) << outcome;
  EXPECT_TRUE(Contains(outcome.err, "left out: job.0.ebp: ")) << outcome;
  EXPECT_TRUE(Contains(outcome.err, "gone.ebp")) << outcome;
  EXPECT_EQ(Lines(outcome.err), 3) << outcome;
  EXPECT_EQ(outcome.out, "");
}

TEST_F(PlanRanks, NoProfileIsOverwrittenByThePlan) {
  PutRank("job.0.ebp", "0");
  PutRank("job.1.ebp", "1");
  for (const char* output : {"job.0.ebp", "job.1.ebp"}) {
    const Outcome outcome = Plan({"job.0.ebp", "job.1.ebp", "-o", output});
    EXPECT_EQ(outcome.code, 125) << outcome;
    EXPECT_TRUE(Contains(outcome.err, std::string(output) + " is the profile")) << outcome;
  }
}

}  // namespace
}  // namespace ebt::test
