// The whole way of the data on the simulated driver, through the command: record, plan, run.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/profile/reader.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

namespace fs = std::filesystem;

class SimulatedRun : public testing::Test {
 protected:
  void SetUp() override { folder_ = FreshFolder(); }

  // A command line of the demo trainer, run as it is or behind the words of `ebbtide`.
  Outcome Train(std::vector<std::string> words = {}) {
    if (!words.empty()) {
      words.insert(words.begin(), Product("ebbtide"));
      words.push_back("--");
    }
    words.insert(words.end(),
                 {Product("tests/demo/ebbtide-demo-trainer"), "--json", "--steps", "6"});
    return RunProcess(words, {{"LD_LIBRARY_PATH", Product("tests/simcuda")}}, folder_);
  }

  Outcome Ebbtide(std::vector<std::string> words) {
    words.insert(words.begin(), Product("ebbtide"));
    return RunProcess(words, {}, folder_);
  }

  std::string folder_;
};

TEST_F(SimulatedRun, RecordingChangesNoResultAndIsNamedAfterTheProgram) {
  const Outcome native = Train(), recorded = Train({"record"});
  ASSERT_EQ(native.code, 0) << native;
  ASSERT_EQ(recorded.code, 0) << recorded;
  const auto before = nlohmann::json::parse(native.out);
  const auto after = nlohmann::json::parse(recorded.out);
  EXPECT_EQ(after["losses"], before["losses"]);
  EXPECT_EQ(after["parameters_checksum"], before["parameters_checksum"]);
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder_))
    files.push_back(entry.path().filename());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].rfind("ebbtide-ebbtide-demo-trainer-", 0), 0u) << files[0];
  EXPECT_NE(recorded.err.find(files[0] + ": "), std::string::npos) << recorded.err;
  EXPECT_NE(recorded.err.find("next: ebbtide plan"), std::string::npos) << recorded.err;
}

TEST_F(SimulatedRun, PlannedRunKeepsToItsBudgetWithTheSameResults) {
  const Outcome native = Train();
  ASSERT_EQ(native.code, 0) << native;
  const auto before = nlohmann::json::parse(native.out);
  ASSERT_EQ(Train({"record", "-o", "job.ebp"}).code, 0);
  const uint64_t budget = before["peak_bytes"].get<uint64_t>() / 10 * 8;
  const Outcome planned =
      Ebbtide({"plan", "job.ebp", "--budget", std::to_string(budget), "--json"});
  ASSERT_EQ(planned.code, 0) << planned;
  EXPECT_TRUE(nlohmann::json::parse(planned.out)["feasible"].get<bool>());
  const Outcome run = Train({"run", "--strict", "--plan", "job.plan.json"});
  ASSERT_EQ(run.code, 0) << run;
  EXPECT_EQ(run.err, "");
  const auto after = nlohmann::json::parse(run.out);
  EXPECT_EQ(after["losses"], before["losses"]);
  EXPECT_EQ(after["parameters_checksum"], before["parameters_checksum"]);
  EXPECT_LE(after["peak_bytes"].get<uint64_t>(), budget);
}

class ProfileNames : public SimulatedRun {
 protected:
  // A shell that trains for six steps and then for eight, behind `words`.
  Outcome TrainTwice(std::vector<std::string> words, Variables variables = {}) {
    const std::string small =
        Product("tests/demo/ebbtide-demo-trainer") + " --layers 1 --hidden 4096 --steps ";
    words.insert(words.end(), {"sh", "-c", small + "6 && " + small + "8"});
    variables["LD_LIBRARY_PATH"] = Product("tests/simcuda");
    return RunProcess(words, variables, folder_);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  size_t Launches(const std::string& name) const {
    const auto profile = profile::ReadProfile(folder_ + "/" + name);
    EXPECT_TRUE(profile.ok()) << profile.status();
    return profile.ok()
               ? static_cast<size_t>(std::count_if(profile->events.begin(), profile->events.end(),
                                                   [](const profile::Event& event) {
                                                     return event.kind ==
                                                            profile::EventKind::kLaunch;
                                                   }))
               : 0;
  }
};

TEST_F(ProfileNames, SecondProcessOfARunLeavesTheFirstOnesProfileAlone) {
  std::ofstream(folder_ + "/job.ebp") << "of yesterday";
  const Outcome run = TrainTwice({Product("ebbtide"), "record", "-o", "job.ebp", "--"});
  EXPECT_EQ(run.code, 0) << run;
  const std::vector<std::string> names = Names();  // "job.4711.ebp" sorts before "job.ebp"
  ASSERT_EQ(names.size(), 2u) << testing::PrintToString(names);
  EXPECT_EQ(names[1], "job.ebp");
  // Six steps came first, and eight have more launches.
  EXPECT_LT(Launches("job.ebp"), Launches(names[0]));
  EXPECT_NE(
      run.err.find("this process's profile is " + fs::canonical(folder_).string() + "/" + names[0]),
      std::string::npos)
      << run.err;
  for (const std::string& name : names)
    EXPECT_NE(run.err.find("next: ebbtide plan " + name + "\n"), std::string::npos) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 3) << run.err;
}

TEST_F(ProfileNames, WithoutTheCommandWhatIsThereStaysToo) {
  std::ofstream(folder_ + "/job.ebp") << "of yesterday";
  const Outcome run = TrainTwice({}, {{"LD_PRELOAD", Product("libebbtide.so")},
                                      {"EBBTIDE_MODE", "record"},
                                      {"EBBTIDE_PROFILE", "job.ebp"}});
  EXPECT_EQ(run.code, 0) << run;
  const std::vector<std::string> names = Names();
  ASSERT_EQ(names.size(), 3u) << testing::PrintToString(names);
  std::string kept;
  std::getline(std::ifstream(folder_ + "/job.ebp"), kept);
  EXPECT_EQ(kept, "of yesterday");
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 2) << run.err;
}

TEST_F(SimulatedRun, DoctorFindsTheDriverAndItsDevice) {
  const Outcome doctor = RunProcess({Product("ebbtide"), "doctor"},
                                    {{"LD_LIBRARY_PATH", Product("tests/simcuda")}}, folder_);
  EXPECT_EQ(doctor.code, 0) << doctor;
  EXPECT_NE(doctor.out.find("(simulated)"), std::string::npos);
}

}  // namespace
}  // namespace ebt::test
