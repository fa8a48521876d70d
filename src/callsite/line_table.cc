#include "src/callsite/line_table.h"

#include <cstddef>

namespace ebt::callsite {
namespace {

int64_t LineInLnotab(std::span<const uint8_t> table, int64_t line, int64_t offset) noexcept {
  int64_t begin = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    begin += table[i];
    if (begin > offset) break;
    line += static_cast<int8_t>(table[i + 1]);
  }
  return line;
}

int64_t LineInRanges(std::span<const uint8_t> table, int64_t line, int64_t offset) noexcept {
  constexpr int8_t kNoLine = -128;
  int64_t end = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    end += table[i];
    const auto change = static_cast<int8_t>(table[i + 1]);
    if (change != kNoLine) line += change;
    if (offset < end) return change == kNoLine ? 0 : line;
  }
  return 0;
}

// Signed numbers carry the sign in bit 0, magnitudes come in groups of six bits, lowest first,
// and bit 6 says that another group follows.
int64_t SignedNumber(std::span<const uint8_t> table, size_t& at) noexcept {
  uint64_t bits = 0;
  for (unsigned shift = 0; at < table.size() && shift < 60; shift += 6) {
    const uint8_t group = table[at++];
    bits |= static_cast<uint64_t>(group & 0x3f) << shift;
    if ((group & 0x40) == 0) break;
  }
  const auto magnitude = static_cast<int64_t>(bits >> 1);
  return (bits & 1) != 0 ? -magnitude : magnitude;
}

int64_t LineInLocations(std::span<const uint8_t> table, int64_t line, int64_t offset) noexcept {
  constexpr uint8_t kHead = 0x80;  // set in an entry's first byte and in no operand
  constexpr int kOneLine = 10, kNoColumns = 13, kLong = 14, kNone = 15;
  int64_t end = 0;
  size_t at = 0;
  while (at < table.size()) {
    const uint8_t head = table[at++];
    const int code = (head >> 3) & 0x0f;
    end += 2 * ((head & 7) + 1);
    if (code >= kOneLine && code < kNoColumns) {
      line += code - kOneLine;
    } else if (code == kNoColumns || code == kLong) {
      line += SignedNumber(table, at);
    }
    if (offset < end) return code == kNone ? 0 : line;
    while (at < table.size() && (table[at] & kHead) == 0) ++at;
  }
  return 0;
}

}  // namespace

int64_t LineAt(LineTableKind kind, std::span<const uint8_t> table, int64_t first_line,
               int64_t offset) noexcept {
  if (offset < 0) return first_line;
  switch (kind) {
    case LineTableKind::kLnotab:
      return LineInLnotab(table, first_line, offset);
    case LineTableKind::kRanges:
      return LineInRanges(table, first_line, offset);
    case LineTableKind::kLocations:
      return LineInLocations(table, first_line, offset);
  }
  return 0;
}

}  // namespace ebt::callsite
