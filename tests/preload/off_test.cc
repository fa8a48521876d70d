// Mode off costs nothing because nothing of ours is in the way: what a program is handed are the
// driver's own functions, address for address.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

class OffTest : public ::testing::Test {
 protected:
  // Every answer that a program gets, compared with the symbol table of libcuda.so.1.
  nlohmann::json Compare(Variables variables) {
    variables["LD_LIBRARY_PATH"] = Product("tests/simcuda");
    const Outcome outcome =
        RunProcess({Product("tests/gpu/cost_probe"), "pointers"}, variables, FreshFolder());
    EXPECT_EQ(outcome.code, 0) << outcome;
    EXPECT_EQ(outcome.err, "");
    const auto compared = nlohmann::json::parse(outcome.out, nullptr, false);
    EXPECT_FALSE(compared.is_discarded()) << outcome;
    return compared;
  }
  static Variables Preloaded(const std::string& mode) {
    return {{"LD_PRELOAD", Product("libebbtide.so")}, {"EBBTIDE_MODE", mode}};
  }
  static void ExpectAllAreTheDrivers(const nlohmann::json& compared) {
    EXPECT_EQ(compared.at("other"), 0) << compared;
    EXPECT_EQ(compared.at("by_dlsym"), compared.at("functions"));
    EXPECT_GT(compared.at("by_dlsym"), 200);
    EXPECT_GT(compared.at("by_v1"), 1000);
    EXPECT_EQ(compared.at("by_v2"), compared.at("by_v1"));
    EXPECT_EQ(compared.at("exports"),
              compared.at("by_v1").get<int>() + compared.at("by_v2").get<int>());
  }
};

TEST_F(OffTest, WithoutUsEveryAnswerIsTheDrivers) { ExpectAllAreTheDrivers(Compare({})); }

TEST_F(OffTest, EveryAnswerIsTheDriversOwnFunction) {
  for (const char* mode : {"off", "OFF", ""}) ExpectAllAreTheDrivers(Compare(Preloaded(mode)));
}

TEST_F(OffTest, AModeThatIsNoneLeavesTheDriversFunctionsToo) {
  Variables variables = Preloaded("rceord");
  variables["LD_LIBRARY_PATH"] = Product("tests/simcuda");
  const Outcome outcome =
      RunProcess({Product("tests/gpu/cost_probe"), "pointers"}, variables, FreshFolder());
  ExpectAllAreTheDrivers(nlohmann::json::parse(outcome.out, nullptr, false));
}

// The comparison can tell: with hooks handed out it finds them by each of the three ways.
TEST_F(OffTest, WhileRecordingTheComparisonFindsHooks) {
  const nlohmann::json compared = Compare(Preloaded("record"));
  EXPECT_GT(compared.at("other"), 0);
  EXPECT_EQ(compared.at("first_other").get<std::string>().rfind("dlsym cu", 0), 0u) << compared;
}

}  // namespace
}  // namespace ebt::test
