#include <gtest/gtest.h>

#include <vector>

#include "src/callsite/line_table.h"

namespace ebt::callsite {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(LineTable, LnotabChangesTheLineAfterItsBytes) {
  // Bytes 0-5 on line 10, 6-13 on 12, from 14 on line 11 (0xff is -1).
  const Bytes table = {6, 2, 8, 0xff};
  EXPECT_EQ(LineAt(LineTableKind::kLnotab, table, 10, 0), 10);
  EXPECT_EQ(LineAt(LineTableKind::kLnotab, table, 10, 5), 10);
  EXPECT_EQ(LineAt(LineTableKind::kLnotab, table, 10, 6), 12);
  EXPECT_EQ(LineAt(LineTableKind::kLnotab, table, 10, 13), 12);
  EXPECT_EQ(LineAt(LineTableKind::kLnotab, table, 10, 14), 11);
  EXPECT_EQ(LineAt(LineTableKind::kLnotab, table, 10, 400), 11);
}

TEST(LineTable, LnotabAddsUpLargeChanges) {
  // A change of 200 lines takes two pairs: 127 + 73.
  const Bytes table = {4, 127, 0, 73};
  EXPECT_EQ(LineAt(LineTableKind::kLnotab, table, 1, 2), 1);
  EXPECT_EQ(LineAt(LineTableKind::kLnotab, table, 1, 4), 201);
}

TEST(LineTable, RangesChangeTheLineOfTheirOwnBytes) {
  // Bytes 0-3 on line 6 (5 + 1), 4-5 on no line (0x80 is -128), 6-9 on line 4 (6 - 2).
  const Bytes table = {4, 1, 2, 0x80, 4, 0xfe};
  EXPECT_EQ(LineAt(LineTableKind::kRanges, table, 5, 0), 6);
  EXPECT_EQ(LineAt(LineTableKind::kRanges, table, 5, 3), 6);
  EXPECT_EQ(LineAt(LineTableKind::kRanges, table, 5, 4), 0);
  EXPECT_EQ(LineAt(LineTableKind::kRanges, table, 5, 6), 4);
  EXPECT_EQ(LineAt(LineTableKind::kRanges, table, 5, 9), 4);
  EXPECT_EQ(LineAt(LineTableKind::kRanges, table, 5, 10), 0);
}

TEST(LineTable, LocationsOfEveryFormMoveTheLine) {
  const Bytes table = {
      0x80 | 0 << 3 | 1,  0x24,             // short form, 2 units: bytes 0-3, line 20
      0x80 | 11 << 3 | 0, 4,    9,          // one line down, 1 unit: bytes 4-5, line 21
      0x80 | 12 << 3 | 2, 0,    1,          // two lines down, 3 units: bytes 6-11, line 23
      0x80 | 13 << 3 | 0, 7,                // no columns, -3 lines (3 << 1 | 1): bytes 12-13, 20
      0x80 | 15 << 3 | 0,                   // nothing, 1 unit: bytes 14-15, no line
      0x80 | 14 << 3 | 0, 0x48, 3, 1, 5, 6  // long, +100 lines: 200 = 3 * 64 + 8; bytes 16-17, 120
  };
  const int64_t want[] = {20, 20, 20, 20, 21, 21, 23, 23, 23, 23, 23, 23, 20, 20, 0, 0, 120, 120};
  for (int64_t offset = 0; offset < 18; ++offset) {
    EXPECT_EQ(LineAt(LineTableKind::kLocations, table, 20, offset), want[offset]) << offset;
  }
  EXPECT_EQ(LineAt(LineTableKind::kLocations, table, 20, 18), 0);
}

TEST(LineTable, ATableCutShortGivesNoLine) {
  const Bytes cut = {0x80 | 14 << 3 | 0, 0x7f};  // the number goes on, the table does not
  EXPECT_EQ(LineAt(LineTableKind::kLocations, cut, 3, 100), 0);
  EXPECT_EQ(LineAt(LineTableKind::kLocations, {}, 3, 0), 0);
  EXPECT_EQ(LineAt(LineTableKind::kRanges, Bytes{4}, 3, 0), 0);
  EXPECT_EQ(LineAt(LineTableKind::kLnotab, Bytes{4}, 3, 8), 3);
}

TEST(LineTable, AFrameThatHasNotBegunIsOnTheFirstLine) {
  EXPECT_EQ(LineAt(LineTableKind::kRanges, Bytes{4, 1}, 7, -2), 7);
  EXPECT_EQ(LineAt(LineTableKind::kLocations, {}, 7, -2), 7);
}

}  // namespace
}  // namespace ebt::callsite
