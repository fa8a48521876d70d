#include "src/report/readable_names.h"

#include <gtest/gtest.h>

namespace ebt::report {
namespace {

using callsite::Frame;
using profile::Profile;

Profile WithSite(std::vector<Frame> frames) {
  Profile profile;
  profile.sites.push_back({7, std::move(frames)});
  return profile;
}

TEST(ReadableNamesTest, FramesAreToldInnermostFirst) {
  const Profile profile =
      WithSite({{Frame::Kind::kNative, "ab12", 64, "_ZN2at5emptyEi", "/usr/lib/libtorch.so"},
                {Frame::Kind::kNative, "cd34", 0x1f0, "", "/usr/lib/libc10.so"},
                {Frame::Kind::kPython, "/home/x/model.py", 12, "Block.forward", ""}});
  EXPECT_EQ(NamesOf(profile).frames(7),
            (std::vector<std::string>{"at::empty(int) (libtorch.so)", "libc10.so+0x1f0",
                                      "/home/x/model.py:12 Block.forward"}));
}

TEST(ReadableNamesTest, AnUnknownSiteIsToldByItsNumber) {
  const Profile profile;
  const ReadableNames names = NamesOf(profile);
  EXPECT_TRUE(names.frames(18).empty());
  EXPECT_EQ(names.site(18), "site 0x12");
  EXPECT_EQ(names.site(0), "unknown site");
}

TEST(ReadableNamesTest, KernelsAreCalledByTheirShortNames) {
  const Profile profile;
  const ReadableNames names = NamesOf(profile);
  EXPECT_EQ(names.function("_Z4gemmIfEvPKT_i"), "gemm<float>");
  EXPECT_EQ(names.function("triton_poi_fused_0"), "triton_poi_fused_0");
  EXPECT_EQ(names.function("_Znonsense"), "_Znonsense");
}

TEST(ReadableNamesTest, NoCharacterIsCutApart) {
  EXPECT_EQ(Clipped("abcdef", 6), "abcdef");
  EXPECT_EQ(Clipped("abcdefg", 6), "abc...");
  // The third byte from the end of six would be the second of "é".
  EXPECT_EQ(Clipped("ab\xc3\xa9"
                    "cdefg",
                    6),
            "ab...");
  EXPECT_EQ(Clipped("\x80\x80\x80\x80\x80", 4), "...");
}

}  // namespace
}  // namespace ebt::report
