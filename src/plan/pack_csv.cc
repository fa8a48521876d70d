#include "src/plan/pack_csv.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "fmt/format.h"

namespace ebt::plan {
namespace {

constexpr uint64_t kMostNumber = uint64_t{1} << 60;
// Offsets are sums of sizes, so this leaves room to add without overflow.
constexpr uint64_t kMostTogether = uint64_t{1} << 62;
// Of a damaged file one line must not fill the screen.
constexpr size_t kMostQuoted = 40;

enum Column : size_t { kId, kLower, kUpper, kSize, kColumns };
constexpr std::array<const char*, kColumns> kNames = {"id", "lower", "upper", "size"};

std::vector<absl::string_view> Fields(absl::string_view line) {
  std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
  for (absl::string_view& field : fields) field = absl::StripAsciiWhitespace(field);
  return fields;
}

class TableReader {
 public:
  explicit TableReader(const std::string& file) : file_(file) {}

  absl::StatusOr<PackTable> Read(absl::string_view text) {
    // Spreadsheets mark UTF-8 with these bytes, which belong to no column's name.
    absl::ConsumePrefix(&text, "\xEF\xBB\xBF");
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      ++line_;
      line = absl::StripTrailingAsciiWhitespace(line);
      if (line.empty()) continue;
      if (const absl::Status quoted = CheckUnquoted(line); !quoted.ok()) return quoted;
      const absl::Status status = columns_ == 0 ? ReadHeader(line) : ReadRow(line);
      if (!status.ok()) return status;
    }
    if (columns_ == 0)
      return Wrong("the file is empty: a header line id,lower,upper,size comes first");
    if (table_.items.empty()) return Wrong("there is no item behind the header line");
    return std::move(table_);
  }

 private:
  absl::Status Wrong(std::string_view what) const {
    return absl::InvalidArgumentError(fmt::format("{}:{}: {}", file_, line_, what));
  }

  // Such a field may hold commas, at which lines are cut here.
  absl::Status CheckUnquoted(absl::string_view line) const {
    for (absl::string_view field : Fields(line)) {
      if (field.empty() || field[0] != '"') continue;
      return Wrong(fmt::format(
          "{} is quoted, which is not supported: write fields without quotes and commas",
          absl::CHexEscape(field.substr(0, kMostQuoted))));
    }
    return absl::OkStatus();
  }

  absl::Status ReadHeader(absl::string_view line) {
    const std::vector<absl::string_view> fields = Fields(line);
    for (size_t i = 0; i < kColumns; ++i) {
      const auto column = std::find(fields.begin(), fields.end(), kNames[i]);
      if (column == fields.end()) return Wrong(fmt::format("there is no column {}", kNames[i]));
      if (std::find(column + 1, fields.end(), kNames[i]) != fields.end()) {
        return Wrong(fmt::format("column {} comes twice", kNames[i]));
      }
      where_[i] = size_t(column - fields.begin());
    }
    columns_ = fields.size();
    table_.header = std::string(line);
    table_.offset_column =
        size_t(std::find(fields.begin(), fields.end(), "offset") - fields.begin());
    return absl::OkStatus();
  }

  absl::Status ReadRow(absl::string_view line) {
    const std::vector<absl::string_view> fields = Fields(line);
    if (fields.size() != columns_) {
      return Wrong(
          fmt::format("{} values, but the header names {} columns", fields.size(), columns_));
    }
    std::array<uint64_t, kColumns> numbers{};
    for (size_t i = kLower; i < kColumns; ++i) {
      const absl::string_view field = fields[where_[i]];
      if (!absl::SimpleAtoi(field, &numbers[i]) || numbers[i] > kMostNumber) {
        return Wrong(fmt::format("{} is \"{}\": a whole number from 0 to 2^60 is expected",
                                 kNames[i], absl::CHexEscape(field.substr(0, kMostQuoted))));
      }
    }
    if (numbers[kUpper] <= numbers[kLower]) {
      return Wrong(fmt::format("upper {} is not above lower {}", numbers[kUpper], numbers[kLower]));
    }
    together_ += numbers[kSize];
    if (together_ > kMostTogether) return Wrong("all sizes together exceed 2^62");
    table_.rows.emplace_back(line);
    table_.items.push_back({.bytes = numbers[kSize],
                            .live = {{{numbers[kLower], numbers[kUpper]}, {}}},
                            .alignment = 1});
    return absl::OkStatus();
  }

  const std::string& file_;
  size_t line_ = 0;
  size_t columns_ = 0;  // 0: the header has not come yet
  std::array<size_t, kColumns> where_{};
  uint64_t together_ = 0;
  PackTable table_;
};

}  // namespace

absl::StatusOr<PackTable> PackTableFromCsv(std::string_view text, const std::string& file) {
  return TableReader(file).Read({text.data(), text.size()});
}

std::string PackTableToCsv(const PackTable& table, const std::vector<uint64_t>& offsets) {
  std::string out;
  const auto add = [&](const std::string& line, const std::string& offset) {
    std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
    fields.resize(std::max(fields.size(), table.offset_column + 1));
    fields[table.offset_column] = offset;
    out += absl::StrJoin(fields, ",") + "\n";
  };
  add(table.header, "offset");
  for (size_t i = 0; i < table.rows.size(); ++i) {
    add(table.rows[i], fmt::format("{}", offsets[i]));
  }
  return out;
}

}  // namespace ebt::plan
