#include "src/profile/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "src/base/units.h"

namespace ebt::profile {
namespace {

using callsite::Frame;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Snapshot Full() {
  Snapshot it;
  it.metadata = {{"program", "train.py"}, {"later", "kept"}};
  it.refusal = {.bytes = 2 * kGiB,
                .kind = AllocKind::kAsync,
                .site = 0xfedcba9876543210,
                .count = 3,
                .largest_bytes = 4 * kGiB};
  it.device = 2;
  it.total_bytes = 80 * kGiB;
  it.free_bytes = kGiB;
  it.live_bytes = 60 * kGiB;
  it.live_blocks = 100;
  it.managed_bytes = 5;
  it.reserved_bytes = 70 * kGiB;
  it.persistent_bytes = 30 * kGiB;
  it.fragmentation = {4 * kGiB, kGiB, 9};
  it.plan = {.budget = 1, .planned = 2, .dynamic = 3, .cold = 4, .device_reserved = 5};
  it.sites = {{{1, 40 * kGiB, 4, 7, 8}, {2, 20 * kGiB, 5, 0, 0}}, 3, 100, 6};
  it.steps = {{7, StepsBy::kMarks, 55, true, 50 * kGiB, 12, {{{1, 50 * kGiB, 12, 0, 0}}, 0, 0, 0}},
              {8, StepsBy::kPeriod, 5, false, kGiB, 1, {}}};
  it.described = {{1,
                   {{Frame::Kind::kNative, "ab12", 0x40, "", "/lib/libx.so"},
                    {Frame::Kind::kPython, "train.py", 12, "main", ""}}}};
  it.labels = {{2, "model.py:3 forward"}};
  it.advice = {"Do this.", "Then that."};
  return it;
}

TEST(Snapshot, ReadsBackAsItWasWritten) {
  const std::string text = SnapshotJson(Full());
  EXPECT_TRUE(LooksLikeSnapshot(text));
  const auto it = ParseSnapshot(text, "job.oom-1.json");
  ASSERT_TRUE(it.ok()) << it.status();
  EXPECT_EQ(SnapshotJson(*it), text);
  EXPECT_EQ(it->refusal->site, 0xfedcba9876543210);
  EXPECT_EQ(it->refusal->kind, AllocKind::kAsync);
  EXPECT_EQ(it->metadata.at("later"), "kept");
  EXPECT_FALSE(it->idle_bytes);
  EXPECT_EQ(it->steps[1].by, StepsBy::kPeriod);
  EXPECT_FALSE(it->steps[1].whole);
  ASSERT_EQ(it->described.size(), 1u);
  EXPECT_EQ(it->described[0].frames[1].offset, 12u);
  EXPECT_EQ(it->labels.at(2), "model.py:3 forward");
  // 79 GiB are used, 70 of them by what is reserved for blocks.
  EXPECT_EQ(it->OthersBytes(), 9 * kGiB);
}

TEST(Snapshot, TextThatIsNoUtf8IsMended) {
  Snapshot it;
  it.metadata["program"] = "caf\xe9";
  EXPECT_TRUE(ParseSnapshot(SnapshotJson(it), "x").ok());
}

TEST(Snapshot, DeepStacksAreCutToTheInnermostFramesOfEachSort) {
  Snapshot it;
  callsite::Site site{.id = 1};
  for (int i = 0; i < 40; ++i) site.frames.push_back({Frame::Kind::kNative, "m", uint64_t(i)});
  for (int i = 0; i < 3; ++i) site.frames.push_back({Frame::Kind::kPython, "p.py", uint64_t(i)});
  it.described = {site};
  const auto read = ParseSnapshot(SnapshotJson(it), "x");
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->described[0].frames.size(), kSnapshotFrames + 3);
  EXPECT_EQ(read->described[0].frames[kSnapshotFrames - 1].offset, kSnapshotFrames - 1);
  EXPECT_EQ(read->described[0].frames.back().kind, Frame::Kind::kPython);
}

TEST(Snapshot, NamedSitesAreThoseOfNowOfTheStepsAndOfTheRequest) {
  EXPECT_THAT(NamedSites(Full()), ElementsAre(1, 2, 0xfedcba9876543210));
}

TEST(Snapshot, OtherJsonDoesNotLookLikeOne) {
  EXPECT_TRUE(LooksLikeSnapshot("{\n \"ebbtide_snapshot\": 1,"));
  EXPECT_TRUE(LooksLikeSnapshot("{\"ebbtide_snapshot\": 1}"));
  EXPECT_FALSE(LooksLikeSnapshot("{\"run\":{\"schema\":1}}"));
  EXPECT_FALSE(LooksLikeSnapshot("{\"schema\":2,\"ebbtide_snapshot\":1}"));
  EXPECT_FALSE(LooksLikeSnapshot("\"ebbtide_snapshot\""));
  EXPECT_FALSE(LooksLikeSnapshot("{"));
  EXPECT_FALSE(LooksLikeSnapshot(""));
}

TEST(Snapshot, DamagedOneIsRefusedInOneLineThatNamesFileAndFault) {
  const auto refused = [](const std::string& text) {
    const auto it = ParseSnapshot(text, "f.json");
    EXPECT_FALSE(it.ok()) << text;
    const std::string message(it.status().message());
    EXPECT_EQ(message.rfind("f.json: ", 0), 0u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  };
  const std::string whole = SnapshotJson(Full());
  for (size_t cut = 0; cut + 2 < whole.size(); cut += 7) refused(whole.substr(0, cut));
  EXPECT_THAT(refused("[]"), HasSubstr("is no snapshot"));
  EXPECT_THAT(refused("{\"ebbtide_snapshot\":9}"), HasSubstr("version 9"));
  const std::string begin = "{\"ebbtide_snapshot\":1,";
  EXPECT_THAT(refused(begin + "\"live_bytes\":-1}"), HasSubstr("live_bytes"));
  EXPECT_THAT(refused(begin + "\"live_bytes\":1e9}"), HasSubstr("live_bytes"));
  EXPECT_THAT(refused(begin + "\"live_bytes\":18446744073709551615}"), HasSubstr("larger"));
  EXPECT_THAT(refused(begin + "\"steps\":[7]}"), HasSubstr("steps"));
  EXPECT_THAT(refused(begin + "\"sites\":[]}"), HasSubstr("sites"));
  EXPECT_THAT(refused(begin + "\"refused\":{\"site\":\"zz\"}}"), HasSubstr("no site"));
  EXPECT_THAT(refused(begin + "\"fragmentation\":{\"free_bytes\":1,\"largest_free_bytes\":2}}"),
              HasSubstr("free piece"));
  std::string list = "{}";
  for (int i = 0; i < 5000; ++i) list += ",{}";
  EXPECT_THAT(refused(begin + "\"steps\":[" + list + "]}"), HasSubstr("too long"));
  EXPECT_THAT(refused(std::string(17 << 20, ' ')), HasSubstr("too large"));
}

// Whatever bytes change, it reads or is refused.
TEST(Snapshot, BytesThatChangeNeverCrashTheReader) {
  const std::string whole = SnapshotJson(Full());
  uint64_t random = 1;
  const auto next = [&random](uint64_t below) {
    random = random * 6364136223846793005 + 1442695040888963407;
    return (random >> 33) % below;
  };
  int read = 0;
  constexpr char kBytes[] = "{}[]\",:0179-ex\\ \xff";
  for (int i = 0; i < 3000; ++i) {
    std::string text = whole;
    for (uint64_t change = 0; change <= i % 4u; ++change)
      text[next(text.size())] = kBytes[next(sizeof(kBytes))];
    read += ParseSnapshot(text, "f.json").ok();
  }
  EXPECT_GT(read, 0) << "some changes are in words";
}

TEST(Snapshot, WhatIsMissingReadsAsNothing) {
  const auto it = ParseSnapshot("{\"ebbtide_snapshot\":1}", "f.json");
  ASSERT_TRUE(it.ok()) << it.status();
  EXPECT_EQ(it->live_bytes, 0u);
  EXPECT_FALSE(it->refusal);
  EXPECT_TRUE(it->steps.empty());
}

}  // namespace
}  // namespace ebt::profile
