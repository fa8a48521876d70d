// Offset-packing problems as tables of comma-separated values, one item a line.
#ifndef EBBTIDE_SRC_PLAN_PACK_CSV_H_
#define EBBTIDE_SRC_PLAN_PACK_CSV_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/plan/packer.h"

namespace ebt::plan {

// The first line names the columns, of which id, lower, upper and size must be there, in any
// order; others are carried along. An item lives from `lower` until before `upper` and takes
// `size` units of whatever kind; all three are whole numbers up to 2^60.
struct PackTable {
  std::string header;
  std::vector<std::string> rows;  // as they came; rows[i] is items[i]
  std::vector<Item> items;        // of alignment 1
  size_t offset_column = 0;       // as many as there are columns where none is named offset
};

// An error says file, line and what is wrong there. `file` is for the error alone.
absl::StatusOr<PackTable> PackTableFromCsv(std::string_view text, const std::string& file);

// The rows with each item's offset in a column of that name: its own, or one behind the others.
std::string PackTableToCsv(const PackTable& table, const std::vector<uint64_t>& offsets);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_PACK_CSV_H_
