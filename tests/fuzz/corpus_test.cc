// A fuzzer's target on each file of its corpus: what was found once stays found.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

TEST(Corpus, BreaksNoPromise) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(EBT_CORPUS)) {
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    const std::string text = bytes.str();
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    ++files;
  }
  EXPECT_GT(files, 10);
}
