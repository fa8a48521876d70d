#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "src/callsite/python_layout.h"

namespace ebt::callsite {
namespace {

constexpr uint32_t k313 = 0x030d00f0, k314 = 0x030e08f0;

// The words that a _PyRuntime of 3.13.0 begins with, by their index.
std::array<uint64_t, 73> Runtime313() {
  std::array<uint64_t, 73> w{};
  std::memcpy(w.data(), "xdebugpy", 8);
  w[1] = k313;
  w[19] = 312, w[23] = 72;                                               // thread: size, frame
  w[28] = 80, w[29] = 8, w[30] = 0, w[31] = 56, w[32] = 72, w[33] = 70;  // frame
  w[34] = 208, w[35] = 112, w[36] = 120, w[37] = 128, w[38] = 136, w[39] = 68, w[43] = 200;  // code
  w[44] = 16, w[45] = 8;                           // object
  w[64] = 40, w[65] = 16, w[66] = 32;              // bytes
  w[67] = 64, w[68] = 32, w[69] = 16, w[70] = 40;  // string
  return w;
}

// Of 3.14.8. Its interpreter's state is described by three words more, its frame by two, its code
// by one, and a description of sets came in before that of bytes.
std::array<uint64_t, 82> Runtime314() {
  std::array<uint64_t, 82> w{};
  std::memcpy(w.data(), "xdebugpy", 8);
  w[1] = k314;
  w[22] = 336, w[26] = 72;                                               // thread: size, frame
  w[31] = 88, w[32] = 8, w[33] = 0, w[34] = 56, w[35] = 80, w[36] = 74;  // frame
  w[39] = 216, w[40] = 112, w[41] = 120, w[42] = 128, w[43] = 136, w[44] = 68, w[48] = 208;  // code
  w[50] = 16, w[51] = 8;                           // object
  w[74] = 40, w[75] = 16, w[76] = 32;              // bytes
  w[77] = 64, w[78] = 32, w[79] = 16, w[80] = 40;  // string
  return w;
}

TEST(PythonLayout, KnowsTheVersionsThatItSaysItKnows) {
  for (uint32_t minor = 9; minor <= 12; ++minor) {
    EXPECT_TRUE(LayoutOf(0x03000000 | minor << 16, nullptr).ok()) << minor;
  }
  EXPECT_EQ(LayoutOf(0x030800f0, nullptr).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(LayoutOf(0x030f00f0, nullptr).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(LayoutOf(0, nullptr).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(PythonLayout, ReadsTheDescriptionOf313) {
  const auto words = Runtime313();
  const auto layout = LayoutOf(k313, words.data());
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->thread_frame, 72);
  EXPECT_EQ(layout->frame_previous, 8);
  EXPECT_EQ(layout->frame_instruction, 56);
  EXPECT_EQ(layout->frame_owner, 70);
  EXPECT_EQ(layout->code_name, 128);
  EXPECT_EQ(layout->code_first_traceable, 184);
  EXPECT_EQ(layout->code_version, 92);
  EXPECT_EQ(layout->string_compact_size, 56);
  EXPECT_EQ(layout->bytes_data, 32);
}

TEST(PythonLayout, ReadsTheDescriptionOf314) {
  const auto words = Runtime314();
  const auto layout = LayoutOf(k314, words.data());
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->thread_frame, 72);
  EXPECT_EQ(layout->frame_previous, 8);
  EXPECT_EQ(layout->frame_instruction, 56);
  EXPECT_EQ(layout->frame_owner, 74);
  EXPECT_EQ(layout->code_name, 128);
  EXPECT_EQ(layout->code_bytecode, 208);
  EXPECT_EQ(layout->code_first_traceable, 192);
  EXPECT_EQ(layout->code_version, 92);
  EXPECT_EQ(layout->object_type, 8);
  EXPECT_EQ(layout->string_state, 32);
  EXPECT_EQ(layout->string_compact_size, 56);
  EXPECT_EQ(layout->bytes_data, 32);
}

TEST(PythonLayout, DoesNotReadOneVersionsDescriptionAsAnothers) {
  auto words = Runtime314();
  words[1] = k313;
  EXPECT_FALSE(LayoutOf(k313, words.data()).ok());
}

TEST(PythonLayout, DoesNotTrustTheVersionsPlaceInAnotherStructure) {
  auto words = Runtime313();
  words[35] = 104;  // the file name is elsewhere than in 3.13
  const auto layout = LayoutOf(k313, words.data());
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->code_version, PythonLayout::kNone);
}

TEST(PythonLayout, RefusesADescriptionThatContradictsItself) {
  EXPECT_FALSE(LayoutOf(k313, nullptr).ok());
  auto words = Runtime313();
  words[0] ^= 1;  // cookie
  EXPECT_FALSE(LayoutOf(k313, words.data()).ok());
  words = Runtime313();
  words[1] = k313 + 1;  // of another version than the one running
  EXPECT_FALSE(LayoutOf(k313, words.data()).ok());
  words = Runtime313();
  words[39] = 208;  // the first line lies past the code object
  EXPECT_FALSE(LayoutOf(k313, words.data()).ok());
}

TEST(PythonLayout, RefusesABuildWithoutGil) {
  auto words = Runtime313();
  words[2] = 1;
  EXPECT_EQ(LayoutOf(k313, words.data()).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace ebt::callsite
