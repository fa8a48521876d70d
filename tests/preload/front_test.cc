// The front before real child processes on the simulated driver: every way of finding the
// driver's functions, and every call seen exactly once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "src/plan/plan_file.h"
#include "src/profile/reader.h"
#include "tests/preload/front_counts.h"
#include "tests/preload/front_matrix.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

using ::testing::HasSubstr;

// Calls of each kind.
struct Calls {
  int allocations = 0, frees = 0, launches = 0, copies = 0;
  bool operator==(const Calls&) const = default;
};
std::ostream& operator<<(std::ostream& stream, const Calls& calls) {
  return stream << calls.allocations << " allocations, " << calls.frees << " frees, "
                << calls.launches << " launches, " << calls.copies << " copies";
}

// What UseDriver of front_program.h does.
constexpr Calls kWhole = {4, 4, 3, 8};
constexpr Calls kWithoutStreamOrder = {1, 1, 0, 2};

class FrontTest : public ::testing::Test {
 protected:
  FrontTest() : folder_(FreshFolder()) {}

  std::string Profile() const { return folder_ + "/p.ebp"; }
  std::string Log() const { return folder_ + "/driver.log"; }
  std::string Coverage() const { return folder_ + "/coverage.jsonl"; }
  Variables Recording() const {
    return {{"LD_PRELOAD", Product("libebbtide.so")},
            {"LD_LIBRARY_PATH", Product("tests/simcuda")},
            {"EBBTIDE_MODE", "record"},
            {"EBBTIDE_PROFILE", Profile()},
            {"EBBTIDE_COVERAGE", Coverage()},
            {"SIMCUDA_LOG", Log()}};
  }
  static std::vector<std::string> Client(const std::string& action, const std::string& way,
                                         const std::string& version = "12000",
                                         const std::string& flags = "0",
                                         const std::vector<std::string>& more = {}) {
    std::vector<std::string> argv = {Product("tests/preload/front_client"), action, way, version,
                                     flags};
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }

  // What the driver was asked, by its own log.
  Calls Asked() const {
    Calls calls;
    std::ifstream log(Log());
    for (std::string line; std::getline(log, line);) {
      const auto is = [&](std::string_view start) { return line.rfind(start, 0) == 0; };
      calls.allocations += is("cuMemAlloc");
      calls.frees += is("cuMemFree");
      calls.launches += is("cuLaunchKernel");
      calls.copies += is("cuMemcpy") || is("cuMemset");
    }
    return calls;
  }
  Calls Recorded() const {
    Calls calls;
    const auto profile = profile::ReadProfile(Profile());
    EXPECT_TRUE(profile.ok()) << profile.status();
    if (!profile.ok()) return calls;
    EXPECT_FALSE(profile->truncated);
    for (const profile::Event& event : profile->events) {
      calls.allocations += event.kind == profile::EventKind::kAlloc;
      calls.frees += event.kind == profile::EventKind::kFree;
      calls.launches += event.kind == profile::EventKind::kLaunch;
      calls.copies += event.kind == profile::EventKind::kCopy;
    }
    return calls;
  }
  // Whichever way it came by each function.
  Calls Counted() const {
    Calls calls;
    for (const auto& [symbol, ways] : ReadCoverage(Coverage()).counts) {
      const auto is = [&symbol = symbol](std::string_view start) {
        return symbol.rfind(start, 0) == 0;
      };
      for (const auto& [way, counted] : ways) {
        const int count = static_cast<int>(counted);
        calls.allocations += is("cuMemAlloc") ? count : 0;
        calls.frees += is("cuMemFree") ? count : 0;
        calls.launches += is("cuLaunchKernel") ? count : 0;
        calls.copies += is("cuMemcpy") || is("cuMemset") ? count : 0;
      }
    }
    return calls;
  }
  void ExpectSeenOnce(const std::vector<std::string>& argv, const Calls& calls) {
    EXPECT_EQ(RunProcess(argv, Recording(), folder_), (Outcome{0, "", ""}));
    EXPECT_EQ(Asked(), calls);
    EXPECT_EQ(Recorded(), calls);
    EXPECT_EQ(Counted(), calls);
  }
  // The file name that each name resolves to.
  std::string Where(const Variables& variables, const std::vector<std::string>& argv) {
    const Outcome outcome = RunProcess(argv, variables, folder_);
    EXPECT_EQ(outcome.code, 0) << outcome;
    return outcome.out;
  }

  const std::string folder_;
};

TEST_F(FrontTest, AProgramLinkedToTheDriverIsSeen) {
  ExpectSeenOnce({Product("tests/preload/front_linked")}, kWhole);
}

TEST_F(FrontTest, DlsymOfAHandleIsSeen) { ExpectSeenOnce(Client("use", "dlsym"), kWhole); }

TEST_F(FrontTest, ProgramsForPerThreadDefaultStreamsAreSeenByTheirOwnFunctions) {
  const std::vector<std::vector<std::string>> programs = {
      {Product("tests/preload/front_linked_per_thread")}, Client("use", "per-thread")};
  for (const auto& argv : programs) {
    ExpectSeenOnce(argv, kWhole);
    const Counts counts = ReadCoverage(Coverage()).counts;
    for (const char* own : {"cuMemAllocAsync_ptsz", "cuMemFreeAsync_ptsz", "cuLaunchKernel_ptsz",
                            "cuMemcpyHtoD_v2_ptds", "cuMemsetD8Async_ptsz"})
      EXPECT_EQ(counts.count(own), 1u) << own;
    for (const char* others : {"cuMemAllocAsync", "cuLaunchKernel", "cuMemcpyHtoD_v2"})
      EXPECT_EQ(counts.count(others), 0u) << others;
    for (const std::string& file : {Profile(), Log(), Coverage()}) std::filesystem::remove(file);
  }
}

TEST_F(FrontTest, DlsymOfTheDefaultScopeIsSeen) {
  ExpectSeenOnce(Client("use", "default"), kWhole);
}

TEST_F(FrontTest, DlsymOfTheNextLibraryIsSeen) { ExpectSeenOnce(Client("use", "next"), kWhole); }

TEST_F(FrontTest, PythonsCtypesIsSeen) {
  const Outcome python = RunProcess({"python3", "-c", "import sys; print(sys.executable, end='')"});
  if (python.code != 0) GTEST_SKIP() << "no python3 here";
  const char* script = getenv("FRONT_CTYPES");
  ASSERT_NE(script, nullptr);
  ExpectSeenOnce({python.out, script}, {5, 5, 0, 10});
}

struct Request {
  const char* way;
  const char* version;
  const char* flags;
};
std::ostream& operator<<(std::ostream& stream, const Request& request) {
  return stream << request.way << " at " << request.version << " with flags " << request.flags;
}

class ProcAddressTest : public FrontTest, public ::testing::WithParamInterface<Request> {};

TEST_P(ProcAddressTest, IsSeen) {
  const auto& [way, version, flags] = GetParam();
  const bool stream_order = std::stoi(version) >= 11020;
  ExpectSeenOnce(Client("use", way, version, flags), stream_order ? kWhole : kWithoutStreamOrder);
}

std::vector<Request> Requests() {
  std::vector<Request> requests;
  for (const char* way : {"proc1", "proc2"})
    for (const char* version : {"11000", "11020", "11030", "12000", "12020", "13000"})
      for (const char* flags : {"0", "1", "2"}) requests.push_back({way, version, flags});
  for (const char* version : {"11030", "12000", "13000"})
    for (const char* flags : {"0", "2"}) requests.push_back({"self", version, flags});
  return requests;
}

INSTANTIATE_TEST_SUITE_P(EveryVersion, ProcAddressTest, ::testing::ValuesIn(Requests()),
                         [](const auto& info) {
                           return std::string(info.param.way) + "_" + info.param.version + "_" +
                                  info.param.flags;
                         });

TEST_F(FrontTest, AProgramIsSeenAtWhateverVersionItAsks) {
  std::vector<std::string> versions;
  int with = 0, without = 0;  // stream-ordered memory, which came with 11.2
  for (const int version : VersionsOfTheTable()) {
    versions.push_back(std::to_string(version));
    (version < 11020 ? without : with) += 3;  // flags
  }
  const Calls calls = {4 * with + without, 4 * with + without, 3 * with, 8 * with + 2 * without};
  for (const char* way : {"proc1", "proc2"}) {
    ExpectSeenOnce(Client("sweep", way, "0", "0", versions), calls);
    for (const std::string& file : {Profile(), Log(), Coverage()}) std::filesystem::remove(file);
  }
}

TEST_F(FrontTest, InOffModeTheDriversOwnFunctionsAreHandedOut) {
  for (const char* mode : {"off", ""}) {
    Variables variables = Recording();
    variables["EBBTIDE_MODE"] = mode;
    variables["EBBTIDE_COVERAGE"] = "";
    EXPECT_EQ(Where(variables, Client("where", "dlsym", "12000", "0",
                                      {"cuMemAlloc_v2", "cuLaunchKernel", "cuGetProcAddress_v2"})),
              "cuMemAlloc_v2 libcuda.so.1\ncuLaunchKernel libcuda.so.1\n"
              "cuGetProcAddress_v2 libcuda.so.1\n");
    EXPECT_EQ(Where(variables, Client("where", "proc2", "12000", "2",
                                      {"cuMemAlloc", "cuMemAllocAsync", "cuGetProcAddress"})),
              "cuMemAlloc libcuda.so.1\ncuMemAllocAsync libcuda.so.1\n"
              "cuGetProcAddress libcuda.so.1\n");
    EXPECT_FALSE(std::filesystem::exists(Profile()));
  }
}

TEST_F(FrontTest, OnlyHookedNamesAreReplaced) {
  EXPECT_EQ(Where(Recording(), Client("where", "dlsym", "12000", "0",
                                      {"cuMemAlloc_v2", "cuMemAlloc", "cuDeviceGetName",
                                       "cuNoSuchFunction", "cudnnCreate"})),
            "cuMemAlloc_v2 libebbtide.so\ncuMemAlloc libcuda.so.1\n"
            "cuDeviceGetName libcuda.so.1\ncuNoSuchFunction -\ncudnnCreate -\n");
  EXPECT_EQ(Where(Recording(), Client("where", "proc2", "12000", "0",
                                      {"cuMemAlloc", "cuDeviceGetName", "cuNoSuchFunction"})),
            "cuMemAlloc libebbtide.so\ncuDeviceGetName libcuda.so.1\ncuNoSuchFunction -\n");
}

TEST_F(FrontTest, TheAbiBeforeTheHookedOneIsTheDriversOwn) {
  // cuMemAlloc of CUDA 3.1 and before has 32-bit addresses.
  EXPECT_EQ(Where(Recording(), Client("where", "proc1", "3010", "0", {"cuMemAlloc"})),
            "cuMemAlloc libcuda.so.1\n");
}

TEST_F(FrontTest, FailedLookUpsKeepTheirError) {
  EXPECT_EQ(RunProcess(Client("errors", "dlsym"), Recording(), folder_), (Outcome{0, "", ""}));
}

TEST_F(FrontTest, TheNextDefinitionIsNextToTheCaller) {
  const std::vector<std::string> argv = {Product("tests/preload/front_next_main")};
  const Outcome native = RunProcess(argv);
  EXPECT_EQ(native, (Outcome{0, "second\nsecond\nthere\n", ""}));
  EXPECT_EQ(RunProcess(argv, Recording(), folder_), native);
}

TEST_F(FrontTest, AChildForkedBeforeTheDriverIsUsedLeavesTheParentsProfileWhole) {
  EXPECT_EQ(RunProcess(Client("fork-before", "dlsym"), Recording(), folder_).code, 0);
  EXPECT_EQ(Recorded(), kWhole);
}

TEST_F(FrontTest, AChildThatIsTheFirstToUseTheDriverIsCountedLikeItsParent) {
  EXPECT_EQ(RunProcess(Client("fork-before", "dlsym"), Recording(), folder_).code, 0);
  EXPECT_EQ(ReadCoverage(Coverage()).processes, 2);
  EXPECT_EQ(Counted(), (Calls{8, 8, 6, 16}));
  EXPECT_EQ(Counted(), Asked());
}

TEST_F(FrontTest, AChildOfAProcessThatUsedTheDriverAddsNothingToItsCounts) {
  EXPECT_EQ(RunProcess(Client("fork-after", "dlsym"), Recording(), folder_), (Outcome{0, "", ""}));
  EXPECT_EQ(ReadCoverage(Coverage()).processes, 1);
  EXPECT_EQ(Counted(), (Calls{8, 8, 6, 16}));
}

TEST_F(FrontTest, AChildForkedAfterwardsLeavesTheParentsProfileWhole) {
  EXPECT_EQ(RunProcess(Client("fork-after", "dlsym"), Recording(), folder_), (Outcome{0, "", ""}));
  EXPECT_EQ(Recorded(), (Calls{8, 8, 6, 16}));
}

TEST_F(FrontTest, TheProcessMayEndWithThreadsInsideTheDriver) {
  for (int turn = 0; turn < 5; ++turn) {
    const Outcome outcome = RunProcess(Client("threads", "dlsym"), Recording(), folder_);
    EXPECT_EQ(outcome, (Outcome{0, "", ""}));
    EXPECT_GE(Recorded().allocations, 4);
    std::filesystem::remove(Profile());
  }
}

TEST_F(FrontTest, ExceptionsOfALibraryLoadedAfterTheEngineAreCaught) {
  ExpectSeenOnce(
      Client("throwing", "dlsym", "12000", "0", {Product("tests/preload/libfront_throwing.so")}),
      kWhole);
}

TEST_F(FrontTest, AConstructorMayUseTheDriverWhileAnotherThreadFirstDoes) {
  ExpectSeenOnce(Client("meanwhile", "dlsym", "12000", "0",
                        {Product("tests/preload/libfront_constructor.so")}),
                 kWhole);
}

TEST_F(FrontTest, WithoutTheEngineEverythingIsForwardedAndOneLineSaysSo) {
  std::filesystem::copy_file(Product("libebbtide.so"), folder_ + "/libebbtide.so");
  Variables variables = Recording();
  variables["LD_PRELOAD"] = folder_ + "/libebbtide.so";
  const Outcome outcome = RunProcess(Client("use", "proc2"), variables, folder_);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("libebbtide-core.so"));
  EXPECT_EQ(Asked(), kWhole);
  EXPECT_FALSE(std::filesystem::exists(Profile()));
}

TEST_F(FrontTest, WhatIsHeldIdleDoesNotExhaustTheDevice) {
  Variables variables = Recording();
  variables["SIMCUDA_MEMORY"] = "512MiB";
  ASSERT_EQ(RunProcess(Client("exhaust", "dlsym"), variables, folder_).code, 0);
  const auto profile = profile::ReadProfile(Profile());
  ASSERT_TRUE(profile.ok()) << profile.status();
  // A plan that knows none of the large blocks: they are served from the dynamic part.
  plan::Plan plan;
  plan.program = profile->metadata.at("program");
  plan.prologue.push_back({.site = 1, .bytes = 1, .tier = plan::Tier::kNative});
  ASSERT_TRUE(plan::WritePlan(plan, folder_ + "/plan.json").ok());
  variables["EBBTIDE_MODE"] = "replay";
  variables["EBBTIDE_PLAN"] = folder_ + "/plan.json";
  EXPECT_EQ(RunProcess(Client("exhaust", "dlsym"), variables, folder_), (Outcome{0, "", ""}));
}

TEST_F(FrontTest, ByAnEmptyPlanTheDriverIsAskedForEverything) {
  ExpectSeenOnce(Client("use", "dlsym"), kWhole);
  const auto profile = profile::ReadProfile(Profile());
  ASSERT_TRUE(profile.ok()) << profile.status();
  std::filesystem::remove(Log());
  plan::Plan plan;
  plan.program = profile->metadata.at("program");
  ASSERT_TRUE(plan::WritePlan(plan, folder_ + "/plan.json").ok());
  Variables variables = Recording();
  variables["EBBTIDE_MODE"] = "replay";
  variables["EBBTIDE_PLAN"] = folder_ + "/plan.json";
  EXPECT_EQ(RunProcess(Client("use", "dlsym"), variables, folder_), (Outcome{0, "", ""}));
  EXPECT_EQ(Asked(), kWhole);
}

TEST_F(FrontTest, WithoutADriverTheProgramsOwnErrorIsSeen) {
  Variables variables = Recording();
  variables["LD_LIBRARY_PATH"] = folder_;
  EXPECT_EQ(RunProcess(Client("use", "dlsym"), variables, folder_), (Outcome{98, "", ""}));
}

}  // namespace
}  // namespace ebt::test
