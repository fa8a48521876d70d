#include "src/replay/named_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/unit/simulated_device.h"

namespace ebt::replay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr CUdeviceptr kBase = 0x5e5e'0000'0000;
constexpr uint64_t kSize = 8192;

// Blocks at [0, 1000), [1024, 2048) and, to the range's end, [7168, 8192).
class NamedBlocksTest : public test::SimulatedDevice {
 protected:
  using Named = std::vector<std::pair<uint64_t, uint64_t>>;

  NamedBlocksTest() {
    EXPECT_EQ(cuModuleLoadData(&module_, "any image"), CUDA_SUCCESS);
    blocks_.Add(0, 1000);
    blocks_.Add(1024, 1024);
    blocks_.Add(7168, 1024);
  }
  CUfunction Function(const char* name) {
    CUfunction function = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&function, module_, name), CUDA_SUCCESS);
    return function;
  }
  static Named Pairs(const std::vector<tier::Extent>& extents) {
    Named pairs;
    for (const tier::Extent& extent : extents) pairs.emplace_back(extent.offset, extent.bytes);
    return pairs;
  }
  // Of a launch whose three 8-byte parameters are these.
  Named OfWords(uint64_t a, uint64_t b, uint64_t c) {
    void* params[] = {&a, &b, &c};
    ebt_launch launch{};
    launch.function = Function("ebt_checksum");
    launch.params = params;
    std::vector<tier::Extent> named;
    blocks_.OfLaunch(launch, &named);
    return Pairs(named);
  }
  Named OfWord(uint64_t word) { return OfWords(word, 0, 0); }
  Named OfSpan(uint64_t address, uint64_t bytes) {
    std::vector<tier::Extent> named;
    blocks_.OfSpan(address, bytes, &named);
    return Pairs(named);
  }

  CUmodule module_ = nullptr;
  NamedBlocks blocks_{test::SimulatedDriver(), kBase, kSize};
};

TEST_F(NamedBlocksTest, AWordNamesTheWholeBlockThatItPointsInto) {
  EXPECT_THAT(OfWord(kBase), ElementsAre(Pair(0, 1000)));
  EXPECT_THAT(OfWord(kBase + 999), ElementsAre(Pair(0, 1000)));
  EXPECT_THAT(OfWord(kBase + 1500), ElementsAre(Pair(1024, 1024)));
}

TEST_F(NamedBlocksTest, AWordAtABlocksEndNamesIt) {
  EXPECT_THAT(OfWord(kBase + 1000), ElementsAre(Pair(0, 1000)));
  EXPECT_THAT(OfWord(kBase + 2048), ElementsAre(Pair(1024, 1024)));
}

TEST_F(NamedBlocksTest, AWordAtTheRangesEndNamesTheLastBlock) {
  EXPECT_THAT(OfWord(kBase + kSize), ElementsAre(Pair(7168, 1024)));
}

TEST_F(NamedBlocksTest, WhereABlockBeginsTheOneThatEndsThereIsNotNamed) {
  blocks_.Add(2048, 512);
  EXPECT_THAT(OfWord(kBase + 2048), ElementsAre(Pair(2048, 512)));
}

TEST_F(NamedBlocksTest, WordsThatPointElsewhereNameNothing) {
  EXPECT_THAT(OfWords(kBase - 1, kBase + kSize + 1, 0), IsEmpty());
  EXPECT_THAT(OfWords(kBase + 1001, kBase + 2049, kBase + 7167), IsEmpty());
  EXPECT_THAT(OfWords(~uint64_t{0}, 1, uint64_t{1} << 63), IsEmpty());
}

TEST_F(NamedBlocksTest, ABlockIsNamedOnce) {
  EXPECT_THAT(OfWords(kBase + 1030, kBase, kBase + 1024),
              ElementsAre(Pair(1024, 1024), Pair(0, 1000)));
  // By each launch anew.
  EXPECT_THAT(OfWords(kBase, kBase, kBase + 1), ElementsAre(Pair(0, 1000)));
}

TEST_F(NamedBlocksTest, AFreedBlockIsNotNamed) {
  blocks_.Remove(1024);
  EXPECT_THAT(OfWord(kBase + 1500), IsEmpty());
  blocks_.Add(1024, 600);  // another one in its place
  EXPECT_THAT(OfWord(kBase + 1500), ElementsAre(Pair(1024, 600)));
  EXPECT_THAT(OfWord(kBase + 1700), IsEmpty());
}

TEST_F(NamedBlocksTest, AnExtraBufferIsReadLikeParameters) {
  uint64_t words[] = {0, kBase + 1024, 5};
  size_t bytes = sizeof words;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, words, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  ebt_launch launch{};
  launch.function = Function("ebt_checksum");
  launch.extra = extra;
  std::vector<tier::Extent> named;
  blocks_.OfLaunch(launch, &named);
  EXPECT_THAT(Pairs(named), ElementsAre(Pair(1024, 1024)));
}

TEST_F(NamedBlocksTest, AFieldOfALargeParameterNamesItsBlock) {
  std::vector<uint64_t> list(4096 / sizeof(uint64_t));
  list[3] = kBase + 100;  // within the first parameter of ebt_multi_adam, whatever its size
  void* params[] = {list.data()};
  ebt_launch launch{};
  launch.function = Function("ebt_multi_adam");
  launch.params = params;
  std::vector<tier::Extent> named;
  blocks_.OfLaunch(launch, &named);
  EXPECT_THAT(Pairs(named), ElementsAre(Pair(0, 1000)));
}

TEST_F(NamedBlocksTest, ALaunchWithoutAFunctionNamesNothing) {
  std::vector<tier::Extent> named;
  blocks_.OfLaunch(ebt_launch{}, &named);
  EXPECT_THAT(Pairs(named), IsEmpty());
}

TEST_F(NamedBlocksTest, ASpanIsCutToTheRange) {
  EXPECT_THAT(OfSpan(kBase + 100, 50), ElementsAre(Pair(100, 50)));
  EXPECT_THAT(OfSpan(kBase - 100, 150), ElementsAre(Pair(0, 50)));
  EXPECT_THAT(OfSpan(kBase + kSize - 10, 100), ElementsAre(Pair(kSize - 10, 10)));
  EXPECT_THAT(OfSpan(kBase - 10, kSize + 20), ElementsAre(Pair(0, kSize)));
}

TEST_F(NamedBlocksTest, ASpanBesideTheRangeNamesNothing) {
  EXPECT_THAT(OfSpan(kBase - 100, 100), IsEmpty());
  EXPECT_THAT(OfSpan(kBase + kSize, 100), IsEmpty());
  EXPECT_THAT(OfSpan(kBase, 0), IsEmpty());
  EXPECT_THAT(OfSpan(0, 0), IsEmpty());
}

TEST_F(NamedBlocksTest, AKernelHasItsName) {
  EXPECT_EQ(blocks_.FunctionName(Function("ebt_fill")), "ebt_fill");
  EXPECT_EQ(blocks_.FunctionName(Function("ebt_axpy")), "ebt_axpy");
  EXPECT_EQ(blocks_.FunctionName(nullptr), "an unnamed kernel");
}

}  // namespace
}  // namespace ebt::replay
