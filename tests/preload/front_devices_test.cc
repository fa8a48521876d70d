// Replay before a real child process of two simulated devices: what the hooks of peers, pools,
// pointers, handles and graphs hand on. What the replayer makes of it has its own unit tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "src/base/config.h"
#include "src/base/units.h"
#include "src/plan/plan_file.h"
#include "src/profile/reader.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

using plan::Slot;
using plan::Tier;

class FrontDevicesTest : public ::testing::Test {
 protected:
  // No fingerprint: order and size alone decide.
  static Slot SlotAt(Tier tier, uint64_t bytes, uint64_t offset) {
    Slot slot;
    slot.tier = tier;
    slot.site = 1;
    slot.bytes = bytes;
    slot.offset = offset;
    slot.persistent = tier == Tier::kCold;
    return slot;
  }
  // Warm slots at [0, 64 MiB), cold ones behind them. The devices have 100 MiB each.
  Outcome Replay(const std::string& action, std::vector<Slot> prologue,
                 std::vector<Slot> step = {}) {
    const std::vector<std::string> argv = {Product("tests/preload/front_devices_program"), action};
    plan::Plan plan;
    plan.program = ProgramIdentityOf(argv[0], argv);
    plan.warm_bytes = kWarm;
    plan.step_launches = 6;
    plan.prologue = std::move(prologue);
    plan.step = std::move(step);
    for (uint32_t i = 0; i < plan.prologue.size(); ++i) {
      plan.prologue[i].ordinal = i;
      if (plan.prologue[i].tier == Tier::kCold) plan.cold_bytes = 2 * kMiB;
    }
    const std::string file = folder_ + "/plan.json";
    EXPECT_TRUE(plan::WritePlan(plan, file).ok());
    return RunProcess(argv,
                      {{"LD_PRELOAD", Product("libebbtide.so")},
                       {"LD_LIBRARY_PATH", Product("tests/simcuda")},
                       {"SIMCUDA_DEVICES", "2"},
                       {"SIMCUDA_MEMORY", "100MiB"},
                       {"EBBTIDE_MODE", "replay"},
                       {"EBBTIDE_PLAN", file}},
                      folder_);
  }

  static constexpr uint64_t kWarm = 64 * kMiB;
  const std::string folder_ = FreshFolder();
};

TEST_F(FrontDevicesTest, AFreeUnderAnotherDevicesContextWaitsForTheBlocksWork) {
  // CUDA_ERROR_NOT_READY, then CUDA_SUCCESS.
  EXPECT_EQ(Replay("free-elsewhere", {SlotAt(Tier::kWarm, 16 * kMiB, 0)}),
            (Outcome{0, "before 600\nafter 0\n", ""}));
}

// The argument: how 80 MiB are asked for once 64 planned ones are idle.
class FrontFullDeviceTest : public FrontDevicesTest,
                            public ::testing::WithParamInterface<const char*> {};

TEST_P(FrontFullDeviceTest, IdlePlannedMemoryDoesNotExhaustTheDevice) {
  EXPECT_EQ(Replay(GetParam(), {SlotAt(Tier::kWarm, kWarm, 0)}),
            (Outcome{0, "idle 64\nthen 80\n", ""}));
}

INSTANTIATE_TEST_SUITE_P(EveryWay, FrontFullDeviceTest,
                         ::testing::Values("fill-linear", "fill-ordered", "fill-pitched",
                                           "fill-handle", "fill-second-context",
                                           "fill-second-device"));

TEST_F(FrontDevicesTest, APeerReachesPlannedMemoryMappedBeforeAndAfter) {
  const std::vector<Slot> plan = {SlotAt(Tier::kWarm, 4096, 0),
                                  SlotAt(Tier::kWarm, 8192, 32 * kMiB)};
  const Outcome right = {0, "apart 1\nbefore 3\nafter 4\n", ""};
  EXPECT_EQ(Replay("peer-context", plan), right);
  EXPECT_EQ(Replay("peer-pool", plan), right);
}

TEST_F(FrontDevicesTest, PointerAttributesAgreeWithTheAddressRange) {
  EXPECT_EQ(
      Replay("attributes", {SlotAt(Tier::kCold, 1000, kWarm), SlotAt(Tier::kWarm, 2000, 4096)}),
      (Outcome{0,
               "base 1 1 1, bytes 1000 1000 1000, managed 0 0, pool 1\n"
               "base 1 1 1, bytes 2000 2000 2000, managed 0 0, pool 1\n",
               ""}));
}

TEST_F(FrontDevicesTest, AnExportOfPlannedMemoryIsRefusedInOneLineThatNamesTheRemedy) {
  const Outcome outcome = Replay("export", {SlotAt(Tier::kWarm, 4096, 0)});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "export 1\n");  // the driver's own CUDA_ERROR_INVALID_VALUE
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_THAT(outcome.err, ::testing::HasSubstr("record the job again"));
}

TEST_F(FrontDevicesTest, HandlesOfDevicesAreRecordedFromCreationToRelease) {
  const std::string file = folder_ + "/handles.ebp";
  EXPECT_EQ(RunProcess({Product("tests/preload/front_devices_program"), "handles"},
                       {{"LD_PRELOAD", Product("libebbtide.so")},
                        {"LD_LIBRARY_PATH", Product("tests/simcuda")},
                        {"SIMCUDA_DEVICES", "2"},
                        {"EBBTIDE_MODE", "record"},
                        {"EBBTIDE_PROFILE", file}},
                       folder_),
            (Outcome{0, "", ""}));
  const auto profile = profile::ReadProfile(file);
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->blocks.size(), 2u);
  for (const profile::Block& block : profile->blocks)
    EXPECT_EQ(block.kind, profile::AllocKind::kVmm);
  EXPECT_EQ(profile->blocks[0].bytes, 2 * kMiB);
  EXPECT_NE(profile->blocks[0].free_at, profile::kNever);
  EXPECT_EQ(profile->blocks[1].bytes, 4 * kMiB);
  EXPECT_EQ(profile->blocks[1].free_at, profile::kNever);
}

TEST_F(FrontDevicesTest, AGraphIsALaunchOfTheStep) {
  Slot cold = SlotAt(Tier::kCold, 2 * kMiB, kWarm);
  cold.use = plan::ColdUse::kPrefetch;
  cold.fetch_launch = 2;
  cold.evict_launch = 3;
  EXPECT_EQ(Replay("graphs", {cold}, {SlotAt(Tier::kWarm, 4096, 0)}),
            (Outcome{0,
                     "launch 0: 0\nlaunch 1: 0\nlaunch 2: 1\n"   // fetched before launch 2
                     "launch 3: 1\nlaunch 4: 2\nlaunch 5: 2\n",  // sent back after launch 3
                     ""}));
}

}  // namespace
}  // namespace ebt::test
