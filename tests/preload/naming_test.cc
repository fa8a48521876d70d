// What names memory where no launch does: seen once, and a swapped block that is named so has the
// right bytes whenever it is used.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "src/base/units.h"
#include "src/plan/plan_file.h"
#include "src/profile/reader.h"
#include "src/report/run_log.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

constexpr uint64_t kSlab = 2 * kMiB;
constexpr int kStepsBefore = 2;  // of the job, in which nothing names a block so

struct Way {
  const char* name;
  std::vector<const char*> symbols;  // that name it
  bool kept;                         // not for the call alone
};
std::ostream& operator<<(std::ostream& stream, const Way& way) { return stream << way.name; }

class NamingProgram : public testing::Test {
 protected:
  NamingProgram() : folder_(FreshFolder()) {}

  std::string In(const char* name) const { return folder_ + "/" + name; }
  Outcome Run(const char* way, const Variables& more) {
    Variables variables = {{"LD_PRELOAD", Product("libebbtide.so")},
                           {"LD_LIBRARY_PATH", Product("tests/simcuda")},
                           {"SIMCUDA_LOG", In("driver.log")}};
    variables.insert(more.begin(), more.end());
    return RunProcess({Product("tests/preload/naming_program"), way}, variables, folder_);
  }
  profile::Profile Record(const char* way) {
    const Outcome outcome = Run(way, {{"EBBTIDE_MODE", "record"},
                                      {"EBBTIDE_PROFILE", In("p.ebp")},
                                      {"EBBTIDE_COVERAGE", In("coverage")}});
    EXPECT_EQ(outcome, (Outcome{0, "", ""}));
    auto profile = profile::ReadProfile(In("p.ebp"));
    EXPECT_TRUE(profile.ok()) << profile.status();
    return profile.ok() ? *std::move(profile) : profile::Profile();
  }
  // The state at home on the host, on the device for launches 2 and 3 of the five of a step.
  void WritePlan(const std::string& program) {
    const auto slot = [](uint64_t bytes, uint64_t offset, uint64_t site) {
      plan::Slot slot;
      slot.bytes = bytes;
      slot.offset = offset;
      slot.site = site;
      return slot;
    };
    const auto cold = [&](uint64_t offset, uint64_t site) {
      plan::Slot state = slot(kSlab, offset, site);
      state.tier = plan::Tier::kCold;
      state.persistent = true;
      return state;
    };
    plan::Plan plan;
    plan.program = program;
    plan.warm_bytes = 3 * kSlab;
    plan.cold_bytes = 2 * kSlab;
    plan.slab_bytes = kSlab;
    plan.slabs = {{0, 2, 3, 0}, {kSlab, 2, 3, 0}};
    plan.step_launches = 5;
    plan.prologue = {cold(3 * kSlab, 11), cold(4 * kSlab, 12), slot(kSlab, 2 * kSlab, 1)};
    plan.step = {slot(2 * kSlab, 0, 1)};
    ASSERT_TRUE(plan::WritePlan(plan, In("plan.json")).ok());
  }
  // Calls that the driver had, by its own log.
  std::map<std::string, int> DriversCalls() const {
    std::map<std::string, int> calls;
    std::ifstream log(In("driver.log"));
    for (std::string line; std::getline(log, line);) ++calls[line.substr(0, line.find(' '))];
    return calls;
  }
  std::map<std::string, nlohmann::json> Coverage() const {
    std::map<std::string, nlohmann::json> rows;
    std::ifstream file(In("coverage"));
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json row = nlohmann::json::parse(line);
      if (row.contains("symbol")) rows[row["symbol"]] = row;
    }
    return rows;
  }

  const std::string folder_;
};

class NamingTest : public NamingProgram, public testing::WithParamInterface<Way> {};

TEST_P(NamingTest, EveryCallIsToldOnce) {
  Record(GetParam().name);
  std::map<std::string, int> calls = DriversCalls();
  std::map<std::string, nlohmann::json> rows = Coverage();
  for (const char* symbol : GetParam().symbols) {
    const nlohmann::json& row = rows[symbol];
    ASSERT_FALSE(row.is_null()) << symbol;
    EXPECT_EQ(row["service"], "told") << symbol;
    EXPECT_GT(row["linked"], 0) << symbol;
    EXPECT_EQ(row["linked"], calls[symbol]) << symbol;
    for (const char* other : {"dlsym", "proc_v1", "proc_v2"}) EXPECT_EQ(row[other], 0) << symbol;
  }
}

TEST_P(NamingTest, ASwappedBlockHasTheRightBytes) {
  const profile::Profile profile = Record(GetParam().name);
  ASSERT_TRUE(profile.metadata.contains("program"));
  // The first and the second block of the state.
  ASSERT_GE(profile.blocks.size(), 2u);
  EXPECT_EQ(profile.blocks[0].kept, GetParam().kept);
  EXPECT_FALSE(profile.blocks[1].kept);
  WritePlan(profile.metadata.at("program"));
  const Outcome outcome = Run(GetParam().name, {{"EBBTIDE_MODE", "replay"},
                                                {"EBBTIDE_PLAN", In("plan.json")},
                                                {"EBBTIDE_COLD", "swap"},
                                                {"EBBTIDE_HOST_BUDGET", "1GiB"},
                                                {"EBBTIDE_RUN_LOG", In("run.log")}});
  EXPECT_EQ(outcome, (Outcome{0, "", ""}));
  const auto log = report::ReadRunLog(In("run.log"));
  ASSERT_TRUE(log.ok()) << log.status();
  // Both blocks moved in the steps before.
  EXPECT_GE(log->Number("hits"), 2 * kStepsBefore);
}

std::vector<Way> Ways() {
  constexpr bool kept = true;
  return {
      {"add-kernel-v1", {"cuGraphAddKernelNode"}, kept},
      {"add-kernel-v2", {"cuGraphAddKernelNode_v2"}, kept},
      {"add-kernel-without-context", {"cuGraphAddKernelNode"}, kept},
      {"add-memcpy", {"cuGraphAddMemcpyNode"}, kept},
      {"add-memset", {"cuGraphAddMemsetNode"}, kept},
      {"add-memop", {"cuGraphAddBatchMemOpNode"}, kept},
      {"add-v1", {"cuGraphAddNode"}, kept},
      {"add-v2-memset", {"cuGraphAddNode_v2"}, kept},
      {"add-v2-memcpy", {"cuGraphAddNode_v2"}, kept},
      {"add-v2-memop", {"cuGraphAddNode_v2"}, kept},
      {"set-kernel-v1", {"cuGraphKernelNodeSetParams"}, kept},
      {"set-kernel-v2", {"cuGraphKernelNodeSetParams_v2"}, kept},
      {"set-memcpy", {"cuGraphMemcpyNodeSetParams"}, kept},
      {"set-memset", {"cuGraphMemsetNodeSetParams"}, kept},
      {"set-memop", {"cuGraphBatchMemOpNodeSetParams"}, kept},
      {"set-any", {"cuGraphNodeSetParams"}, kept},
      {"exec-kernel-v1", {"cuGraphExecKernelNodeSetParams"}, kept},
      {"exec-kernel-v2", {"cuGraphExecKernelNodeSetParams_v2"}, kept},
      {"exec-memcpy", {"cuGraphExecMemcpyNodeSetParams"}, kept},
      {"exec-memset", {"cuGraphExecMemsetNodeSetParams"}, kept},
      {"exec-memop", {"cuGraphExecBatchMemOpNodeSetParams"}, kept},
      {"exec-any", {"cuGraphExecNodeSetParams"}, kept},
      // What these bring into a graph was told when its own graph was made.
      {"exec-update-v1", {"cuGraphAddKernelNode_v2"}, kept},
      {"exec-update-v2", {"cuGraphAddKernelNode_v2"}, kept},
      {"child-graph", {"cuGraphAddKernelNode_v2"}, kept},
      {"instantiate-params", {"cuGraphAddKernelNode"}, kept},
      {"batch-v1", {"cuMemcpyBatchAsync"}, false},
      {"batch-v2", {"cuMemcpyBatchAsync_v2"}, false},
      {"batch-3d-v1", {"cuMemcpy3DBatchAsync"}, false},
      {"batch-3d-v2", {"cuMemcpy3DBatchAsync_v2"}, false},
      {"decompress", {"cuMemBatchDecompressAsync"}, false},
      {"decompress-unsaid", {"cuMemBatchDecompressAsync"}, kept},
      {"decompress-count", {"cuMemBatchDecompressAsync"}, false},
      {"no-bytes", {"cuMemcpyDtoDAsync_v2", "cuMemcpyDtoD_v2", "cuMemsetD8Async"}, false},
      {"array-to-device", {"cuMemcpyHtoA_v2", "cuMemcpyAtoA_v2", "cuMemcpyAtoD_v2"}, false},
      {"device-to-array", {"cuMemcpyDtoA_v2", "cuMemcpyAtoH_v2"}, false},
      {"array-and-host", {"cuMemcpyHtoAAsync_v2", "cuMemcpyAtoHAsync_v2"}, false},
      {"write-32-v1", {"cuStreamWriteValue32"}, kept},
      {"write-32-v2", {"cuStreamWriteValue32_v2"}, kept},
      {"write-64-v1", {"cuStreamWriteValue64"}, kept},
      {"write-64-v2", {"cuStreamWriteValue64_v2"}, kept},
      {"wait-32-v1", {"cuStreamWaitValue32"}, kept},
      {"wait-32-v2", {"cuStreamWaitValue32_v2"}, kept},
      {"wait-64-v1", {"cuStreamWaitValue64"}, kept},
      {"wait-64-v2", {"cuStreamWaitValue64_v2"}, kept},
      {"memops-v1", {"cuStreamBatchMemOp"}, kept},
      {"memops-v2", {"cuStreamBatchMemOp_v2"}, kept},
      {"texture-linear", {"cuTexObjectCreate"}, kept},
      {"texture-pitched", {"cuTexObjectCreate"}, kept},
      {"texref", {"cuTexRefSetAddress_v2"}, kept},
      {"texref-2d-v2", {"cuTexRefSetAddress2D_v2"}, kept},
      {"texref-2d-v3", {"cuTexRefSetAddress2D_v3"}, kept},
      {"tensor-tiled", {"cuTensorMapEncodeTiled"}, kept},
      {"tensor-im2col", {"cuTensorMapEncodeIm2col"}, kept},
      {"tensor-im2col-wide", {"cuTensorMapEncodeIm2colWide"}, kept},
      {"tensor-replace", {"cuTensorMapReplaceAddress"}, kept},
      {"launch-multi-device", {"cuLaunchCooperativeKernelMultiDevice"}, kept},
      {"launch-grid-async", {"cuParamSetv", "cuLaunchGridAsync"}, kept},
      {"launch-grid", {"cuParamSetv", "cuLaunchGrid"}, kept},
      {"launch-one", {"cuParamSetv", "cuLaunch"}, kept},
      {"pieces-odd", {"cuParamSetv", "cuLaunchGridAsync"}, kept},
      {"pieces-unaligned", {"cuParamSetv", "cuLaunchGridAsync"}, kept},
      {"pieces-most", {"cuParamSetv"}, kept},
      {"pieces-refused", {"cuParamSetv"}, false},
      {"pieces-small", {"cuParamSetv"}, false},
  };
}

std::string TestName(const Way& way) {
  std::string name = way.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(EveryWay, NamingTest, testing::ValuesIn(Ways()),
                         [](const auto& info) { return TestName(info.param); });

TEST_F(NamingProgram, WorkOfNoBytesTouchesNothing) {
  const profile::Profile profile = Record("no-bytes");
  int of_no_bytes = 0;
  for (const profile::Event& event : profile.events) {
    if (event.kind != profile::EventKind::kCopy || event.bytes > 0) continue;
    EXPECT_TRUE(event.touched.empty());
    ++of_no_bytes;
  }
  EXPECT_EQ(of_no_bytes, 3 * 3 * 6);  // uses, places, calls
  WritePlan(profile.metadata.at("program"));
  // Beside a way that names the block in nothing that the driver takes.
  std::map<std::string, double> off_plan;
  for (const char* way : {"no-bytes", "pieces-refused"}) {
    const Outcome outcome = Run(way, {{"EBBTIDE_MODE", "replay"},
                                      {"EBBTIDE_PLAN", In("plan.json")},
                                      {"EBBTIDE_COLD", "swap"},
                                      {"EBBTIDE_HOST_BUDGET", "1GiB"},
                                      {"EBBTIDE_RUN_LOG", In(way)}});
    EXPECT_EQ(outcome, (Outcome{0, "", ""}));
    const auto log = report::ReadRunLog(In(way));
    ASSERT_TRUE(log.ok()) << log.status();
    EXPECT_GE(log->Number("hits"), 2 * kStepsBefore);
    off_plan[way] = log->Number("off_plan");
  }
  EXPECT_EQ(off_plan["no-bytes"], off_plan["pieces-refused"]);
}

// Work that one call queues is an event each.
struct Counted {
  Way way;
  size_t copies, launches;
};
std::ostream& operator<<(std::ostream& stream, const Counted& counted) {
  return stream << counted.way;
}

class WorkNamingTest : public NamingProgram, public testing::WithParamInterface<Counted> {};

TEST_P(WorkNamingTest, IsAnEventEach) {
  size_t copies = 0, launches = 0;
  for (const profile::Event& event : Record(GetParam().way.name).events) {
    copies += event.kind == profile::EventKind::kCopy;
    launches += event.kind == profile::EventKind::kLaunch;
  }
  EXPECT_EQ(copies, GetParam().copies);
  EXPECT_EQ(launches, GetParam().launches);
}

// The job itself copies three times, and launches 6 times before its 5 steps of 5 launches. The
// way is used three times.
INSTANTIATE_TEST_SUITE_P(
    EveryCall, WorkNamingTest,
    testing::ValuesIn(std::vector<Counted>{
        {{"batch-v1", {}, false}, 3 + 3 * 2, 31},
        {{"batch-v2", {}, false}, 3 + 3 * 2, 31},
        {{"batch-3d-v1", {}, false}, 3 + 3 * 2, 31},
        {{"batch-3d-v2", {}, false}, 3 + 3 * 2, 31},
        {{"decompress", {}, false}, 3 + 3 * 2, 31},       // bytes, and how many
        {{"array-to-device", {}, false}, 3 + 2 + 3, 31},  // two to fill the array
        {{"launch-multi-device", {}, false}, 3, 31 + 3 * 1},
        {{"launch-grid", {}, false}, 3, 31 + 3 * 1},
        {{"add-kernel-v1", {}, false}, 3, 31},  // a graph's launch is none
    }),
    [](const auto& info) { return TestName(info.param.way); });

}  // namespace
}  // namespace ebt::test
