// Text of a table that is being put together.
#ifndef EBBTIDE_SRC_REPORT_TEXT_H_
#define EBBTIDE_SRC_REPORT_TEXT_H_

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace ebt::report {

using Text = fmt::memory_buffer;

template <typename... Args>
void Print(Text& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_TEXT_H_
