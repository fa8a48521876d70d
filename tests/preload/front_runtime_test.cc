// The real CUDA runtime before the simulated driver, and before one that has every function: what
// it asks for is what NVIDIA's own library asks for, at the versions that it was built for.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/preload/front_counts.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

// "" on a machine that has none.
std::string CudaRuntime() {
  for (const std::string& folder : {std::string(getenv("FRONT_SOURCE_ROOT")) + "/.cache/cuda/lib",
                                    std::string("/usr/local/cuda/lib64")}) {
    const std::string path = folder + "/libcudart.so.13";
    if (std::filesystem::exists(path)) return path;
  }
  return "";
}

class FrontRuntimeTest : public ::testing::TestWithParam<const char*> {
 protected:
  FrontRuntimeTest() : folder_(FreshFolder()) {}

  std::string Coverage() const { return folder_ + "/coverage.jsonl"; }
  // The runtime insists on tables of the driver's that no document describes, unless there is no
  // device: it looks everything up all the same.
  Answers Ask(bool preloaded) const {
    Variables variables = {
        {"LD_LIBRARY_PATH", Product(GetParam())},
        {"SIMCUDA_DEVICES", "0"},
        {"SIMCUDA_LOG", folder_ + (preloaded ? "/preloaded.log" : "/native.log")}};
    if (preloaded) {
      variables["LD_PRELOAD"] = Product("libebbtide.so");
      variables["EBBTIDE_MODE"] = "off";
      variables["EBBTIDE_COVERAGE"] = Coverage();
    }
    const Outcome outcome =
        RunProcess({Product("tests/preload/front_runtime"), CudaRuntime()}, variables, folder_);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
    return ReadAnswers(outcome.out);
  }

  const std::string folder_;
};

TEST_P(FrontRuntimeTest, EveryFunctionThatTheRuntimeIsGivenIsTheOneAskedForAndSeenOnce) {
  if (CudaRuntime().empty()) GTEST_SKIP() << "no libcudart.so.13 here: run scripts/setup";
  const Answers native = Ask(false);
  const Answers hooked = Ask(true);
  EXPECT_GE(native.lines.size(), 400u);
  ExpectSameFunctions(native, hooked);
  Counts counts = ReadCoverage(Coverage()).counts;
  int checked = 0;
  for (const auto& [symbol, ways] : ExpectedCounts(native, "proc_v2")) {
    // It finds that one itself by dlsym, and goes on with what it gets from it.
    if (symbol.rfind("cuGetProcAddress", 0) == 0) continue;
    EXPECT_EQ(counts[symbol], ways) << symbol;
    ++checked;
  }
  EXPECT_GE(checked, 100);
  for (const auto& [symbol, total] : hooked.totals) {
    uint64_t sum = 0;
    for (const auto& [way, calls] : counts[symbol]) sum += calls;
    EXPECT_EQ(sum, total) << symbol;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDriver, FrontRuntimeTest,
                         ::testing::Values("tests/simcuda", "tests/preload"), [](const auto& info) {
                           return std::string(info.index == 0 ? "simulated" : "whole");
                         });

}  // namespace
}  // namespace ebt::test
