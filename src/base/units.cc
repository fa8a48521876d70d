#include "src/base/units.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "fmt/format.h"

namespace ebt {
namespace {

// A unit's factor, or 0 for a suffix that nobody writes. A lone letter is binary, as in
// nvidia-smi, ulimit and docker; only an explicit "MB" means powers of 1000.
uint64_t FactorOf(std::string_view suffix) {
  if (suffix.empty() || suffix == "b") return 1;
  constexpr std::string_view kLetters = "kmgtp";
  const size_t power = kLetters.find(suffix[0]);
  if (power == std::string_view::npos) return 0;
  const std::string_view rest = suffix.substr(1);
  const bool decimal = rest == "b";
  if (!decimal && !rest.empty() && rest != "i" && rest != "ib") return 0;
  uint64_t factor = 1;
  for (size_t i = 0; i <= power; ++i) factor *= decimal ? 1000 : 1024;
  return factor;
}

absl::Status Refusal(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(fmt::format(
      "size \"{}\" {}; write it as 24GiB, 1.5GiB, 500MB or a number of bytes", text, why));
}

}  // namespace

absl::StatusOr<uint64_t> ParseSize(std::string_view text) {
  const std::string lower =
      absl::AsciiStrToLower(absl::StripAsciiWhitespace({text.data(), text.size()}));
  if (lower.empty()) return Refusal(text, "is empty");
  if (lower[0] == '-') return Refusal(text, "is negative");

  const size_t number_end = std::min(lower.find_first_not_of("0123456789."), lower.size());
  const std::string number = lower.substr(0, number_end);
  const std::string suffix(absl::StripAsciiWhitespace(lower.substr(number_end)));
  const size_t point = std::min(number.find('.'), number.size());
  const std::string whole_digits = number.substr(0, point);
  std::string fraction_digits = point < number.size() ? number.substr(point + 1) : "";
  if ((whole_digits.empty() && fraction_digits.empty()) ||
      fraction_digits.find('.') != std::string::npos) {
    return Refusal(text, "is not a number");
  }
  const uint64_t factor = FactorOf(suffix);
  if (factor == 0) return Refusal(text, "has an unknown unit");
  if (factor == 1 && !fraction_digits.empty()) return Refusal(text, "is no whole number of bytes");

  uint64_t whole = 0;
  if (!whole_digits.empty() && !absl::SimpleAtoi(whole_digits, &whole)) {
    return Refusal(text, "is too large");
  }
  // Integers throughout: a double would lose bytes beyond 2^53.
  fraction_digits.resize(std::min<size_t>(fraction_digits.size(), 18));
  unsigned __int128 fraction = 0, scale = 1;
  for (char digit : fraction_digits) {
    fraction = fraction * 10 + static_cast<unsigned>(digit - '0');
    scale *= 10;
  }
  const unsigned __int128 bytes =
      static_cast<unsigned __int128>(whole) * factor + fraction * factor / scale;
  if (bytes > std::numeric_limits<uint64_t>::max()) return Refusal(text, "is too large");
  return static_cast<uint64_t>(bytes);
}

std::string FormatSize(uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < kKiB) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.995 would be printed as 1024.00.
  while (value >= 1023.995 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

}  // namespace ebt
