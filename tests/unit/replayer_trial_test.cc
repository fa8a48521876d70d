// Under `ebbtide verify`: what the replayer writes of a trial.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/unit/swapped_program.h"

namespace ebt::replay {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr const char* kFirstText = "0xb";  // of site 11
constexpr const char* kSecondText = "0xc";

class ReplayerTrialTest : public SwappedProgram {
 protected:
  ReplayerTrialTest() : outcome_(folder_ + "/outcome") { std::ofstream{outcome_}; }

  void StartTrial(std::vector<uint64_t> sites, plan::Plan plan = ThePlan()) {
    ReplayOptions options = Options(ebt::Cold::kAuto);
    options.trial_path = outcome_;
    options.trial_sites = std::move(sites);
    Start(options, std::move(plan));
  }
  std::vector<json> Lines() const {
    std::vector<json> lines;
    std::ifstream file(outcome_);
    for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
    return lines;
  }
  // The lines that have this name, its values alone.
  std::vector<json> Of(const std::string& name) const {
    std::vector<json> values;
    for (const json& line : Lines())
      if (line.contains(name)) values.push_back(line[name]);
    return values;
  }
  json OnlyFault() const {
    std::vector<json> faults;
    for (const json& line : Lines())
      if (line.contains("fault")) faults.push_back(line);
    EXPECT_EQ(faults.size(), 1u);
    return faults.empty() ? json() : faults[0];
  }
  std::vector<std::string> TouchedSites() const {
    std::vector<std::string> sites;
    for (const json& list : Of("touched"))
      for (const json& site : list) sites.push_back(site);
    return sites;
  }
  // The device has faulted: it works again after a reset, as a fixture wants to leave it.
  void EndFaulted() {
    replayer_.reset();
    cuDevicePrimaryCtxReset(0);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  }
  // The first float of what the table's word points at, through a pointer that no launch names.
  CUresult Chase(CUdeviceptr dst, CUdeviceptr table) {
    uint64_t n = 1;
    void* params[] = {&dst, &table, &n};
    return Launch("ebt_chase", 1, stream_, params);
  }

  const std::string outcome_;
};

TEST_F(ReplayerTrialTest, SaysWhereItRunsFirstAndTellsItsProcess) {
  StartTrial({kFirstSite, kSecondSite});
  int driver = 0;
  ASSERT_EQ(cuDriverGetVersion(&driver), CUDA_SUCCESS);
  const std::vector<json> lines = Lines();
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0],
            (json{{"pid", getpid()}, {"gpu", "NVIDIA H200 (simulated)"}, {"driver", driver}}));
  for (const json& line : lines) EXPECT_EQ(line["pid"], getpid());
}

TEST_F(ReplayerTrialTest, ACleanProgramTouchesEachSiteOnceAndFaultsNever) {
  StartTrial({kFirstSite, kSecondSite});
  Steps(5);
  replayer_->Finish();
  EXPECT_THAT(TouchedSites(), UnorderedElementsAre(kFirstText, kSecondText));
  EXPECT_THAT(Of("fault"), IsEmpty());
  EXPECT_THAT(Of("steps"), ElementsAre(1, 2, 3, 4, 5));
  ExpectState(5);
}

TEST_F(ReplayerTrialTest, OnlySitesOnTrialAreReported) {
  StartTrial({kSecondSite});
  Steps(3);
  EXPECT_THAT(TouchedSites(), ElementsAre(kSecondText));
  ExpectState(3);
}

TEST_F(ReplayerTrialTest, ASiteIsTouchedOnceHoweverManyBlocksItHas) {
  plan::Plan plan = ThePlan();
  plan.prologue[1].site = kFirstSite;
  StartTrial({kFirstSite}, plan);
  Steps(3);
  EXPECT_THAT(TouchedSites(), ElementsAre(kFirstText));
}

TEST_F(ReplayerTrialTest, ACopyThatSpansBlocksTouchesEachAndOneIntoAMiddleItsOwn) {
  // Nothing but copies names them: the set-up's fills go around the replayer.
  plan::Plan plan = ThePlan();
  ReplayOptions options = Options(ebt::Cold::kAuto);
  options.trial_path = outcome_;
  options.trial_sites = {kFirstSite, kSecondSite};
  replayer_ = std::make_unique<Replayer>(test::SimulatedDriver(), plan, options);
  first_ = Allocated(kSlab);
  second_ = Allocated(kSlab);
  const auto clear = [&](CUdeviceptr at, uint64_t bytes) {
    Queue({EBT_COPY_MEMSET, at, 0, bytes, stream_, 0, bytes, 0},
          [&] { return cuMemsetD8Async(at, 0, bytes, stream_); });
  };
  clear(second_ + 4096, 16);
  EXPECT_THAT(TouchedSites(), ElementsAre(kSecondText));
  clear(first_ + 4096, kSlab);
  EXPECT_THAT(TouchedSites(), ElementsAre(kSecondText, kFirstText));
}

TEST_F(ReplayerTrialTest, StepsAreWrittenWithNoSiteOnTrialToo) {
  StartTrial({});
  Steps(3);
  EXPECT_THAT(Of("steps"), ElementsAre(1, 2, 3));
  EXPECT_THAT(TouchedSites(), IsEmpty());
  EXPECT_THAT(Of("fault"), IsEmpty());
  ExpectState(3);
}

TEST_F(ReplayerTrialTest, NothingIsSwappedInATrialWhateverHasBeenCleared) {
  plan::Plan plan = ThePlan();
  plan.cleared.resize(1);
  plan.cleared[0].sites = {kFirstSite, kSecondSite};
  plan.cleared[0].gpu = "NVIDIA H200 (simulated)";
  ASSERT_EQ(cuDriverGetVersion(&plan.cleared[0].driver_version), CUDA_SUCCESS);
  plan.cleared[0].ebbtide = EBBTIDE_VERSION;
  StartTrial({kSecondSite}, plan);
  Steps(3);
  EXPECT_EQ(End().Number("fetches"), 0);
  ExpectState(3);
}

TEST_F(ReplayerTrialTest, AnAccessThroughAHiddenPointerNamesTheKernel) {
  StartTrial({kFirstSite, kSecondSite});
  CUdeviceptr table = 0, dst = 0;
  ASSERT_EQ(cuMemAlloc(&table, 512), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc(&dst, 512), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoD(table, &second_, sizeof second_), CUDA_SUCCESS);
  Steps(2);
  ASSERT_EQ(Chase(dst, table), CUDA_SUCCESS);
  Launch("ebt_fill", 1, stream_, nullptr);  // the next one waits for it, whatever becomes of itself
  const json fault = OnlyFault();
  EXPECT_EQ(fault["fault"], "access");
  EXPECT_EQ(fault["launch"], "ebt_chase");
  EXPECT_EQ(fault["error"], "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_FALSE(fault.contains("sites"));
  EndFaulted();
}

TEST_F(ReplayerTrialTest, AnAccessOfTheLastWorkIsFoundAtTheEnd) {
  StartTrial({kFirstSite, kSecondSite});
  CUdeviceptr table = 0, dst = 0;
  ASSERT_EQ(cuMemAlloc(&table, 512), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc(&dst, 512), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoD(table, &first_, sizeof first_), CUDA_SUCCESS);
  ASSERT_EQ(Chase(dst, table), CUDA_SUCCESS);
  EXPECT_THAT(Of("fault"), IsEmpty());
  replayer_->Finish();
  EXPECT_EQ(OnlyFault()["launch"], "ebt_chase");
  EndFaulted();
}

TEST_F(ReplayerTrialTest, AHiddenPointerToABlockThatIsNotOnTrialIsNoFault) {
  StartTrial({kSecondSite});
  CUdeviceptr table = 0, dst = 0;
  ASSERT_EQ(cuMemAlloc(&table, 512), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc(&dst, 512), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoD(table, &first_, sizeof first_), CUDA_SUCCESS);
  Steps(2);
  ASSERT_EQ(Chase(dst, table), CUDA_SUCCESS);
  Steps(1);
  EXPECT_THAT(Of("fault"), IsEmpty());
  float value = 0;
  ASSERT_EQ(cuMemcpyDtoH(&value, dst, sizeof value), CUDA_SUCCESS);
  EXPECT_EQ(value, kFirst + 2);
}

TEST_F(ReplayerTrialTest, ACapturedSiteIsReportedByItsKernelAndItsSite) {
  StartTrial({kFirstSite, kSecondSite});
  Steps(2);
  const CUstream stream = NewStream();
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  replayer_->CaptureBegun(stream);
  Add(second_, ones_, kFloats, stream);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  replayer_->CaptureEnded(stream);
  const json fault = OnlyFault();
  EXPECT_EQ(fault["fault"], "captured");
  EXPECT_EQ(fault["launch"], "ebt_axpy");
  EXPECT_EQ(fault["sites"], (json{kSecondText}));
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  replayer_->GraphLaunch(stream);
  ASSERT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  Steps(1);
  EXPECT_EQ(Read(first_), All(kFirst + 3));
  EXPECT_EQ(Read(second_), All(kSecond + 4));
}

TEST_F(ReplayerTrialTest, ATensorMapsSiteIsReportedAsCaptured) {
  StartTrial({kFirstSite, kSecondSite});
  replayer_->AddressTaken(first_ + 64, "a tensor map");
  const json fault = OnlyFault();
  EXPECT_EQ(fault["fault"], "captured");
  EXPECT_EQ(fault["launch"], "a tensor map");
  EXPECT_EQ(fault["sites"], (json{kFirstText}));
  Steps(2);
  ExpectState(2);
}

TEST_F(ReplayerTrialTest, AGraphsNodesSiteIsReportedAsCaptured) {
  StartTrial({kFirstSite, kSecondSite});
  replayer_->NodeMade(ebt_copy{EBT_COPY_DTOD, ones_, second_, 64, nullptr, 0, 64, 64});
  const json fault = OnlyFault();
  EXPECT_EQ(fault["fault"], "captured");
  EXPECT_EQ(fault["launch"], "a graph's copy");
  EXPECT_EQ(fault["sites"], (json{kSecondText}));
  Steps(2);
  ExpectState(2);
}

TEST_F(ReplayerTrialTest, ABatchOfCopiesIsOnePieceOfWork) {
  StartTrial({kFirstSite, kSecondSite});
  Steps(1);
  CUdeviceptr dsts[] = {first_, second_}, srcs[] = {ones_, ones_};
  size_t sizes[] = {kSlab, kSlab};
  EXPECT_TRUE(replayer_->Copies(2, [&](size_t i) {
    return ebt_copy{EBT_COPY_UNIFIED, dsts[i], srcs[i], kSlab, stream_, 0, kSlab, kSlab};
  }));
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  size_t index = 0;
  EXPECT_EQ(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &index, 1, stream_),
            CUDA_SUCCESS);
  replayer_->Touched();
  Steps(1);
  EXPECT_EQ(Read(first_), All(1 + 1));
  EXPECT_EQ(Read(second_), All(1 + 1));
}

TEST_F(ReplayerTrialTest, ATrialThatCannotBeSetUpIsTheDriversFaultAndTheJobRuns) {
  // The device part and the dynamic one are reserved before it.
  SetFaults("cuMemAddressReserve:3");
  ::testing::internal::CaptureStderr();
  StartTrial({kFirstSite, kSecondSite});
  const std::string said = ::testing::internal::GetCapturedStderr();
  SetFaults("");
  const json fault = OnlyFault();
  EXPECT_EQ(fault["fault"], "driver");
  EXPECT_EQ(fault["launch"], "");
  EXPECT_THAT(fault["error"].get<std::string>(), ::testing::HasSubstr("for the trial"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  Steps(3);
  EXPECT_THAT(Of("steps"), ElementsAre(1, 2, 3));
  ExpectState(3);
}

TEST_F(ReplayerTrialTest, ARefusedMappingIsTheDriversFaultOnce) {
  StartTrial({kFirstSite, kSecondSite});
  Steps(1);
  SetFaults("cuMemMap:1");
  Steps(2);
  SetFaults("");
  const json fault = OnlyFault();
  EXPECT_EQ(fault["fault"], "driver");
  EXPECT_EQ(fault["error"], "CUDA_ERROR_OUT_OF_MEMORY");
}

TEST_F(ReplayerTrialTest, FreeAndUsedNeverExceedWhatWasFree) {
  size_t before = 0, total = 0;
  ASSERT_EQ(cuMemGetInfo(&before, &total), CUDA_SUCCESS);
  StartTrial({kFirstSite, kSecondSite});
  Steps(1);
  EXPECT_EQ(PoolValue(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 3 * kSlab);
  EXPECT_LE(MemInfo().free + 3 * kSlab, before);
}

TEST_F(ReplayerTrialTest, StepsWhoseLaunchesAreGraphsAreWritten) {
  StartTrial({kFirstSite, kSecondSite});
  CUgraph graph = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  for (int step = 0; step < 3; ++step) {
    ASSERT_EQ(FreeAsync(Allocated(kActivation), stream_), CUDA_SUCCESS);
    replayer_->GraphLaunch(stream_);
    ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  }
  EXPECT_THAT(Of("steps"), ElementsAre(1, 2, 3));
}

TEST_F(ReplayerTrialTest, AnOutcomeThatCannotBeOpenedCostsTheTrialAlone) {
  std::filesystem::remove(outcome_);
  StartTrial({kFirstSite, kSecondSite});
  Steps(2);
  ExpectState(2);
  EXPECT_FALSE(std::filesystem::exists(outcome_));
}

}  // namespace
}  // namespace ebt::replay
