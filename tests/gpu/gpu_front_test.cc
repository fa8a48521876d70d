// The demo trainer as a child process under the real products: whatever Ebbtide does, the results
// are those of the run without it, and those of the simulated driver.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "tests/gpu/gpu_device.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

namespace fs = std::filesystem;

// A default run of 20 steps. The trainer's arithmetic is IEEE, rounded to nearest and never fused,
// so every machine gives these.
constexpr char kLosses[] = "0xc2d7a2bbe870f73f", kParameters[] = "0x24860d3c93fda787";

// $variable, else the first of the paths from this program's folder that is there.
std::string Find(const char* variable, const std::vector<std::string>& paths) {
  if (const char* value = getenv(variable); value != nullptr && *value != '\0') return value;
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  for (const std::string& path : paths) {
    if (fs::exists(folder / path)) return (folder / path).lexically_normal();
  }
  return paths.front();  // it is missed where it is first used
}

class GpuFront : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    folder_ = FreshFolder();
    for (const std::string& product : {command_, library_, trainer_})
      ASSERT_TRUE(fs::exists(product)) << product << " is missing";
  }

  // The trainer with the library preloaded if `variables` are given, by them alone.
  Outcome Train(Variables variables, const std::vector<std::string>& options = {}) {
    if (!variables.empty()) variables["LD_PRELOAD"] = library_;
    std::vector<std::string> words = {trainer_, "--json"};
    words.insert(words.end(), options.begin(), options.end());
    return RunProcess(words, variables, folder_);
  }
  Outcome Record(const std::vector<std::string>& options = {}) {
    return Train({{"EBBTIDE_MODE", "record"}, {"EBBTIDE_PROFILE", Path("job.ebp")}}, options);
  }
  void RecordAndPlan() {
    const Outcome recorded = Record();
    ASSERT_EQ(recorded.code, 0) << recorded;
    // Without a budget the optimizer state goes cold and everything else stays.
    const Outcome planned =
        RunProcess({command_, "plan", Path("job.ebp"), "-o", Path("job.plan.json")}, {}, folder_);
    ASSERT_EQ(planned.code, 0) << planned;
    printf("%s", planned.out.c_str());
  }
  Outcome Replay(const std::string& cold) {
    return Train({{"EBBTIDE_MODE", "replay"},
                  {"EBBTIDE_PLAN", Path("job.plan.json")},
                  {"EBBTIDE_COLD", cold},
                  {"EBBTIDE_LOG", "info"}});
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  static void ExpectKnownResults(const Outcome& outcome) {
    ASSERT_EQ(outcome.code, 0) << outcome;
    const auto report = nlohmann::json::parse(outcome.out, nullptr, false);
    ASSERT_FALSE(report.is_discarded()) << outcome;
    EXPECT_EQ(report.value("losses_checksum", ""), kLosses) << outcome.err;
    EXPECT_EQ(report.value("parameters_checksum", ""), kParameters) << outcome.err;
  }
  // The plan was kept to: the parting line counts what it served.
  static void ExpectPlannedAllocations(const Outcome& outcome) {
    std::smatch found;
    ASSERT_TRUE(std::regex_search(outcome.err, found, std::regex("([0-9]+) planned"))) << outcome;
    EXPECT_GT(std::stoull(found[1]), 0u) << outcome.err;
    printf("%s", outcome.err.c_str());
  }

  const std::string command_ = Find("TEST_COMMAND", {"../../bin/ebbtide", "../../ebbtide"});
  const std::string library_ =
      Find("TEST_LIBRARY", {"../../lib/libebbtide.so", "../../libebbtide.so"});
  const std::string trainer_ = Find("TEST_TRAINER", {"../demo/ebbtide-demo-trainer"});
  std::string folder_;
};

TEST_F(GpuFront, NativeRunGivesTheResultsOfTheSimulatedDriver) { ExpectKnownResults(Train({})); }

TEST_F(GpuFront, RecordingChangesNoResult) {
  const Outcome recorded = Record();
  ExpectKnownResults(recorded);
  EXPECT_TRUE(fs::exists(Path("job.ebp"))) << recorded;
}

TEST_F(GpuFront, RecordingALibraryLoadingProgramThroughDlsymChangesNoResult) {
  const Outcome recorded = Record({"--via", "dlsym", "--handles", "library"});
  ExpectKnownResults(recorded);
  EXPECT_TRUE(fs::exists(Path("job.ebp"))) << recorded;
}

TEST_F(GpuFront, PlannedRunWithColdBlocksOnTheDeviceChangesNoResult) {
  ASSERT_NO_FATAL_FAILURE(RecordAndPlan());
  const Outcome replayed = Replay("off");
  ExpectKnownResults(replayed);
  ExpectPlannedAllocations(replayed);
}

TEST_F(GpuFront, PlannedRunWithColdBlocksOnTheHostChangesNoResult) {
  ASSERT_NO_FATAL_FAILURE(RecordAndPlan());
  const Outcome replayed = Replay("managed");
  ExpectKnownResults(replayed);
  ExpectPlannedAllocations(replayed);
  EXPECT_EQ(replayed.err.find("stay on the device"), std::string::npos) << replayed.err;
}

}  // namespace
}  // namespace ebt::test
