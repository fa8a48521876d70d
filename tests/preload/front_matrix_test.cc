// Every function of the table, asked for in every way, on the simulated driver, which says itself
// which of its exports a call has reached. What a program is given without Ebbtide says what it is
// to be given with it.
#include "tests/preload/front_matrix.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/preload/front_counts.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

struct Way {
  const char* name;     // of the client's
  const char* counted;  // of the coverage file
};
std::ostream& operator<<(std::ostream& stream, const Way& way) { return stream << way.name; }

class FrontMatrixTest : public ::testing::TestWithParam<Way> {
 protected:
  FrontMatrixTest() : folder_(FreshFolder()) {}

  std::string Coverage() const { return folder_ + "/coverage.jsonl"; }
  Answers Ask(const std::vector<std::string>& client, bool preloaded) const {
    Variables variables = {{"LD_LIBRARY_PATH", Product("tests/simcuda")}};
    if (preloaded) {
      variables["LD_PRELOAD"] = Product("libebbtide.so");
      variables["EBBTIDE_MODE"] = "off";
      variables["EBBTIDE_COVERAGE"] = Coverage();
    }
    const Outcome outcome = RunProcess(client, variables, folder_);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return ReadAnswers(outcome.out);
  }
  // Of the exports that the driver has: every call that it counted was counted once by us.
  void ExpectEachSeenOnce(const std::vector<std::string>& client, const std::string& way) {
    const Answers native = Ask(client, false);
    const Answers hooked = Ask(client, true);
    ExpectSameFunctions(native, hooked);
    Counts counts = ReadCoverage(Coverage()).counts;
    for (const auto& [symbol, total] : hooked.totals) {
      uint64_t sum = 0;
      for (const auto& [name, calls] : counts[symbol]) sum += calls;
      EXPECT_EQ(sum, total) << symbol;
    }
    EXPECT_EQ(hooked.totals, native.totals);
    for (const auto& [symbol, ways] : ExpectedCounts(native, way))
      EXPECT_EQ(counts[symbol][way], ways.at(way)) << symbol;
  }

  const std::string folder_;
};

TEST_P(FrontMatrixTest, EveryFunctionIsTheOneAskedForAndEveryCallIsSeenOnce) {
  const bool linked = std::string(GetParam().name) == "linked";
  ExpectEachSeenOnce(
      {Product(linked ? "tests/preload/front_matrix_linked" : "tests/preload/front_matrix"),
       GetParam().name},
      GetParam().counted);
}

INSTANTIATE_TEST_SUITE_P(EveryWay, FrontMatrixTest,
                         ::testing::Values(Way{"linked", "linked"}, Way{"dlsym", "dlsym"},
                                           Way{"default", "linked"}, Way{"next", "linked"},
                                           Way{"proc1", "proc_v1"}, Way{"proc2", "proc_v2"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(FrontMatrixTest, PythonsCtypesIsGivenTheFunctionsAskedForAndSeenOnce) {
  const Outcome python = RunProcess({"python3", "-c", "import sys; print(sys.executable, end='')"});
  if (python.code != 0) GTEST_SKIP() << "no python3 here";
  ExpectEachSeenOnce({python.out, getenv("FRONT_MATRIX_PY"), getenv("FRONT_TABLE")}, "dlsym");
}

// On paper: the versions of the signatures are in NVIDIA's cuda.h.
TEST_F(FrontMatrixTest, TheVersionAskedForDecidesTheSignature) {
  const Answers hooked = Ask({Product("tests/preload/front_matrix"), "proc2"}, true);
  const auto reached = [&hooked](const std::string& request) -> std::string {
    for (const Answer& answer : hooked.lines)
      if (answer.request == request) return answer.reached + " in " + answer.file;
    return "not asked";
  };
  EXPECT_EQ(reached("cuGetProcAddress@11029/0"), "- in -");
  EXPECT_EQ(reached("cuGetProcAddress@11030/0"), "cuGetProcAddress in libebbtide.so");
  EXPECT_EQ(reached("cuGetProcAddress@11999/0"), "cuGetProcAddress in libebbtide.so");
  EXPECT_EQ(reached("cuGetProcAddress@12000/0"), "cuGetProcAddress_v2 in libebbtide.so");
  EXPECT_EQ(reached("cuMemPrefetchAsync@12019/0"), "cuMemPrefetchAsync in libebbtide.so");
  EXPECT_EQ(reached("cuMemPrefetchAsync@12019/2"), "cuMemPrefetchAsync_ptsz in libebbtide.so");
  EXPECT_EQ(reached("cuMemPrefetchAsync@12020/1"), "cuMemPrefetchAsync_v2 in libebbtide.so");
  EXPECT_EQ(reached("cuMemPrefetchAsync@12020/2"), "cuMemPrefetchAsync_v2_ptsz in libebbtide.so");
  EXPECT_EQ(reached("cuMemAllocAsync@11019/0"), "- in -");
  EXPECT_EQ(reached("cuMemAllocAsync@11020/0"), "cuMemAllocAsync in libebbtide.so");
  EXPECT_EQ(reached("cuMemAllocAsync@11020/2"), "cuMemAllocAsync_ptsz in libebbtide.so");
  EXPECT_EQ(reached("cuMemcpyHtoD@11000/2"), "cuMemcpyHtoD_v2_ptds in libebbtide.so");
  EXPECT_EQ(reached("cuMemAlloc@13000/3"), "- in -");
}

}  // namespace
}  // namespace ebt::test
