// Every function of the table, asked for in every way, before two drivers that say themselves which
// of their exports a call has reached: the simulated one, and one that has every function of the
// table. What a program is given without Ebbtide says what it is to be given with it.
#include "tests/preload/front_matrix.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/preload/front_counts.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

constexpr const char* kSimulated = "tests/simcuda";
constexpr const char* kWhole = "tests/preload";

struct Way {
  const char* name;     // of the client's
  const char* counted;  // of the coverage file
  const char* driver;   // its folder
};
std::ostream& operator<<(std::ostream& stream, const Way& way) {
  return stream << way.name << " of " << way.driver;
}

class FrontMatrixTest : public ::testing::TestWithParam<Way> {
 protected:
  FrontMatrixTest() : folder_(FreshFolder()) {}

  std::string Coverage() const { return folder_ + "/coverage.jsonl"; }
  Answers Ask(const std::vector<std::string>& client, const std::string& driver,
              bool preloaded) const {
    Variables variables = {{"LD_LIBRARY_PATH", Product(driver)}};
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
  // Every call that the driver counted was counted once by us, and as found by `way`.
  void ExpectEachSeenOnce(const std::vector<std::string>& client, const Way& way) {
    const Answers native = Ask(client, way.driver, false);
    const Answers hooked = Ask(client, way.driver, true);
    ExpectSameFunctions(native, hooked);
    EXPECT_EQ(hooked.totals, native.totals);
    // By version, the oldest of several that no caller of today asks for are not reached.
    const bool by_symbol = std::string(way.counted).rfind("proc", 0) != 0;
    if (by_symbol && way.driver == kWhole) {
      EXPECT_EQ(native.totals.size(), std::size(kTable));
    }
    Counts counts = ReadCoverage(Coverage()).counts;
    for (const auto& [symbol, total] : hooked.totals) {
      uint64_t sum = 0;
      for (const auto& [name, calls] : counts[symbol]) sum += calls;
      EXPECT_EQ(sum, total) << symbol;
    }
    for (const auto& [symbol, ways] : ExpectedCounts(native, way.counted))
      EXPECT_EQ(counts[symbol][way.counted], ways.at(way.counted)) << symbol;
  }

  const std::string folder_;
};

TEST_P(FrontMatrixTest, EveryFunctionIsTheOneAskedForAndEveryCallIsSeenOnce) {
  const std::string name = GetParam().name;
  if (name == "ctypes") {
    const Outcome python =
        RunProcess({"python3", "-c", "import sys; print(sys.executable, end='')"});
    if (python.code != 0) GTEST_SKIP() << "no python3 here";
    return ExpectEachSeenOnce({python.out, getenv("FRONT_MATRIX_PY"), getenv("FRONT_TABLE")},
                              GetParam());
  }
  const std::string client = name == "linked" ? "front_matrix_linked" : "front_matrix";
  ExpectEachSeenOnce({Product("tests/preload/" + client), name}, GetParam());
}

std::vector<Way> Ways() {
  std::vector<Way> ways;
  for (const char* driver : {kSimulated, kWhole}) {
    ways.push_back({"linked", "linked", driver});
    ways.push_back({"dlsym", "dlsym", driver});
    ways.push_back({"ctypes", "dlsym", driver});
    // The front's exports are what these find.
    ways.push_back({"default", "linked", driver});
    ways.push_back({"next", "linked", driver});
    ways.push_back({"proc1", "proc_v1", driver});
    ways.push_back({"proc2", "proc_v2", driver});
  }
  return ways;
}

INSTANTIATE_TEST_SUITE_P(EveryWay, FrontMatrixTest, ::testing::ValuesIn(Ways()),
                         [](const auto& info) {
                           return std::string(info.param.name) +
                                  (info.param.driver == kWhole ? "_whole" : "_simulated");
                         });

// On paper: the versions of the signatures are in NVIDIA's cuda.h.
TEST_F(FrontMatrixTest, TheVersionAskedForDecidesTheSignature) {
  const Answers hooked = Ask({Product("tests/preload/front_matrix"), "proc2"}, kSimulated, true);
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
