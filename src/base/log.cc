#include "src/base/log.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace ebt {
namespace {

constexpr std::string_view kPrefix = "ebbtide: ";
constexpr size_t kMaxText = 1000;

std::atomic<LogLevel> g_level{LogLevel::kWarning};

}  // namespace

void SetLogLevel(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }

bool LogEnabled(LogLevel level) { return level <= g_level.load(std::memory_order_relaxed); }

void WriteLogLine(std::string_view text) noexcept {
  char line[kPrefix.size() + kMaxText + 1];
  std::memcpy(line, kPrefix.data(), kPrefix.size());
  size_t length = kPrefix.size();
  for (char c : text.substr(0, kMaxText)) {
    // A path may hold a line break; a message is one line all the same.
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    line[length++] = control ? ' ' : c;
  }
  line[length++] = '\n';

  // The caller may be a hook: the application's errno is not ours to change.
  const int saved_errno = errno;
  const char* next = line;
  while (length > 0) {
    const ssize_t written = write(STDERR_FILENO, next, length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    next += written;
    length -= static_cast<size_t>(written);
  }
  errno = saved_errno;
}

}  // namespace ebt
