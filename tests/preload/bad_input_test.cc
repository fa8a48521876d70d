// What a person or a disk can get wrong, through the command: one line says what, CMD runs all
// the same, and --strict makes it a failure. (bad_job_input_test.cc: with a job that trains.)
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/base/config.h"
#include "src/base/units.h"
#include "src/plan/plan_file.h"
#include "src/profile/writer.h"
#include "tests/preload/run_process.h"
#include "tests/preload/small_profile.h"

namespace ebt::test {
namespace {

// A plan without a single block: valid, and of `program`; "": of `echo`.
plan::Plan EmptyPlan(std::string program = "") {
  plan::Plan plan;
  if (program.empty()) {
    const std::string echo = RunProcess({"bash", "-c", "type -P echo"}).out;
    program = ProgramIdentityOf(echo.substr(0, echo.size() - 1), {"echo"});
  }
  plan.program = program;
  plan.ebbtide = "0.1.0";
  plan.source = "job.ebp";
  plan.warm_bytes = 2 * kMiB;
  plan.planned_peak_bytes = 2 * kMiB;
  plan.step_launches = 1;
  return plan;
}

class BadInput : public testing::Test {
 protected:
  void SetUp() override { folder_ = FreshFolder(); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string PutPlan(const plan::Plan& plan) {
    const absl::Status status = plan::WritePlan(plan, Path("plan.json"));
    EXPECT_TRUE(status.ok()) << status;
    return Path("plan.json");
  }

  std::string Put(const std::string& name, const std::string& text) {
    std::ofstream(Path(name), std::ios::binary) << text;
    return Path(name);
  }

  std::string Get(const std::string& name) {
    std::stringstream text;
    text << std::ifstream(Path(name), std::ios::binary).rdbuf();
    return text.str();
  }

  Outcome Ebbtide(std::vector<std::string> words, Variables variables = {}) {
    words.insert(words.begin(), Product("ebbtide"));
    variables.emplace("LD_LIBRARY_PATH", Product("tests/simcuda"));
    return RunProcess(words, variables, folder_);
  }

  // `run` with this plan says one line that holds `reason`, and CMD runs; --strict: it does not.
  void ExpectNativeRun(const std::string& plan, const std::string& reason,
                       const std::vector<std::string>& options = {}) {
    for (bool strict : {false, true}) {
      std::vector<std::string> words = {"run", "--plan", plan};
      words.insert(words.end(), options.begin(), options.end());
      if (strict) words.push_back("--strict");
      words.insert(words.end(), {"--", "echo", "works"});
      const Outcome outcome = Ebbtide(words);
      EXPECT_EQ(outcome.code, strict ? 125 : 0);
      EXPECT_EQ(outcome.out, strict ? "" : "works\n");
      EXPECT_NE(outcome.err.find(reason), std::string::npos) << outcome.err;
      EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    }
  }

  std::string folder_;
};

TEST_F(BadInput, ValidPlanRunsCmdSilently) {
  const std::string plan = PutPlan(EmptyPlan());
  const Outcome outcome = Ebbtide({"run", "--strict", "--plan", plan, "--", "echo", "works"});
  EXPECT_EQ(outcome, (Outcome{0, "works\n", ""}));
}

TEST_F(BadInput, MissingPlanIsNamed) { ExpectNativeRun(Path("gone.json"), Path("gone.json")); }

TEST_F(BadInput, CutPlanIsRefusedWithFileAndReason) {
  PutPlan(EmptyPlan());
  const std::string whole = Get("plan.json");
  ExpectNativeRun(Put("cut.json", whole.substr(0, whole.size() / 2)), Path("cut.json"));
}

TEST_F(BadInput, DamagedPlanIsRefusedWithFileAndReason) {
  PutPlan(EmptyPlan());
  std::string text = Get("plan.json");
  text[text.size() / 3] = '\x01';
  ExpectNativeRun(Put("bad.json", text), Path("bad.json"));
}

TEST_F(BadInput, PlanThatIsAnotherKindOfFileIsRefused) {
  ExpectNativeRun(Put("list.json", "[1, 2, 3]"), Path("list.json"));
  ExpectNativeRun(Put("empty.json", ""), Path("empty.json"));
  ExpectNativeRun("/bin/true", "/bin/true");
}

TEST_F(BadInput, PlanOfAnotherProgramIsRefused) {
  ExpectNativeRun(PutPlan(EmptyPlan("trainer[00000000]")), "is the plan of trainer[00000000]");
}

TEST_F(BadInput, PlanForALargerBudgetIsRefused) {
  plan::Plan plan = EmptyPlan();
  plan.overhead_bytes = 4 * kMiB;
  ExpectNativeRun(PutPlan(plan), "needs 6.00 MiB", {"--budget", "5MiB"});
}

TEST_F(BadInput, UnknownVariableMakesAStrictRunFail) {
  const std::string plan = PutPlan(EmptyPlan());
  const Variables typo = {{"EBBTIDE_COLDD", "off"}};
  const Outcome strict = Ebbtide({"run", "--strict", "--plan", plan, "--", "echo", "x"}, typo);
  EXPECT_EQ(strict.code, 125);
  EXPECT_EQ(strict.out, "");
  const Outcome lenient = Ebbtide({"run", "--plan", plan, "--", "echo", "works"}, typo);
  EXPECT_EQ(lenient.code, 0);
  EXPECT_EQ(lenient.out, "works\n");
  EXPECT_NE(lenient.err.find("EBBTIDE_COLD?"), std::string::npos) << lenient.err;
}

TEST_F(BadInput, PlanMadeOfAnIntactProfileIsWritten) {
  ASSERT_TRUE(profile::WriteProfile(SmallProfile(), Path("job.ebp")).ok());
  const Outcome outcome = Ebbtide({"plan", "job.ebp", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome;
  EXPECT_EQ(outcome.out.front(), '{');
  EXPECT_TRUE(std::filesystem::exists(Path("job.plan.json")));
}

TEST_F(BadInput, ImpossibleBudgetIs125AndSaysByHowMuch) {
  profile::Profile profile = SmallProfile();
  // Another process may hold it: 64 MiB that no plan can take off the device.
  profile.blocks[0].exported = true;
  ASSERT_TRUE(profile::WriteProfile(profile, Path("job.ebp")).ok());
  const Outcome outcome = Ebbtide({"plan", "job.ebp", "--budget", "4KiB"});
  EXPECT_EQ(outcome.code, 125) << outcome;
  EXPECT_NE(outcome.err.find("4.00 KiB"), std::string::npos) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(Path("job.plan.json")));
}

TEST_F(BadInput, CutProfileIsOneLineWhereverItIsCut) {
  ASSERT_TRUE(profile::WriteProfile(SmallProfile(), Path("job.ebp")).ok());
  const std::string bytes = Get("job.ebp");
  for (size_t length = 0; length < bytes.size(); length += 7) {
    Put("cut.ebp", bytes.substr(0, length));
    const Outcome outcome = Ebbtide({"plan", "cut.ebp"});
    EXPECT_EQ(outcome.err.rfind("ebbtide: ", 0), 0u) << length << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("cut.ebp"), std::string::npos) << length << ": " << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.code, std::filesystem::exists(Path("cut.plan.json")) ? 0 : 125);
    std::filesystem::remove(Path("cut.plan.json"));
  }
}

TEST_F(BadInput, DamagedProfileIs125WithFileAndReason) {
  ASSERT_TRUE(profile::WriteProfile(SmallProfile(), Path("job.ebp")).ok());
  std::string bytes = Get("job.ebp");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x5a);
  Put("bad.ebp", bytes);
  const Outcome outcome = Ebbtide({"plan", "bad.ebp"});
  EXPECT_EQ(outcome.code, 125) << outcome;
  EXPECT_NE(outcome.err.find("bad.ebp"), std::string::npos) << outcome.err;
  EXPECT_EQ(Ebbtide({"plan", "/bin/true"}).code, 125);
  EXPECT_EQ(Ebbtide({"plan", "gone.ebp"}).code, 125);
}

}  // namespace
}  // namespace ebt::test
