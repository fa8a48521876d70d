#include "src/base/log.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace ebt {
namespace {

std::string Said(LogLevel allowed, LogLevel level, std::string_view text) {
  SetLogLevel(allowed);
  testing::internal::CaptureStderr();
  Log(level, "{}", text);
  SetLogLevel(LogLevel::kWarning);
  return testing::internal::GetCapturedStderr();
}

TEST(Log, MessageIsOneLineWithThePrefix) {
  EXPECT_EQ(Said(LogLevel::kWarning, LogLevel::kWarning, "budget 3 of 4"),
            "ebbtide: budget 3 of 4\n");
}

TEST(Log, MessageAboveTheLevelIsDropped) {
  EXPECT_EQ(Said(LogLevel::kWarning, LogLevel::kInfo, "detail"), "");
  EXPECT_EQ(Said(LogLevel::kError, LogLevel::kWarning, "detail"), "");
  EXPECT_EQ(Said(LogLevel::kDebug, LogLevel::kDebug, "detail"), "ebbtide: detail\n");
}

TEST(Log, LongMessageIsCutAtAThousandBytes) {
  EXPECT_EQ(Said(LogLevel::kInfo, LogLevel::kInfo, std::string(5000, 'x')),
            "ebbtide: " + std::string(1000, 'x') + "\n");
}

TEST(Log, LineBreaksInAMessageBecomeSpaces) {
  EXPECT_EQ(Said(LogLevel::kInfo, LogLevel::kInfo, "a\nb\tc"), "ebbtide: a b c\n");
}

TEST(Log, ErrnoIsLeftAlone) {
  testing::internal::CaptureStderr();
  errno = ENOTDIR;
  WriteLogLine("anything");
  EXPECT_EQ(errno, ENOTDIR);
  testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace ebt
