// Line numbers from the tables that CPython keeps in a code object.
#ifndef EBBTIDE_SRC_CALLSITE_LINE_TABLE_H_
#define EBBTIDE_SRC_CALLSITE_LINE_TABLE_H_

#include <cstdint>
#include <span>

namespace ebt::callsite {

enum class LineTableKind : uint8_t {
  // co_lnotab, up to 3.9: pairs (bytes of bytecode, signed change of line); the change applies
  // from the end of those bytes on.
  kLnotab,
  // co_linetable of 3.10: pairs (bytes of bytecode, signed change of line); the change applies
  // to those very bytes, and -128 means that they have no line.
  kRanges,
  // co_linetable since 3.11: entries of a head byte (1 | code:4 | units - 1:3, a unit being two
  // bytes of bytecode) and operands that depend on the code.
  kLocations,
};

// The line of the instruction `offset` bytes into the bytecode; a negative offset (a frame that
// has not begun) is on the first line. 0 where the table has no line for it or is cut short.
// Pure, allocates nothing, reads nothing outside `table`.
int64_t LineAt(LineTableKind kind, std::span<const uint8_t> table, int64_t first_line,
               int64_t offset) noexcept;

}  // namespace ebt::callsite

#endif  // EBBTIDE_SRC_CALLSITE_LINE_TABLE_H_
