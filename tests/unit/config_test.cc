#include "src/base/config.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "src/base/host_memory.h"

namespace ebt {
namespace {

TEST(ParseConfig, EmptyEnvironmentGivesTheDefaults) {
  const Config config = ParseConfig({"PATH=/usr/bin", "HOME=/root"});
  EXPECT_EQ(config.mode, Mode::kOff);
  EXPECT_EQ(config.plan_path, "");
  EXPECT_EQ(config.budget, 0u);
  EXPECT_EQ(config.cold, Cold::kAuto);
  EXPECT_EQ(config.torch_backend, TorchBackend::kAsync);
  EXPECT_EQ(config.record_steps, 0);
  EXPECT_FALSE(config.strict);
  EXPECT_EQ(config.log_level, LogLevel::kWarning);
  EXPECT_TRUE(config.complaints.empty());
}

TEST(ParseConfig, EveryVariableIsRead) {
  const Config config =
      ParseConfig({"EBBTIDE_MODE=replay", "EBBTIDE_PROFILE=/tmp/p.ebp", "EBBTIDE_PLAN=/tmp/p.json",
                   "EBBTIDE_BUDGET=24GiB", "EBBTIDE_HOST_BUDGET=500MB", "EBBTIDE_COLD=Managed",
                   "EBBTIDE_TORCH_BACKEND=keep", "EBBTIDE_STEPS=7", "EBBTIDE_STEP_KERNEL=adam",
                   "EBBTIDE_STRICT=1", "EBBTIDE_LOG=debug"});
  EXPECT_EQ(config.mode, Mode::kReplay);
  EXPECT_EQ(config.profile_path, "/tmp/p.ebp");
  EXPECT_EQ(config.plan_path, "/tmp/p.json");
  EXPECT_EQ(config.budget, 25769803776u);
  EXPECT_EQ(config.host_budget, 500000000u);
  EXPECT_EQ(config.cold, Cold::kManaged);
  EXPECT_EQ(config.torch_backend, TorchBackend::kKeep);
  EXPECT_EQ(config.record_steps, 7);
  EXPECT_EQ(config.step_kernel, "adam");
  EXPECT_TRUE(config.strict);
  EXPECT_EQ(config.log_level, LogLevel::kDebug);
  EXPECT_TRUE(config.complaints.empty());
}

TEST(ParseConfig, EmptyValueMeansTheDefault) {
  const Config config = ParseConfig({"EBBTIDE_MODE=", "EBBTIDE_BUDGET=", "EBBTIDE_STEPS="});
  EXPECT_EQ(config.mode, Mode::kOff);
  EXPECT_TRUE(config.complaints.empty());
}

TEST(ParseConfig, UnknownNameIsAnsweredWithTheNearest) {
  const Config config = ParseConfig({"EBBTIDE_BUGDET=1GiB"});
  ASSERT_EQ(config.complaints.size(), 1u);
  EXPECT_NE(config.complaints[0].find("EBBTIDE_BUGDET is not"), std::string::npos);
  EXPECT_NE(config.complaints[0].find("EBBTIDE_BUDGET?"), std::string::npos);
}

TEST(ParseConfig, UnreadableValueIsAnsweredWithWhatIsAccepted) {
  const Config config = ParseConfig({"EBBTIDE_MODE=fast", "EBBTIDE_STEPS=-2"});
  ASSERT_EQ(config.complaints.size(), 2u);
  EXPECT_EQ(config.complaints[0],
            "EBBTIDE_MODE=fast is not understood; accepted: off, record, replay; off is used");
  EXPECT_EQ(config.complaints[1],
            "EBBTIDE_STEPS=-2 is not understood; accepted: a whole number from 0 up; 0 is used");
  EXPECT_EQ(config.mode, Mode::kOff);
}

TEST(ParseConfig, UnreadableBudgetIsNoLimitAndSaysSo) {
  const Config config = ParseConfig({"EBBTIDE_BUDGET=lots"});
  EXPECT_EQ(config.budget, 0u);
  ASSERT_EQ(config.complaints.size(), 1u);
  EXPECT_NE(config.complaints[0].find("EBBTIDE_BUDGET: size \"lots\""), std::string::npos);
}

TEST(ParseConfig, SignalIsOneThatIsFreeForOthersOrNone) {
  EXPECT_EQ(ParseConfig({}).dump_signal, 0);
  EXPECT_EQ(ParseConfig({"EBBTIDE_DUMP_SIGNAL=usr2"}).dump_signal, SIGUSR2);
  const Config config = ParseConfig({"EBBTIDE_DUMP_SIGNAL=TERM"});
  EXPECT_EQ(config.dump_signal, 0);
  ASSERT_EQ(config.complaints.size(), 1u);
  EXPECT_EQ(config.complaints[0],
            "EBBTIDE_DUMP_SIGNAL=TERM is not understood; accepted: USR1, USR2, URG, WINCH, RTMIN+0 "
            "to RTMIN+30; none is caught");
}

TEST(ParseConfig, DumpPathIsFilledIn) {
  EXPECT_EQ(ParseConfig({}).dump_path, "");
  EXPECT_EQ(ParseConfig({"EBBTIDE_DUMP=/d/{pid}"}).dump_path, "/d/" + std::to_string(getpid()));
}

TEST(ParseConfig, FirstOfTwoEntriesCountsAsForGetenv) {
  EXPECT_EQ(ParseConfig({"EBBTIDE_STEPS=3", "EBBTIDE_STEPS=4"}).record_steps, 3);
}

TEST(FillPath, PlaceholdersAreFilledIn) {
  setenv("RANK", "5", 1);
  EXPECT_EQ(FillPath("r{rank}/{pid}.ebp"), "r5/" + std::to_string(getpid()) + ".ebp");
  EXPECT_EQ(FillPath("{program}"), "config_test");
  EXPECT_EQ(FillPath("{host}").find('{'), std::string::npos);
  unsetenv("RANK");
}

TEST(FillPath, RankThatIsNoNumberIsPassedOver) {
  setenv("RANK", "../x", 1);
  setenv("SLURM_PROCID", "2", 1);
  EXPECT_EQ(FillPath("{rank}"), "2");
  unsetenv("SLURM_PROCID");
  EXPECT_EQ(FillPath("{rank}"), "0");
  unsetenv("RANK");
}

TEST(FillPath, UnknownPlaceholderStays) { EXPECT_EQ(FillPath("{step}.ebp"), "{step}.ebp"); }

TEST(ProgramIdentity, InterpreterIsNamedWithItsSubject) {
  const std::string python = "/nowhere/python3.12";
  EXPECT_EQ(ProgramIdentityOf(python, {"python", "-u", "dir/train.py", "--lr=1"}),
            "python3.12:train.py");
  EXPECT_EQ(ProgramIdentityOf(python, {"python", "-X", "dev", "train.py"}), "python3.12:train.py");
  EXPECT_EQ(ProgramIdentityOf(python, {"python", "-Wignore", "train.py"}), "python3.12:train.py");
  EXPECT_EQ(ProgramIdentityOf(python, {"python", "-um", "pkg.train", "x"}), "python3.12:pkg.train");
  EXPECT_EQ(ProgramIdentityOf(python, {"python", "-mtrain"}), "python3.12:train");
  EXPECT_EQ(ProgramIdentityOf(python, {"python", "-c", "print()"}), "python3.12:-c");
  EXPECT_EQ(ProgramIdentityOf(python, {"python"}), "python3.12");
  EXPECT_EQ(ProgramIdentityOf("/nowhere/bash", {"bash", "-e", "job.sh"}), "bash:job.sh");
}

TEST(ProgramIdentity, ArgumentsOfACompiledProgramDoNotCount) {
  EXPECT_EQ(ProgramIdentityOf("/nowhere/trainer", {"trainer", "a.py"}), "trainer");
}

// An ELF file whose only segment is one note: what is read is worked out by hand.
std::string WriteElfWithBuildId(const std::string& path) {
  std::string file(64 + 56, '\0');
  file.replace(0, 5,
               "\x7f"
               "ELF\x02");
  file[32] = 64;               // e_phoff
  file[54] = 56;               // e_phentsize
  file[56] = 1;                // e_phnum
  file[64] = 4;                // p_type = PT_NOTE
  file[64 + 8] = 64 + 56;      // p_offset
  file[64 + 32] = 12 + 4 + 8;  // p_filesz
  file += std::string("\x04\0\0\0\x08\0\0\0\x03\0\0\0GNU\0", 16);
  file += "\xab\x12\xcd\x34\x01\x02\x03\x04";
  std::ofstream(path, std::ios::binary) << file;
  return file;
}

TEST(ProgramIdentity, BuildIdIsItsFirstEightDigits) {
  const std::string path = testing::TempDir() + "ebbtide_trainer";
  WriteElfWithBuildId(path);
  EXPECT_EQ(ProgramIdentityOf(path, {"t"}), "ebbtide_trainer[ab12cd34]");
}

TEST(ProgramIdentity, DamagedExecutableIsNamedWithoutBuildId) {
  const std::string path = testing::TempDir() + "ebbtide_trainer_cut";
  const std::string whole = WriteElfWithBuildId(path);
  for (size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << whole.substr(0, size);
    EXPECT_EQ(ProgramIdentityOf(path, {"t"}), "ebbtide_trainer_cut") << size;
  }
}

// A root of our own with the files that the kernel would show.
class HostMemory : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "ebbtide_root";
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  std::string root_;
};

TEST_F(HostMemory, NothingReadableIsUnknown) { EXPECT_EQ(AvailableHostMemoryBelow(root_), 0u); }

TEST_F(HostMemory, WithoutCgroupItIsMemAvailable) {
  Put("/proc/meminfo", "MemTotal:       9999 kB\nMemAvailable:   1000 kB\n");
  EXPECT_EQ(AvailableHostMemoryBelow(root_), 1024000u);
}

TEST_F(HostMemory, TightestAncestorOfAV2CgroupCounts) {
  Put("/proc/meminfo", "MemAvailable: 1000 kB\n");
  Put("/proc/self/cgroup", "0::/job/step\n");
  Put("/sys/fs/cgroup/job/step/memory.max", "max\n");
  Put("/sys/fs/cgroup/job/step/memory.current", "5000\n");
  Put("/sys/fs/cgroup/job/memory.max", "90000\n");
  Put("/sys/fs/cgroup/job/memory.current", "50000\n");
  // 90000 - (50000 - 20000): page cache is given back on demand.
  Put("/sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 20000\n");
  EXPECT_EQ(AvailableHostMemoryBelow(root_), 60000u);
}

TEST_F(HostMemory, V1CgroupOfAnotherNamespaceFallsBackToTheMountsRoot) {
  Put("/proc/meminfo", "MemAvailable: 1000 kB\n");
  Put("/proc/self/cgroup", "5:cpu,memory:/docker/abc\n");
  Put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "70000\n");
  Put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "80000\n");
  EXPECT_EQ(AvailableHostMemoryBelow(root_), 1u);
  Put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "30000\n");
  EXPECT_EQ(AvailableHostMemoryBelow(root_), 40000u);
}

}  // namespace
}  // namespace ebt
