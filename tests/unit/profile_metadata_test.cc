#include <gtest/gtest.h>

#include "src/profile/metadata.h"

namespace ebt::profile {
namespace {

Profile With(std::map<std::string, std::string> metadata) {
  Profile profile;
  profile.metadata = std::move(metadata);
  return profile;
}

TEST(ProfileMetadata, WhatIsMissingIsNoText) {
  EXPECT_EQ(Text(With({{"program", "train.py"}}), "program"), "train.py");
  EXPECT_EQ(Text(With({}), "program"), "");
}

TEST(ProfileMetadata, WhatIsNoNumberIsNone) {
  EXPECT_EQ(Number(With({{"rank", "3"}}), "rank"), 3u);
  EXPECT_EQ(Number(With({{"rank", "0"}}), "rank"), 0u);
  for (const char* text : {"", "third", "-1", "3x", "99999999999999999999"}) {
    EXPECT_EQ(Number(With({{"rank", text}}), "rank"), std::nullopt) << text;
  }
  EXPECT_EQ(Number(With({}), "rank"), std::nullopt);
}

TEST(ProfileMetadata, NativePeakIsWhatTheProcessAddedToTheDevice) {
  EXPECT_EQ(NativePeakBytes(
                With({{"device_used_base_bytes", "100"}, {"device_used_peak_bytes", "350"}}), 7),
            250u);
  EXPECT_EQ(NativePeakBytes(With({{"device_used_peak_bytes", "350"}}), 7), 350u);
}

TEST(ProfileMetadata, NativePeakThatNobodyWatchedIsWhatWasLive) {
  EXPECT_EQ(NativePeakBytes(With({}), 7), 7u);
  EXPECT_EQ(NativePeakBytes(With({{"device_used_base_bytes", "100"}}), 7), 7u);
}

}  // namespace
}  // namespace ebt::profile
