#include "src/base/units.h"

#include <gtest/gtest.h>

namespace ebt {
namespace {

TEST(ParseSize, PlainNumberIsBytes) {
  EXPECT_EQ(*ParseSize("0"), 0u);
  EXPECT_EQ(*ParseSize("4096"), 4096u);
  EXPECT_EQ(*ParseSize("512 B"), 512u);
}

TEST(ParseSize, BinaryUnitsAreSpelledThreeWays) {
  for (const char* text : {"24GiB", "24 gib", "24g", "24G", " 24Gi "}) {
    ASSERT_TRUE(ParseSize(text).ok()) << text;
    EXPECT_EQ(*ParseSize(text), 25769803776u) << text;
  }
  EXPECT_EQ(*ParseSize("3KiB"), 3072u);
  EXPECT_EQ(*ParseSize("1TiB"), 1099511627776u);
  EXPECT_EQ(*ParseSize("1PiB"), 1125899906842624u);
}

TEST(ParseSize, DecimalUnitsArePowersOfThousand) {
  EXPECT_EQ(*ParseSize("500MB"), 500000000u);
  EXPECT_EQ(*ParseSize("2kb"), 2000u);
}

TEST(ParseSize, FractionOfAUnitIsExact) {
  EXPECT_EQ(*ParseSize("1.5 GiB"), 1610612736u);
  EXPECT_EQ(*ParseSize(".5KiB"), 512u);
  EXPECT_EQ(*ParseSize("0.001MB"), 1000u);
  // 2^60 + 512: beyond what a double could hold.
  EXPECT_EQ(*ParseSize("1125899906842624.5KiB"), 1152921504606847488u);
}

TEST(ParseSize, RefusalQuotesTheText) {
  for (const char* text : {"", "  ", "-1GiB", "GiB", ".", "1.2.3GiB", "5 furlongs", "5GiBs", "1.5",
                           "1e9", "0x10", "18446744073709551616", "16777216TiB"}) {
    const auto size = ParseSize(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_NE(std::string(size.status().message()).find("\"" + std::string(text) + "\""),
              std::string::npos)
        << size.status();
  }
}

TEST(ParseSize, LargestSizeStillFits) {
  EXPECT_EQ(*ParseSize("18446744073709551615"), 18446744073709551615u);
  EXPECT_EQ(*ParseSize("16777215TiB"), 18446742974197923840u);
}

TEST(FormatSize, TwoDecimalsInTheLargestUnitThatFits) {
  EXPECT_EQ(FormatSize(0), "0 B");
  EXPECT_EQ(FormatSize(1023), "1023 B");
  EXPECT_EQ(FormatSize(1024), "1.00 KiB");
  EXPECT_EQ(FormatSize(13314398618), "12.40 GiB");
  EXPECT_EQ(FormatSize(18446744073709551615u), "16.00 EiB");
}

TEST(FormatSize, RoundingNeverShowsAThousandAndTwentyFour) {
  EXPECT_EQ(FormatSize(1024 * 1024 - 1), "1.00 MiB");
  EXPECT_EQ(FormatSize(1047552), "1023.00 KiB");
}

TEST(AlignUp, ReachesTheNextMultiple) {
  EXPECT_EQ(AlignUp(0, kBlockAlignment), 0u);
  EXPECT_EQ(AlignUp(1, kBlockAlignment), 512u);
  EXPECT_EQ(AlignUp(512, kBlockAlignment), 512u);
  EXPECT_EQ(AlignUp(513, kBlockAlignment), 1024u);
}

}  // namespace
}  // namespace ebt
