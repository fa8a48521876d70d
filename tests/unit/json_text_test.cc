#include "src/base/json_text.h"

#include <gtest/gtest.h>

namespace ebt {
namespace {

TEST(JsonTextTest, TextIsQuoted) {
  EXPECT_EQ(JsonText(""), "\"\"");
  EXPECT_EQ(JsonText("NVIDIA H200"), "\"NVIDIA H200\"");
}

TEST(JsonTextTest, WhatEndsOrBreaksALiteralIsEscaped) {
  EXPECT_EQ(JsonText("a\"b\\c\nd"), "\"a\\\"b\\\\c\\nd\"");
  EXPECT_EQ(JsonText(std::string_view("\0\x1f", 2)), "\"\\u0000\\u001f\"");
}

TEST(JsonTextTest, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(JsonText("caf\xc3\xa9"), "\"caf\xc3\xa9\"");
  EXPECT_EQ(JsonText("a\xff"
                     "b"),
            "\"a\xef\xbf\xbd"
            "b\"");
}

}  // namespace
}  // namespace ebt
