// One-line messages on stderr, made in a stack buffer and written with one write(2), so that
// they are safe inside a hook and whole lines survive many writers.
#ifndef EBBTIDE_SRC_BASE_LOG_H_
#define EBBTIDE_SRC_BASE_LOG_H_

#include <fmt/format.h>

#include <string_view>

#include "absl/status/status.h"

namespace ebt {

enum class LogLevel { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };

// Messages above the level are dropped. Default kWarning. Thread-safe.
void SetLogLevel(LogLevel level);
bool LogEnabled(LogLevel level);

// Writes "ebbtide: <text>\n", cut at 1000 bytes. Never allocates, never throws.
void WriteLogLine(std::string_view text) noexcept;

// A status's message as what fmt can format, whichever string_view abseil was built with. Valid
// as long as the status is.
inline std::string_view Message(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) noexcept {
  if (!LogEnabled(level)) return;
  char line[1000];
  try {
    auto end = fmt::format_to_n(line, sizeof(line), format, std::forward<Args>(args)...);
    WriteLogLine({line, end.size < sizeof(line) ? end.size : sizeof(line)});
  } catch (...) {
    WriteLogLine("a message could not be formatted");
  }
}

}  // namespace ebt

#endif  // EBBTIDE_SRC_BASE_LOG_H_
