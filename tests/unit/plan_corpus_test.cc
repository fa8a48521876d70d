// What the fuzzer of plan files found or began with, without a fuzzer.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/plan/plan_file.h"
#include "src/plan/validator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace ebt::plan {
namespace {

TEST(PlanCorpusTest, IsReadOrRefused) {
  int files = 0, whole = 0;
  for (const auto& entry : std::filesystem::directory_iterator(EBT_PLAN_CORPUS)) {
    std::ifstream in(entry.path(), std::ios::binary);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    const std::string text = bytes.str();
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    const auto plan = PlanFromJson(text, "corpus");
    whole += plan.ok() && CheckPlan(*plan).ok();
    ++files;
  }
  EXPECT_GT(files, 10);
  EXPECT_GT(whole, 3);
}

}  // namespace
}  // namespace ebt::plan
