#include "src/plan/pack_csv.h"

#include <gtest/gtest.h>

namespace ebt::plan {
namespace {

std::string ErrorOf(const std::string& text) {
  const auto table = PackTableFromCsv(text, "t.csv");
  return table.ok() ? "none" : std::string(table.status().message());
}

TEST(PackCsvTest, ColumnsAreFoundByName) {
  const auto table = PackTableFromCsv("size,id,note,upper,lower\r\n7,a,x y,20,10\r\n\r\n", "t.csv");
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->items.size(), 1u);
  const Item& item = table->items[0];
  EXPECT_EQ(item.bytes, 7u);
  EXPECT_EQ(item.live[0].begin, 10u);
  EXPECT_EQ(item.live[0].end, 20u);
  EXPECT_TRUE(item.live[1].empty());
  EXPECT_EQ(item.alignment, 1u);
}

TEST(PackCsvTest, OffsetsComeBehindTheRowsAsTheyWere) {
  const auto table = PackTableFromCsv("id,lower,upper,size\nb,0,2,3\na,1,2,4", "t.csv");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(PackTableToCsv(*table, {4, 0}), "id,lower,upper,size,offset\nb,0,2,3,4\na,1,2,4,0\n");
}

TEST(PackCsvTest, AnOffsetColumnIsFilledAnew) {
  const auto table = PackTableFromCsv("id,offset,lower,upper,size\nb,99,0,2,3\n", "t.csv");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(PackTableToCsv(*table, {5}), "id,offset,lower,upper,size\nb,5,0,2,3\n");
}

TEST(PackCsvTest, ErrorsNameFileAndLine) {
  EXPECT_EQ(ErrorOf(""),
            "t.csv:1: the file is empty: a header line id,lower,upper,size comes first");
  EXPECT_EQ(ErrorOf("id,lower,size\n"), "t.csv:1: there is no column upper");
  EXPECT_EQ(ErrorOf("id,lower,upper,size,size\n"), "t.csv:1: column size comes twice");
  EXPECT_EQ(ErrorOf("id,lower,upper,size"), "t.csv:1: there is no item behind the header line");
  const std::string head = "id,lower,upper,size\n0,0,1,1\n";
  EXPECT_EQ(ErrorOf(head + "1,0,1\n"), "t.csv:3: 3 values, but the header names 4 columns");
  EXPECT_EQ(ErrorOf(head + "1,5,5,1\n"), "t.csv:3: upper 5 is not above lower 5");
  EXPECT_EQ(ErrorOf(head + "1,6,5,1\n"), "t.csv:3: upper 5 is not above lower 6");
  for (const std::string bad :
       {"", "x", "-1", "1.5", "99999999999999999999999", "1152921504606846977"}) {
    EXPECT_EQ(ErrorOf(head + "1,0,1," + bad + "\n"),
              "t.csv:3: size is \"" + bad + "\": a whole number from 0 to 2^60 is expected");
  }
}

TEST(PackCsvTest, AByteOrderMarkIsSkipped) {
  const auto table = PackTableFromCsv("\xEF\xBB\xBFid,lower,upper,size\na,0,1,2\n", "t.csv");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(PackTableToCsv(*table, {0}), "id,lower,upper,size,offset\na,0,1,2,0\n");
}

TEST(PackCsvTest, QuotedFieldsAreNamedWithTheirLine) {
  EXPECT_EQ(ErrorOf("id,lower,upper,size\n\"a, b\",0,1,2\n"),
            "t.csv:2: \\\"a is quoted, which is not supported: write fields without quotes and "
            "commas");
  EXPECT_NE(ErrorOf("\"id\",lower,upper,size\n").find("t.csv:1: "), std::string::npos);
}

TEST(PackCsvTest, SizesTogetherStayWithinWhatCanBeAdded) {
  std::string text = "id,lower,upper,size\n";
  for (int i = 0; i < 4; ++i) text += "0,0,1,1152921504606846976\n";  // 4 * 2^60 = 2^62
  EXPECT_EQ(ErrorOf(text), "none");
  EXPECT_EQ(ErrorOf(text + "0,0,1,1\n"), "t.csv:6: all sizes together exceed 2^62");
}

TEST(PackCsvTest, BytesOfAnyKindAreQuotedSafely) {
  EXPECT_EQ(ErrorOf("id,lower,upper,size\n0,0,1,\x1b[2J\n"),
            "t.csv:2: size is \"\\x1b[2J\": a whole number from 0 to 2^60 is expected");
}

}  // namespace
}  // namespace ebt::plan
