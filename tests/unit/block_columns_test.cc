#include "src/report/block_columns.h"

#include <gtest/gtest.h>

#include "tests/unit/page_columns.h"
#include "tests/unit/training_profile.h"

namespace ebt::report {
namespace {

using profile::ProfileBuilder;
using Values = std::vector<uint64_t>;

Values Of(const Column& column) { return Numbers(column.bytes()); }

TEST(ColumnTest, NumbersAreSevenBitsAByteLowestFirst) {
  Column column;
  for (uint64_t number : {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{300}})
    column.Add(number);
  EXPECT_EQ(column.bytes(), std::string("\x00\x7f\x80\x01\xac\x02", 6));
  column.Add(UINT64_MAX);
  EXPECT_EQ(Of(column).back(), UINT64_MAX);
}

TEST(ColumnTest, SmallNumbersOfEitherSignAreShort) {
  Column column;
  for (int64_t number : {0, -1, 1, -2, 2, -64}) column.AddSigned(number);
  EXPECT_EQ(Of(column), (Values{0, 1, 2, 3, 4, 127}));
  EXPECT_EQ(column.bytes().size(), 6u);
}

// The vectors of RFC 4648.
TEST(ColumnTest, Base64IsThatOfTheStandard) {
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("f"), "Zg==");
  EXPECT_EQ(Base64("fo"), "Zm8=");
  EXPECT_EQ(Base64("foo"), "Zm9v");
  EXPECT_EQ(Base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(Base64("\xff\xfe\xfd"), "//79");
}

TEST(BlockColumnsTest, ABlockIsARow) {
  ProfileBuilder builder;
  const uint32_t first = builder.Alloc(1000, 1);  // event 0
  builder.Launch(2, {first});                     // event 1, work 0
  const uint32_t second = builder.Alloc(512, 1);  // event 2
  builder.Copy(second);                           // event 3, work 1
  builder.Launch(0, {first, second});             // event 4, work 2
  builder.Free(first);                            // event 5
  builder.profile.blocks[0].address = 0x7000;
  builder.profile.blocks[1].address = 0x6e00;
  const BlockColumns blocks = ColumnsOfBlocks(builder.profile);
  EXPECT_EQ(Of(blocks.alloc), (Values{0, 2}));
  EXPECT_EQ(Of(blocks.life), (Values{5, 0}));
  EXPECT_EQ(Of(blocks.bytes), (Values{2, 1}));
  EXPECT_EQ(Of(blocks.address), (Values{2 * 0x7000, 2 * 0x200 - 1}));
  EXPECT_EQ(Of(blocks.touches), (Values{2, 2}));
  // Works 0 and 2; behind one work: works 1 and 2.
  EXPECT_EQ(Of(blocks.listed), (Values{0, 2, 0, 1}));
  EXPECT_TRUE(blocks.last.bytes().empty());
  const WorkColumns work = ColumnsOfWork(builder.profile);
  EXPECT_EQ(work.works, 3u);
  EXPECT_EQ(Of(work.event), (Values{1, 2, 1}));
  EXPECT_EQ(Of(work.what), (Values{9, 0, 7}));
}

// 400 blocks, each touched by 2^13 launches, are more than are listed; 2^12 of each are no more
// than 3 * 2^20.
TEST(BlockColumnsTest, OfTooManyTouchesTheFirstAndTheLastAreTold) {
  constexpr uint64_t kBlocks = 400, kLaunches = 1 << 13;
  ProfileBuilder builder;
  std::vector<uint32_t> blocks;
  for (uint64_t i = 0; i < kBlocks; ++i) blocks.push_back(builder.Alloc(512, 1));
  for (uint64_t i = 0; i < kLaunches; ++i) builder.Launch(0, blocks);
  const BlockColumns columns = ColumnsOfBlocks(builder.profile);
  EXPECT_EQ(columns.most_listed, kLaunches / 2);
  EXPECT_EQ(Of(columns.touches), Values(kBlocks, kLaunches));
  EXPECT_EQ(Of(columns.listed).size(), kBlocks * kLaunches / 2);
  // The last listed one is work 2^12 - 1, the last one work 2^13 - 1.
  EXPECT_EQ(Of(columns.last), Values(kBlocks, kLaunches / 2));
}

}  // namespace
}  // namespace ebt::report
