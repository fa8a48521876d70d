#include "src/report/trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/page/job.h"
#include "tests/unit/training_profile.h"

namespace ebt::report {
namespace {

using nlohmann::json;
using profile::EventKind;
using profile::Kind;
using profile::Profile;
using profile::ProfileBuilder;

std::string TextOf(const Profile& profile, const std::vector<Kind>& kinds = {},
                   const TraceOptions& options = {}) {
  const std::string path =
      testing::TempDir() + "ebt_trace_test_" + std::to_string(getpid()) + ".json";
  const absl::Status status =
      WriteTrace(profile, profile::FindSteps(profile), kinds, NamesOf(profile), path, options);
  EXPECT_TRUE(status.ok()) << status;
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  unlink(path.c_str());
  return text.str();
}

json TraceOf(const Profile& profile, const std::vector<Kind>& kinds = {},
             const TraceOptions& options = {}) {
  return json::parse(TextOf(profile, kinds, options), nullptr, false);
}

std::vector<json> With(const json& trace, const std::string& phase, const std::string& name = "") {
  std::vector<json> found;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == phase && (name.empty() || event["name"] == name)) found.push_back(event);
  }
  return found;
}

// Marks at events 0 and 4, 8 ms apart: an event is 2 ms.
ProfileBuilder FiveEvents() {
  ProfileBuilder builder;
  builder.Mark();
  const uint32_t block = builder.Alloc(1000, 1);
  builder.profile.functions.push_back({0, "gemm"});
  builder.Launch(0, {block});
  builder.Free(block);
  builder.Mark();
  builder.profile.events[4].gpu_ms = 8;
  return builder;
}

TEST(TraceTest, ABlockIsAPairOfEvents) {
  const json trace = TraceOf(FiveEvents().profile, {Kind::kActivation});
  const std::vector<json> begins = With(trace, "b"), ends = With(trace, "e");
  ASSERT_EQ(begins.size(), 1u);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_DOUBLE_EQ(begins[0]["ts"].get<double>(), 2000);
  EXPECT_DOUBLE_EQ(ends[0]["ts"].get<double>(), 6000);
  for (const char* key : {"id", "cat", "pid", "tid", "name"})
    EXPECT_EQ(begins[0][key], ends[0][key]);
  EXPECT_EQ(begins[0]["name"], "site 0x1");
  EXPECT_EQ(begins[0]["args"], json({{"bytes", 1024}, {"kind", "activation"}, {"touches", 1}}));
}

TEST(TraceTest, CountersFollowTheMemory) {
  const json trace = TraceOf(FiveEvents().profile, {Kind::kActivation});
  for (const char* name : {"activation", "all"}) {
    const std::vector<json> counters = With(trace, "C", name);
    ASSERT_EQ(counters.size(), 2u) << name;
    EXPECT_DOUBLE_EQ(counters[0]["ts"].get<double>(), 2000);
    EXPECT_EQ(counters[0]["args"]["bytes"], 1024);
    EXPECT_DOUBLE_EQ(counters[1]["ts"].get<double>(), 6000);
    EXPECT_EQ(counters[1]["args"]["bytes"], 0);
  }
}

TEST(TraceTest, ALaunchLastsUntilTheNextEvent) {
  const json trace = TraceOf(FiveEvents().profile);
  const std::vector<json> launches = With(trace, "X", "gemm");
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_DOUBLE_EQ(launches[0]["ts"].get<double>(), 4000);
  EXPECT_DOUBLE_EQ(launches[0]["dur"].get<double>(), 2000);
  EXPECT_NE(trace["otherData"]["times"].get<std::string>().find("interpolated"), std::string::npos);
}

TEST(TraceTest, CopiesPhasesAndRefusalsAreInstants) {
  ProfileBuilder builder;
  builder.Copy(builder.Alloc(512, 1));
  builder.profile.events[1].bytes = 77;
  builder.profile.events[1].stream = 3;
  builder.profile.events.push_back({.kind = EventKind::kFailed, .bytes = 99});
  builder.profile.events.push_back({.kind = EventKind::kPhase, .phase = "backward"});
  const json trace = TraceOf(builder.profile);
  ASSERT_EQ(With(trace, "i").size(), 3u);
  const std::vector<json> copies = With(trace, "i", "copy host to device");
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0]["args"]["bytes"], 77);
  const std::vector<json> refusals = With(trace, "i", "allocation refused");
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals[0]["args"]["bytes"], 99);
  EXPECT_EQ(With(trace, "i", "backward").size(), 1u);
  // Without marks an event is a microsecond, and a block that is never freed ends with them.
  EXPECT_DOUBLE_EQ(refusals[0]["ts"].get<double>(), 2);
  EXPECT_DOUBLE_EQ(With(trace, "e")[0]["ts"].get<double>(), 4);
  EXPECT_NE(trace["otherData"]["times"].get<std::string>().find("none were recorded"),
            std::string::npos);
  bool named = false;
  for (const json& name : With(trace, "M", "thread_name"))
    named |= name["tid"] == copies[0]["tid"] && name["args"]["name"] == "stream 3";
  EXPECT_TRUE(named);
}

// A recording of the training: step i begins 14 ms behind the one before.
TEST(TraceTest, SteadyStepsAreSlices) {
  const json trace = TraceOf(profile::Training({.layers = 4, .steps = 5}).profile);
  const std::vector<json> second = With(trace, "X", "step 2");
  ASSERT_EQ(second.size(), 1u);
  EXPECT_NEAR(second[0]["dur"].get<double>(), 14000, 0.01);
}

TEST(TraceTest, AsManyBlocksAreKeptAsThereIsRoomForTheLargest) {
  ProfileBuilder builder;
  for (uint64_t units : {5, 1, 3, 3, 4}) builder.Alloc(units * 512, 1);
  const auto kept = [&](const TraceOptions& options) {
    std::vector<uint64_t> sizes;
    for (const json& begin : With(TraceOf(builder.profile, {}, options), "b"))
      sizes.push_back(begin["args"]["bytes"].get<uint64_t>() / 512);
    return sizes;
  };
  EXPECT_EQ(kept({.most_blocks = 5}), (std::vector<uint64_t>{5, 1, 3, 3, 4}));
  EXPECT_EQ(kept({.most_blocks = 4}), (std::vector<uint64_t>{5, 3, 3, 4}));
  EXPECT_EQ(kept({.most_blocks = 3}), (std::vector<uint64_t>{5, 4})) << "of one size all or none";
  EXPECT_EQ(kept({.min_block_bytes = 3 * 512, .most_blocks = 1}),
            (std::vector<uint64_t>{5, 3, 3, 4}));
  const json trace = TraceOf(builder.profile, {}, {.most_blocks = 3});
  EXPECT_EQ(trace["otherData"]["blocks_left_out"], 3);
  EXPECT_EQ(trace["otherData"]["blocks_left_out_are_smaller_than_bytes"], 3 * 512 + 1);
}

TEST(TraceTest, TheLastLaunchesAreLeftOutAndCounted) {
  ProfileBuilder builder;
  for (int i = 0; i < 5; ++i) builder.Launch(0, {});
  const json trace = TraceOf(builder.profile, {}, {.most_works = 2});
  EXPECT_EQ(With(trace, "X").size(), 2u);
  EXPECT_EQ(trace["otherData"]["launches_and_copies_left_out"], 3);
}

TEST(TraceTest, NamesAreTextWhateverTheyAre) {
  const std::string evil = "\"},{</script>\n\\\xff\xe2\x80\xa8";
  ProfileBuilder builder;
  builder.Launch(0, {builder.Alloc(512, 1)});
  builder.profile.functions.push_back({0, evil});
  builder.profile.sites.push_back({1, {{callsite::Frame::Kind::kPython, "a.py", 3, evil, ""}}});
  builder.profile.metadata = {{"program", evil}, {evil, evil}};
  const json trace = TraceOf(builder.profile);
  ASSERT_TRUE(trace.is_object());
  EXPECT_EQ(With(trace, "X")[0]["name"], "\"},{</script>\n\\\xef\xbf\xbd\xe2\x80\xa8");
}

// The figure that is promised: below 40 MB with 1e5 blocks.
TEST(TraceTest, AHundredThousandBlocksStayBelowFortyMegabytes) {
  const page::Job job = page::MakeJob({.layers = 96, .steps = 75});
  ASSERT_GT(job.profile.blocks.size(), 100'000u);
  EXPECT_LT(TextOf(job.profile, job.kinds).size(), 40'000'000u);
}

TEST(TraceTest, AFileThatCannotBeWrittenIsNamed) {
  const Profile profile;
  const absl::Status status =
      WriteTrace(profile, std::nullopt, {}, NamesOf(profile), "/nowhere/t.json");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("/nowhere/t.json"), std::string::npos);
}

}  // namespace
}  // namespace ebt::report
