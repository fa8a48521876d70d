// Text of a table that is being put together.
#ifndef EBBTIDE_SRC_REPORT_TEXT_H_
#define EBBTIDE_SRC_REPORT_TEXT_H_

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

namespace ebt::report {

using Text = fmt::memory_buffer;

template <typename... Args>
void Print(Text& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

// What a recording says must not steer a terminal: control characters become "?".
inline std::string Printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  }
  return text;
}

inline double Percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100 * double(part) / double(whole);
}

// `text` with its middle left out where it is longer than `width`: both ends of a label tell.
inline std::string Shortened(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  const size_t tail = width * 2 / 3 - 2;
  return text.substr(0, width - tail - 2) + ".." + text.substr(text.size() - tail);
}

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_TEXT_H_
