// Reads back what the page's columns say: a second reading of their description (column.h).
#ifndef EBBTIDE_TESTS_UNIT_PAGE_COLUMNS_H_
#define EBBTIDE_TESTS_UNIT_PAGE_COLUMNS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ebt::report {

inline std::string FromBase64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int held = 0;
  for (char c : text) {
    if (c == '=') break;
    bits = bits * 64 + uint32_t(digits.find(c));
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += char(bits >> held);
    bits %= 1u << held;
  }
  return bytes;
}

inline std::vector<uint64_t> Numbers(const std::string& bytes) {
  std::vector<uint64_t> numbers;
  uint64_t number = 0, scale = 1;
  for (char c : bytes) {
    number += (uint64_t(c) & 0x7f) * scale;
    scale *= 128;
    if (uint64_t(c) & 0x80) continue;
    numbers.push_back(number);
    number = 0;
    scale = 1;
  }
  return numbers;
}

}  // namespace ebt::report

#endif  // EBBTIDE_TESTS_UNIT_PAGE_COLUMNS_H_
