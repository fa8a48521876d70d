// What a launch is said to touch: live_blocks, function_table, launch_scan.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "src/driver/function_table.h"
#include "src/record/launch_scan.h"
#include "src/record/live_blocks.h"
#include "src/record/number_table.h"
#include "tests/unit/recorder_fake_driver.h"

namespace ebt::record {
namespace {

constexpr uint64_t kBase = 0x7f0000000000;

class LaunchScan : public testing::Test {
 protected:
  LaunchScan() {
    std::vector<uint32_t> stale;
    live_.Add(kBase, 0x1000, 0, nullptr, stale);
    live_.Add(kBase + 0x1000, 0x1000, 1, nullptr, stale);
    live_.Add(kBase + 0x4000, 0x200, 2, nullptr, stale);
  }

  std::vector<uint32_t> Scan(FakeKernel& kernel, std::vector<void*> params) {
    std::vector<uint32_t> touched;
    const ebt_launch launch{.function = &kernel, .params = params.data()};
    ScanLaunch(launch, *functions_.Find(&kernel), live_, touched);
    return touched;
  }

  DriverApi driver_ = FakeDriver();
  LiveBlocks live_;
  FunctionTable functions_{driver_};
};

using Ids = std::vector<uint32_t>;

TEST_F(LaunchScan, FindsThePointersAndEachBlockOnce) {
  uint64_t second = kBase + 0x1000, first = kBase + 0xfff, again = kBase;
  int count = 7;
  FakeKernel kernel{.name = "k", .sizes = {8, 8, 4, 8}};
  EXPECT_EQ(Scan(kernel, {&second, &first, &count, &again}), (Ids{0, 1}));
}

TEST_F(LaunchScan, TakesNoNumberOutsideABlockForAPointer) {
  uint64_t behind = kBase + 0x2000, before = kBase - 1, gap = kBase + 0x3fff, past = kBase + 0x4200;
  FakeKernel kernel{.name = "k", .sizes = {8, 8, 8, 8}};
  EXPECT_EQ(Scan(kernel, {&behind, &before, &gap, &past}), Ids{});
}

TEST_F(LaunchScan, FindsPointersDeepInsideALargeStruct) {
  std::array<uint64_t, 417> words{};  // 3336 bytes, as the fused Adam kernel's
  words[0] = kBase + 8;
  words[250] = kBase + 0x4010;
  words[416] = kBase + 0x1ff8;
  FakeKernel kernel{.name = "adam", .sizes = {4, 3336}};
  int first = 0;
  EXPECT_EQ(Scan(kernel, {&first, words.data()}), (Ids{0, 1, 2}));
}

TEST_F(LaunchScan, LooksAtAlignedWordsAlone) {
  std::array<unsigned char, 24> bytes{};
  memcpy(bytes.data() + 4, &kBase, sizeof(kBase));
  FakeKernel kernel{.name = "k", .sizes = {24}};
  EXPECT_EQ(Scan(kernel, {bytes.data()}), Ids{});
}

TEST_F(LaunchScan, ReadsNothingBeyondAParameter) {
  // A 4-byte and a 12-byte parameter in front of a block's address.
  struct {
    uint32_t small = 0;
    uint32_t pad = 0;
    uint64_t pointer = kBase;
  } memory;
  FakeKernel kernel{.name = "k", .sizes = {4, 12}};
  EXPECT_EQ(Scan(kernel, {&memory.small, &memory.small}), Ids{});
}

TEST_F(LaunchScan, DoesNotFindAFreedBlock) {
  uint64_t pointer = kBase;
  FakeKernel kernel{.name = "k", .sizes = {8}};
  EXPECT_EQ(Scan(kernel, {&pointer}), Ids{0});
  uint32_t id = 99;
  EXPECT_TRUE(live_.Remove(kBase, id));
  EXPECT_EQ(id, 0u);
  EXPECT_EQ(Scan(kernel, {&pointer}), Ids{});
  EXPECT_FALSE(live_.Remove(kBase, id));
}

TEST_F(LaunchScan, ReadsThePackedBufferOfExtra) {
  std::array<uint64_t, 3> buffer = {1, kBase + 0x4000, kBase + 0x1000};
  size_t bytes = 16;  // the third word is not the kernel's
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer.data(), CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &bytes, CU_LAUNCH_PARAM_END};
  FakeKernel kernel{.name = "k", .sizes = {8, 8}};
  const ebt_launch launch{.function = &kernel, .extra = extra};
  std::vector<uint32_t> touched;
  ScanLaunch(launch, *functions_.Find(&kernel), live_, touched);
  EXPECT_EQ(touched, Ids{2});
}

TEST_F(LaunchScan, FindsMoreBlocksThanAreLookedUpAtOnce) {
  std::vector<uint32_t> stale;
  std::vector<uint64_t> words;
  Ids expected;
  for (uint32_t i = 0; i < 300; ++i) {
    live_.Add(kBase + 0x100000 + i * 0x1000, 0x1000, 10 + i, nullptr, stale);
    words.push_back(kBase + 0x100000 + i * 0x1000 + 16);
    expected.push_back(10 + i);
  }
  FakeKernel kernel{.name = "k", .sizes = {300 * 8}};
  EXPECT_EQ(Scan(kernel, {words.data()}), expected);
}

TEST_F(LaunchScan, TakesOldBlocksUnderANewOneForGone) {
  std::vector<uint32_t> stale;
  live_.Add(kBase + 0x800, 0x1000, 7, nullptr, stale);
  EXPECT_EQ(stale, (Ids{0, 1}));
  uint64_t pointer = kBase + 0x17ff;
  FakeKernel kernel{.name = "k", .sizes = {8}};
  EXPECT_EQ(Scan(kernel, {&pointer}), Ids{7});
}

TEST(LiveBlocks, DropsTheBlocksOfOneContext) {
  LiveBlocks live;
  std::vector<uint32_t> ids;
  const auto first = reinterpret_cast<CUcontext>(1), second = reinterpret_cast<CUcontext>(2);
  live.Add(kBase, 8, 0, first, ids);
  live.Add(kBase + 8, 8, 1, second, ids);
  live.AddHandle(42, 2, first, ids);
  EXPECT_TRUE(ids.empty());
  live.RemoveContext(first, ids);
  EXPECT_EQ(ids, (Ids{0, 2}));
  ids.clear();
  live.RemoveContext(nullptr, ids);
  EXPECT_EQ(ids, Ids{1});
}

TEST(LiveBlocks, KeepsHandlesApartFromAddresses) {
  LiveBlocks live;
  std::vector<uint32_t> ids;
  live.AddHandle(kBase, 5, nullptr, ids);
  const uint64_t word = kBase;
  live.Find({&word, 1}, ids);
  EXPECT_TRUE(ids.empty());
  uint32_t id = 0;
  EXPECT_TRUE(live.Remove(kBase, id));
  EXPECT_EQ(id, 5u);
}

std::vector<size_t> SizesOf(const FunctionLayout* layout) {
  return {layout->sizes.begin(), layout->sizes.end()};
}

TEST(FunctionTable, AsksForALayoutOnce) {
  const DriverApi driver = FakeDriver();
  FunctionTable functions(driver);
  FakeKernel kernel{.name = "k", .sizes = {8, 4, 8}};
  const FunctionLayout* layout = functions.Find(&kernel);
  EXPECT_EQ(SizesOf(layout), kernel.sizes);
  fake.layout_questions = 0;
  EXPECT_EQ(functions.Find(&kernel), layout);
  EXPECT_EQ(fake.layout_questions, 0);
}

TEST(FunctionTable, KnowsLibraryKernelsAndNames) {
  const DriverApi driver = FakeDriver();
  FunctionTable functions(driver);
  FakeKernel library{.name = "from_library", .sizes = {8}, .library_kernel = true};
  FakeKernel nameless{.sizes = {8}};
  EXPECT_EQ(SizesOf(functions.Find(&library)), library.sizes);
  EXPECT_EQ(functions.Find(&nameless)->id, 1u);
  EXPECT_EQ(functions.Find(nullptr), nullptr);
  uint32_t from = 0;
  std::vector<std::string> names;
  functions.NamesSince(from, names);
  EXPECT_EQ(names, (std::vector<std::string>{"from_library", "kernel#1"}));
  EXPECT_EQ(from, 2u);
}

TEST(FunctionTable, AFunctionThatOutlivesTheEndOfOthersKeepsItsNumber) {
  const DriverApi driver = FakeDriver();
  FunctionTable functions(driver);
  FakeKernel kernel{.name = "k", .sizes = {8, 4}}, nameless{.sizes = {8}};
  const FunctionLayout* const layout = functions.Find(&kernel);
  const FunctionLayout* const other = functions.Find(&nameless);
  FunctionTable::HandlesMayEnd();
  EXPECT_EQ(functions.Find(&kernel), layout);
  EXPECT_EQ(functions.Find(&nameless), other);
  fake.layout_questions = 0;
  EXPECT_EQ(functions.Find(&kernel), layout);
  EXPECT_EQ(fake.layout_questions, 0);
}

TEST(FunctionTable, AHandleThatComesBackIsAnotherFunction) {
  const DriverApi driver = FakeDriver();
  FunctionTable functions(driver);
  FakeKernel kernel{.name = "old", .sizes = {8, 8, 8}};
  EXPECT_EQ(functions.Find(&kernel)->id, 0u);
  FunctionTable::HandlesMayEnd();
  kernel = {.name = "new", .sizes = {8}};
  EXPECT_EQ(functions.Find(&kernel)->id, 1u);
  EXPECT_EQ(SizesOf(functions.Find(&kernel)), kernel.sizes);
  // Equal parameters do not make it the same.
  FunctionTable::HandlesMayEnd();
  kernel.name = "newer";
  EXPECT_EQ(functions.Find(&kernel)->id, 2u);
}

TEST(FunctionTable, FunctionsThatTakeTurnsAtOneHandleStayTwo) {
  const DriverApi driver = FakeDriver();
  FunctionTable functions(driver);
  FakeKernel kernel;
  for (uint32_t turn = 0; turn < 6; ++turn) {
    kernel = {.name = turn % 2 == 0 ? "even" : "odd", .sizes = {8}};
    EXPECT_EQ(functions.Find(&kernel)->id, turn % 2);
    FunctionTable::HandlesMayEnd();
  }
}

TEST(FunctionTable, WhatAThreadRemembersEndsWhateverThreadEndsTheHandle) {
  DriverApi driver = FakeDriver();
  FunctionTable functions(driver);
  FakeKernel kernel{.name = "k", .sizes = {8, 8}};
  const FunctionLayout* const first = functions.Find(&kernel);
  const FunctionLayout* second = nullptr;
  std::thread([&] {
    FunctionTable::HandlesMayEnd();
    kernel.sizes = {4};
    second = functions.Find(&kernel);
  }).join();
  ASSERT_NE(second, first);
  EXPECT_EQ(functions.Find(&kernel), second);
}

TEST(FunctionTable, AThreadMixesNoTwoTables) {
  DriverApi driver = FakeDriver();
  FunctionTable a(driver), b(driver);
  FakeKernel kernel{.name = "k", .sizes = {8}}, other{.name = "o", .sizes = {4}};
  b.Find(&other);
  EXPECT_EQ(a.Find(&kernel)->id, 0u);
  EXPECT_EQ(b.Find(&kernel)->id, 1u);
  EXPECT_EQ(a.Find(&kernel)->id, 0u);
}

TEST(NumberTable, AForgottenHandleIsANewOneForEveryThread) {
  NumberTable numbers(1, 100);
  EXPECT_EQ(numbers.Find(0x1000), 1u);
  EXPECT_EQ(numbers.Find(0x2000), 2u);
  EXPECT_EQ(numbers.Find(0x1000), 1u);
  std::thread([&] { numbers.Forget(0x1000); }).join();
  EXPECT_EQ(numbers.Find(0x1000), 3u);
  EXPECT_EQ(numbers.Find(0x2000), 2u);
  std::thread([&] { EXPECT_EQ(numbers.Find(0x1000), 3u); }).join();
}

TEST(NumberTable, AThreadMixesNoTwoTables) {
  NumberTable streams(1, 100), graphs(0, 100);
  EXPECT_EQ(streams.Find(0x1000), 1u);
  EXPECT_EQ(graphs.Find(0x1000), 0u);
  EXPECT_EQ(streams.Find(0x1000), 1u);
}

TEST(LaunchShape, TellsGridBlockAndSharedBytesApart) {
  const ebt_launch one{.grid = {2, 1, 1}, .block = {4, 1, 1}, .shared_bytes = 0};
  const ebt_launch same{.grid = {2, 1, 1}, .block = {4, 1, 1}, .shared_bytes = 0};
  const ebt_launch turned{.grid = {4, 1, 1}, .block = {2, 1, 1}, .shared_bytes = 0};
  const ebt_launch shared{.grid = {2, 1, 1}, .block = {4, 1, 1}, .shared_bytes = 1};
  EXPECT_EQ(LaunchShape(one), LaunchShape(same));
  EXPECT_NE(LaunchShape(one), LaunchShape(turned));
  EXPECT_NE(LaunchShape(one), LaunchShape(shared));
}

}  // namespace
}  // namespace ebt::record
