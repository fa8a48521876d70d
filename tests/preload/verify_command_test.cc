// The command `ebbtide verify` with jobs that are scripts: they say what the library would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "src/base/units.h"
#include "src/plan/plan_file.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Words = std::vector<std::string>;

// Says its name first, what it was started with into "runs", and that all sites were named.
constexpr char kBegin[] =
    "say() { echo \"{\\\"pid\\\":$$,$1}\" >>\"$EBBTIDE_TRIAL\"; }\n"
    "echo \"$EBBTIDE_TRIAL_SITES\" >>runs\n"
    "say '\"gpu\":\"G\",\"driver\":13000'\n"
    "for site in $(echo \"$EBBTIDE_TRIAL_SITES\" | tr , ' '); do say '\"touched\":[\"'$site'\"]'; "
    "done\n";
// Steps forever, as a training job does.
constexpr char kTrain[] = "n=0; while :; do n=$((n+1)); say '\"steps\":'$n; sleep 0.01; done\n";
constexpr char kFault[] =
    "say '\"fault\":\"access\",\"launch\":\"ebt_chase\",\"error\":\"ILLEGAL\"'; sleep 60\n";

class VerifyCommand : public testing::Test {
 protected:
  // Three sites of 1 MiB each in two slabs.
  void SetUp() override {
    folder_ = FreshFolder();
    plan::Plan plan;
    plan.program = "trainer";
    plan.warm_bytes = plan.cold_bytes = 4 * kMiB;
    plan.step_launches = 10;
    plan.slab_bytes = 2 * kMiB;
    plan.slabs = {{0, 2, 4, 6}, {2 * kMiB, 3, 5, 7}};
    for (uint64_t site : {0x5, 0x7, 0x9}) {
      plan::Slot slot;
      slot.site = site;
      slot.bytes = kMiB;
      slot.tier = plan::Tier::kCold;
      slot.offset = plan.warm_bytes + plan.prologue.size() * kMiB;
      slot.persistent = true;
      plan.prologue.push_back(slot);
    }
    plan.sites = {{0x5, "first.cc:5"}, {0x7, "second.cc:7"}};
    const absl::Status written = plan::WritePlan(plan, folder_ + "/p.json");
    ASSERT_TRUE(written.ok()) << written;
  }

  Words Command(const std::string& script, Words options = {}) const {
    std::ofstream(folder_ + "/job.sh") << script;
    Words words = {Product("ebbtide"), "verify", "--plan", "p.json"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "sh", "job.sh", "a b"});
    return words;
  }
  Variables Surroundings() const {
    return {{"LD_LIBRARY_PATH", Product("tests/simcuda")}, {"TMPDIR", folder_}};
  }
  Outcome Verify(const std::string& script, Words options = {}) {
    return RunProcess(Command(script, std::move(options)), Surroundings(), folder_);
  }
  plan::Plan Plan() const { return plan::ReadPlan(folder_ + "/p.json").value(); }
  std::string Runs() const {
    std::ostringstream text;
    text << std::ifstream(folder_ + "/runs").rdbuf();
    return text.str();
  }
  // Temporary folders of trials that are still there.
  int LeftBehind() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      count += entry.is_directory();
    return count;
  }

  std::string folder_;
};

TEST_F(VerifyCommand, ClearsWhatPassesAndWritesItIntoThePlan) {
  const Outcome verified = Verify(std::string(kBegin) + kTrain);
  ASSERT_EQ(verified.code, 0) << verified;
  EXPECT_EQ(Runs(), "0x5,0x7,0x9\n");
  EXPECT_THAT(verified.out, HasSubstr("cleared  3 of 3 sites, 3.00 MiB\n"));
  EXPECT_THAT(verified.out, HasSubstr("1.00 MiB  first.cc:5\n"));
  EXPECT_THAT(verified.out, HasSubstr("site 0x9"));
  EXPECT_THAT(verified.out, HasSubstr("Cleared is not proved"));
  const plan::Plan plan = Plan();
  ASSERT_EQ(plan.cleared.size(), 1u);
  EXPECT_THAT(plan.cleared[0].sites, ElementsAre(0x5, 0x7, 0x9));
  EXPECT_EQ(plan.cleared[0].command, "sh job.sh 'a b'");
  EXPECT_EQ(plan.cleared[0].gpu, "G");
  EXPECT_EQ(plan.cleared[0].driver_version, 13000);
  EXPECT_EQ(plan.cleared[0].ebbtide, EBBTIDE_VERSION);
  EXPECT_GE(plan.cleared[0].steps, 3u);
  EXPECT_EQ(LeftBehind(), 0);
}

TEST_F(VerifyCommand, NamesTheSiteThatFaultsAndClearsTheRest) {
  const Outcome verified = Verify(std::string(kBegin) + "case $EBBTIDE_TRIAL_SITES in *0x7*) " +
                                  kFault + ";; esac\n" + kTrain);
  ASSERT_EQ(verified.code, 0) << verified;
  // All; none, to see that the job works; then the first half, and the others with it.
  EXPECT_EQ(Runs(), "0x5,0x7,0x9\n\n0x5\n0x5,0x7\n0x5,0x9\n");
  EXPECT_THAT(verified.out, HasSubstr("cleared  2 of 3 sites"));
  EXPECT_THAT(verified.out, HasSubstr("second.cc:7\n"));
  EXPECT_THAT(verified.out, HasSubstr("ebt_chase reaches it without naming it (ILLEGAL)"));
  EXPECT_THAT(Plan().cleared[0].sites, ElementsAre(0x5, 0x9));
}

TEST_F(VerifyCommand, AJobThatFailsByItselfIs125WithItsLastWords) {
  const Outcome verified = Verify(std::string(kBegin) + "echo no data >&2; exit 3\n");
  EXPECT_EQ(verified.code, 125) << verified;
  EXPECT_EQ(Runs(), "0x5,0x7,0x9\n\n");
  EXPECT_EQ(verified.out, "");
  EXPECT_THAT(verified.err, HasSubstr("no data\n"));
  EXPECT_THAT(verified.err, HasSubstr("CMD itself fails, with no site on trial: exit code 3"));
  EXPECT_TRUE(Plan().cleared.empty());
}

TEST_F(VerifyCommand, TheJobsOutputIsNotShown) {
  const Outcome verified = Verify("echo chatter; echo noise >&2\n" + std::string(kBegin) + kTrain);
  EXPECT_THAT(verified.out + verified.err, Not(HasSubstr("chatter")));
  EXPECT_THAT(verified.err, Not(HasSubstr("noise")));
}

TEST_F(VerifyCommand, AJobThatEndsWellAfterOneWatchedStepIsEnough) {
  const Outcome verified =
      Verify(std::string(kBegin) + "say '\"steps\":1'; say '\"steps\":2'; exit 0\n");
  ASSERT_EQ(verified.code, 0) << verified;
  EXPECT_THAT(verified.out, HasSubstr("1 step of this command"));
  EXPECT_EQ(Plan().cleared[0].steps, 1u);
}

TEST_F(VerifyCommand, AJobThatEndsBeforeAStepIsOverClearsNothing) {
  const Outcome verified = Verify(std::string(kBegin) + "say '\"steps\":1'; exit 0\n");
  EXPECT_EQ(verified.code, 125) << verified;
  EXPECT_THAT(verified.err, HasSubstr("too few steps to watch"));
}

TEST_F(VerifyCommand, AJobThatNeverKeepsToThePlanClearsNothing) {
  const Outcome verified = Verify("exit 0\n");
  EXPECT_EQ(verified.code, 125) << verified;
  EXPECT_THAT(verified.err, HasSubstr("no process of CMD kept to the plan"));
}

TEST_F(VerifyCommand, TheTimeIsUpBeforeAnythingIsWatched) {
  const Outcome verified = Verify(std::string(kBegin) + "sleep 60\n", {"--timeout", "1"});
  EXPECT_EQ(verified.code, 125) << verified;
  EXPECT_THAT(verified.err, HasSubstr("within 1 seconds; raise --timeout"));
}

TEST_F(VerifyCommand, ASiteWhoseAddressIsKeptIsRefusedAtOnce) {
  const Outcome verified = Verify(
      std::string(kBegin) +
      "case $EBBTIDE_TRIAL_SITES in *0x5*) say '\"fault\":\"captured\",\"launch\":\"matmul\","
      "\"sites\":[\"0x5\"]'; sleep 60;; esac\n" +
      kTrain);
  ASSERT_EQ(verified.code, 0) << verified;
  EXPECT_EQ(Runs(), "0x5,0x7,0x9\n0x7,0x9\n");
  EXPECT_THAT(verified.out, HasSubstr("matmul keeps its address for later use"));
}

TEST_F(VerifyCommand, ADriverThatCannotRunTheTrialIs125) {
  const Outcome verified =
      Verify(std::string(kBegin) +
             "say '\"fault\":\"driver\",\"launch\":\"\",\"error\":\"OUT_OF_MEMORY\"'; sleep 60\n");
  EXPECT_EQ(verified.code, 125) << verified;
  EXPECT_THAT(verified.err, HasSubstr("refused what a trial needs: OUT_OF_MEMORY"));
}

TEST_F(VerifyCommand, ARefusedSiteLeavesWhatAnotherCommandHadCleared) {
  ASSERT_EQ(Verify(std::string(kBegin) + kTrain, {"--steps", "1"}).code, 0);
  plan::Plan before = Plan();
  before.cleared[0].command = "another";
  ASSERT_TRUE(plan::WritePlan(before, folder_ + "/p.json").ok());
  ASSERT_EQ(Verify(std::string(kBegin) + "case $EBBTIDE_TRIAL_SITES in *0x*) " + kFault +
                   ";; esac\n" + kTrain)
                .code,
            0);
  EXPECT_THAT(Plan().cleared, IsEmpty());
}

TEST_F(VerifyCommand, AnInterruptEndsTheJobAndLeavesThePlan) {
  const Process process =
      Start(Command(std::string(kBegin) + "echo $$ >job.pid; sleep 60\n"), Surroundings(), folder_);
  pid_t job = 0;
  for (int i = 0; i < 1000 && job == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::ifstream(folder_ + "/job.pid") >> job;
  }
  ASSERT_GT(job, 0);
  kill(process.pid, SIGINT);
  const Outcome verified = Finish(process);
  EXPECT_EQ(verified.code, 130) << verified;
  EXPECT_NE(kill(job, 0), 0) << "the job runs on";
  EXPECT_TRUE(Plan().cleared.empty());
  EXPECT_EQ(LeftBehind(), 0);
}

TEST_F(VerifyCommand, ACommandThatIsNotThereIsSaid) {
  const Outcome verified =
      RunProcess({Product("ebbtide"), "verify", "--plan", "p.json", "--", "./no-such-program"},
                 Surroundings(), folder_);
  EXPECT_EQ(verified.code, 125) << verified;
  EXPECT_THAT(verified.err, HasSubstr("./no-such-program cannot be started"));
}

}  // namespace
}  // namespace ebt::test
