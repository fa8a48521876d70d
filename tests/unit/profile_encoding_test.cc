#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "src/profile/encoding.h"

namespace ebt::profile {
namespace {

using namespace std::string_literals;

std::string Varint(uint64_t value) {
  std::string out;
  PutVarint(out, value);
  return out;
}

std::string Signed(int64_t value) {
  std::string out;
  PutSigned(out, value);
  return out;
}

TEST(Crc32c, MatchesThePublishedCheckValues) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  // 32 zero bytes and 32 bytes of ones, from the appendix of RFC 3720.
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(Varint, TakesSevenBitsAByteLeastSignificantFirst) {
  EXPECT_EQ(Varint(0), "\x00"s);
  EXPECT_EQ(Varint(127), "\x7f"s);
  EXPECT_EQ(Varint(128), "\x80\x01"s);
  EXPECT_EQ(Varint(300), "\xac\x02"s);  // 300 = 2 * 128 + 44
  EXPECT_EQ(Varint(std::numeric_limits<uint64_t>::max()), std::string(9, '\xff') + "\x01");
}

TEST(Signed, KeepsSmallNumbersOfEitherSignShort) {
  EXPECT_EQ(Signed(0), "\x00"s);
  EXPECT_EQ(Signed(-1), "\x01"s);
  EXPECT_EQ(Signed(1), "\x02"s);
  EXPECT_EQ(Signed(-64), "\x7f"s);
  EXPECT_EQ(Signed(std::numeric_limits<int64_t>::min()), std::string(9, '\xff') + "\x01");
}

std::string BlockCode(uint32_t block, uint32_t last) {
  std::string out;
  PutBlockCode(out, block, last);
  return out;
}

TEST(BlockCode, IsTheAgeOrTheNumberWhicheverIsLess) {
  EXPECT_EQ(BlockCode(500, 500), "\x00"s);      // allocated last
  EXPECT_EQ(BlockCode(490, 500), "\x14"s);      // 2 * 10
  EXPECT_EQ(BlockCode(3, 500), "\x07"s);        // 2 * 3 + 1
  EXPECT_EQ(BlockCode(250, 500), "\xf5\x03"s);  // 2 * 250 + 1 = 3 * 128 + 117
  EXPECT_EQ(BlockCode(7, 0), "\x0f"s);          // not allocated yet
}

TEST(BlockCode, ReadsBackTheExtremes) {
  constexpr uint32_t kHighest = kNoBlock - 1;
  for (const uint32_t last : {0u, 1u, kHighest / 2, kHighest}) {
    for (const uint32_t block : {0u, 1u, kHighest / 2, kHighest / 2 + 1, kHighest}) {
      const std::string bytes = BlockCode(block, last);
      Cursor in(bytes);
      EXPECT_EQ(in.BlockCode(last), block);
      EXPECT_TRUE(in.ok());
    }
  }
}

TEST(BlockCode, BeforeTheFirstBlockOrBeyondTheHighestIsRefused) {
  Cursor before("\x0e");  // 7 before block 6
  before.BlockCode(6);
  EXPECT_FALSE(before.ok());
  std::string number;
  PutVarint(number, uint64_t{kNoBlock} << 1 | 1);
  Cursor beyond(number);
  beyond.BlockCode(0);
  EXPECT_FALSE(beyond.ok());
}

TEST(Cursor, ReadsBackTheExtremes) {
  for (const int64_t value : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::max(),
                              std::numeric_limits<int64_t>::min()}) {
    const std::string bytes = Signed(value);
    Cursor in(bytes);
    EXPECT_EQ(in.Signed(), value);
    EXPECT_TRUE(in.ok());
    EXPECT_EQ(in.remaining(), 0u);
  }
}

TEST(Cursor, RefusesANumberOfMoreThan64Bits) {
  const std::string bytes = std::string(9, '\xff') + "\x02";
  Cursor in(bytes);
  EXPECT_EQ(in.Varint(), 0u);
  EXPECT_FALSE(in.ok());
}

TEST(Cursor, RefusesANumberThatEndsOutside) {
  Cursor varint("\x80");
  varint.Varint();
  EXPECT_FALSE(varint.ok());
  Cursor fixed("\x01\x02\x03");
  fixed.Fixed32();
  EXPECT_FALSE(fixed.ok());
}

TEST(Cursor, RefusesACountThatTheRestCannotHold) {
  const std::string fits = "\x03"s + "abcdef", does_not = "\x04"s + "abcdef";
  Cursor three(fits);
  EXPECT_EQ(three.Count(2, "too many"), 3u);
  Cursor four(does_not);
  EXPECT_EQ(four.Count(2, "too many"), 0u);
  EXPECT_STREQ(four.reason(), "too many");
}

TEST(Cursor, KeepsTheFirstFailureAndItsPlace) {
  Cursor in("\x05zz", 100);
  EXPECT_EQ(in.String(), "");
  EXPECT_EQ(in.offset(), 101u);
  const char* reason = in.reason();
  EXPECT_EQ(in.Byte(), 0);
  EXPECT_EQ(in.reason(), reason);
}

}  // namespace
}  // namespace ebt::profile
