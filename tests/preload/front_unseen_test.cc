// Libraries that pass the front by, and what `ebbtide doctor --coverage` says of a command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/preload/front_counts.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FrontUnseenTest : public ::testing::Test {
 protected:
  FrontUnseenTest() : folder_(FreshFolder()) {}

  // What is counted while front_deepbind_main runs with these arguments.
  CoverageFile Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), Main());
    EXPECT_EQ(RunProcess(arguments,
                         {{"LD_PRELOAD", Product("libebbtide.so")},
                          {"LD_LIBRARY_PATH", Product("tests/simcuda")},
                          {"EBBTIDE_MODE", "off"},
                          {"EBBTIDE_COVERAGE", folder_ + "/coverage.jsonl"}},
                         folder_),
              (Outcome{0, "", ""}));
    return ReadCoverage(folder_ + "/coverage.jsonl");
  }
  Outcome Doctor(std::vector<std::string> words) {
    words.insert(words.begin(), {Product("ebbtide"), "doctor", "--coverage"});
    return RunProcess(words, {{"LD_LIBRARY_PATH", Product("tests/simcuda")}, {"EBBTIDE_LOG", ""}},
                      folder_);
  }
  static std::string Main() { return Product("tests/preload/front_deepbind_main"); }
  static std::string Library() { return Product("tests/preload/libfront_deepbind.so"); }

  const Counts seen_ = {{"cuDevicePrimaryCtxRetain", {{"linked", 1}}},
                        {"cuMemAlloc_v2", {{"linked", 1}}},
                        {"cuMemFree_v2", {{"dlsym", 1}}}};
  // Of hooked functions: what the library has called, and not what it might.
  const std::vector<std::string> bound_ = {"cuDevicePrimaryCtxRetain", "cuMemAlloc_v2", "dlsym"};
  const std::string folder_;
};

TEST_F(FrontUnseenTest, ALinkedLibraryIsSeen) {
  EXPECT_EQ(Run({"plain", Library()}), (CoverageFile{seen_, {}, 1}));
}

TEST_F(FrontUnseenTest, ALibraryWithADeepBindingIsNamedAlthoughNothingOfItIsSeen) {
  EXPECT_EQ(Run({"deep", Library()}), (CoverageFile{{}, {{"libfront_deepbind.so", bound_}}, 1}));
}

TEST_F(FrontUnseenTest, OthersOfTheSameProcessAreSeenAllTheSame) {
  const std::string copy = folder_ + "/libcopy.so";
  std::filesystem::copy_file(Library(), copy);
  EXPECT_EQ(Run({"deep", copy, "plain", Library()}),
            (CoverageFile{seen_, {{"libcopy.so", bound_}}, 1}));
}

TEST_F(FrontUnseenTest, AProcessThatOnlyLoadsTheDriverIsToldOf) {
  EXPECT_EQ(Run({}), (CoverageFile{{}, {}, 1}));
}

TEST_F(FrontUnseenTest, DoctorPrintsWhatACommandCalls) {
  const Outcome outcome = Doctor({"--", Main(), "plain", Library()});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  // family, functions, of them served, told, counted; calls linked, dlsym, v1, v2
  EXPECT_THAT(outcome.out, HasSubstr("front_deepbind_main"));
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex("alloc +2 +2 +0 +0 +1 +1 +0 +0\n"));
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex("context +1 +0 +0 +1 +1 +0 +0 +0\n"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("cannot be seen")));
}

TEST_F(FrontUnseenTest, DoctorNamesWhatCannotBeSeen) {
  const Outcome outcome = Doctor({"--", Main(), "deep", Library()});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("libfront_deepbind.so cannot be seen"));
  EXPECT_THAT(outcome.out, HasSubstr("cuDevicePrimaryCtxRetain, cuMemAlloc_v2, dlsym\n"));
}

TEST_F(FrontUnseenTest, DoctorsJsonIsOneObjectWhateverTheCommandPrints) {
  const Outcome outcome = Doctor({"--json", "--", "sh", "-c",
                                  "echo printed; " + Main() + " plain " + Library() + "; " +
                                      Main() + " deep " + Library() + "; exit 7"});
  EXPECT_EQ(outcome.code, 7);
  EXPECT_EQ(outcome.err, "printed\n");
  auto report = nlohmann::json::parse(outcome.out);
  for (auto& process : report["processes"]) {
    EXPECT_GT(process.at("pid"), 1);
    process.erase("pid");
    EXPECT_THAT(process.at("driver"), HasSubstr("tests/simcuda/libcuda.so.1"));
    process.erase("driver");
    EXPECT_THAT(process.at("program"), HasSubstr("front_deepbind_main"));
    process.erase("program");
  }
  EXPECT_EQ(report, nlohmann::json::parse(R"({
    "exit_code": 7,
    "processes": [
      {"families": [
         {"family": "alloc", "functions": 2, "served": 2, "told": 0, "counted": 0,
          "calls": {"linked": 1, "dlsym": 1, "proc_v1": 0, "proc_v2": 0}},
         {"family": "context", "functions": 1, "served": 0, "told": 0, "counted": 1,
          "calls": {"linked": 1, "dlsym": 0, "proc_v1": 0, "proc_v2": 0}}],
       "unseen": []},
      {"families": [],
       "unseen": [{"library": "libfront_deepbind.so",
                   "symbols": ["cuDevicePrimaryCtxRetain", "cuMemAlloc_v2", "dlsym"]}]}]})"));
}

TEST_F(FrontUnseenTest, DoctorSaysOneLineOfACommandThatUsesNoDriver) {
  const Outcome outcome = Doctor({"--", "sh", "-c", "exit 3"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.out, "No process of CMD that ended by itself used the driver.\n");
}

TEST_F(FrontUnseenTest, DoctorChoosesNoAllocatorForTheCommand) {
  const Outcome outcome =
      Doctor({"--", "sh", "-c",
              "echo \"<$PYTORCH_CUDA_ALLOC_CONF$XLA_PYTHON_CLIENT_ALLOCATOR>\"; " + Main()});
  EXPECT_EQ(outcome.out.substr(0, 3), "<>\n");
}

TEST_F(FrontUnseenTest, DoctorWithoutACommandIsABadCommandLine) {
  EXPECT_EQ(Doctor({}).code, 2);
  EXPECT_EQ(Doctor({"--"}).code, 2);
}

}  // namespace
}  // namespace ebt::test
