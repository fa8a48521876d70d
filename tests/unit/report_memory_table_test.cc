// What the terminal and `--json` show, of recordings small enough to add up by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/base/units.h"
#include "src/report/memory_json.h"
#include "src/report/memory_table.h"
#include "tests/unit/training_profile.h"

namespace ebt::report {
namespace {

using namespace ebt::profile;
using nlohmann::json;

// Weights of 4 MiB, and 2 MiB that three steps of four launches, 2 ms each, take.
Profile SmallJob() {
  ProfileBuilder job;
  job.profile.metadata = {{"program", "train.py"}, {"gpu", "H200"}, {"rank", "1"}};
  job.profile.functions = {{0, "_ZN4demo4gemmILi4EEEvPf"}, {1, "b"}, {2, "c"}, {3, "d"}};
  job.profile.sites = {
      {17, {{callsite::Frame::Kind::kPython, "nn/linear.py", 12, "init", ""}}},
      {18, {{callsite::Frame::Kind::kNative, "ab12ab12", 64, "lib::grow(int)", "/opt/libjob.so"}}}};
  const uint32_t weights = job.Alloc(4 * kMiB, 17);
  job.Launch(3, {weights});
  for (int step = 0; step < 4; ++step) {
    job.Step();
    job.profile.events.push_back({.kind = EventKind::kMark, .gpu_ms = 2.0 * step});
    const uint32_t block = job.Alloc(2 * kMiB, 18);
    for (uint32_t i = 0; i < 4; ++i) job.Launch(i, {i == 0 ? weights : block});
    job.Free(block);
  }
  job.Step();
  job.profile.events.push_back({.kind = EventKind::kMark, .gpu_ms = 8});
  return job.profile;
}

const std::vector<Kind> kSmallKinds = {Kind::kParameter, Kind::kActivation, Kind::kActivation,
                                       Kind::kActivation, Kind::kActivation};

std::string Table(const Profile& profile, const std::vector<Kind>& kinds, size_t sites = 12) {
  const auto composition = Compose(profile, FindSteps(profile), kinds);
  EXPECT_TRUE(composition.ok()) << composition.status();
  return MemoryTable(profile, *composition, SiteNames(profile.sites), sites);
}

json Json(const Profile& profile, const std::vector<Kind>& kinds) {
  const auto composition = Compose(profile, FindSteps(profile), kinds);
  EXPECT_TRUE(composition.ok()) << composition.status();
  return json::parse(MemoryJson("job.ebp", profile, *composition, SiteNames(profile.sites)));
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(MemoryTable, SaysWhatWhenAndWho) {
  const std::string table = Table(SmallJob(), kSmallKinds);
  EXPECT_TRUE(Has(table, "Recording  train.py, rank 1, H200\n")) << table;
  EXPECT_TRUE(Has(table, "Steps      4 of 4 launches behind the first 1, as marked; 2.00 ms each"))
      << table;
  EXPECT_TRUE(Has(table, "Peak       6.00 MiB in 2 blocks\n")) << table;
  EXPECT_TRUE(Has(table, "step 1, behind launch 0 of 4\n           before demo::gemm<4>\n"))
      << table;
  EXPECT_TRUE(Has(table, "Before     4.00 MiB in 1 blocks")) << table;
  // The weights are touched once in four launches.
  EXPECT_TRUE(Has(table, "Idle       4.00 MiB of the peak (66.7 %)")) << table;
  EXPECT_TRUE(Has(table, "\nparameter             4.00 MiB  66.7 %        1    4.00 MiB")) << table;
  EXPECT_TRUE(Has(table, "\nnn/linear.py:12 init ")) << table;
  EXPECT_TRUE(Has(table, "\nlibjob.so lib::grow ")) << table;
}

TEST(MemoryTable, FitsATerminal) {
  Training training({.layers = 20});
  training.profile.metadata["device_used_base_bytes"] = "0";
  training.profile.metadata["device_used_peak_bytes"] = std::to_string(kGiB);
  training.profile.events.push_back({.kind = EventKind::kFailed, .bytes = kGiB});
  for (Block& block : training.profile.blocks) {
    block.address = (uint64_t{1} << 40) + block.id * 4 * kMiB;
    block.site = block.id;
  }
  std::vector<Kind> kinds;
  for (const Block& block : training.profile.blocks) kinds.push_back(Kind(block.id % kKinds));
  const auto lines = Lines(Table(training.profile, kinds));
  EXPECT_LE(lines.size(), 40u);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 100u) << line;
}

TEST(MemoryTable, ListsAsManySitesAsAskedForAndAddsUpTheRest) {
  const std::string table = Table(SmallJob(), kSmallKinds, 1);
  EXPECT_FALSE(Has(table, "lib::grow")) << table;
  EXPECT_TRUE(
      Has(table, "... and 1 more (--sites N)                      2.00 MiB  33.3 %       1\n"))
      << table;
  EXPECT_FALSE(Has(Table(SmallJob(), kSmallKinds, 2), "more (--sites"));
}

TEST(MemoryTable, AJobWithoutStepsSaysSo) {
  ProfileBuilder job;
  job.Alloc(kMiB, 1);
  const std::string table = Table(job.profile, {Kind::kUnknown});
  EXPECT_TRUE(Has(table, "Steps      none found")) << table;
  EXPECT_TRUE(Has(table, "Recording  of an unknown program\n")) << table;
  EXPECT_FALSE(Has(table, "Idle  ")) << table;
}

TEST(MemoryTable, ControlCharactersOfARecordingDoNotReachTheTerminal) {
  Profile profile = SmallJob();
  profile.metadata["program"] = "a\x1b[2Jb";
  profile.sites[0].frames[0].function = "f\ng\x1b]0;x\x07";
  profile.functions[0].name = "k\rl";
  const std::string table = Table(profile, kSmallKinds);
  const auto steering = [](char c) { return c != '\n' && static_cast<unsigned char>(c) < ' '; };
  EXPECT_FALSE(std::any_of(table.begin(), table.end(), steering));
  EXPECT_TRUE(Has(table, "a?[2Jb")) << table;
}

TEST(MemoryJson, HoldsTheModelWithItsUnits) {
  const json it = Json(SmallJob(), kSmallKinds);
  EXPECT_EQ(it["file"], "job.ebp");
  EXPECT_EQ(it["peak_bytes"], 6 * kMiB);
  EXPECT_EQ(it["native_peak_bytes"], 6 * kMiB);
  EXPECT_EQ(it["native_peak_measured"], false);
  EXPECT_EQ(it["steps"], 4);
  EXPECT_EQ(it["step_launches"], 4);
  EXPECT_EQ(it["step_ms"], 2);
  EXPECT_EQ(it["peak"]["step"], 0);
  EXPECT_EQ(it["peak"]["step_launch"], 0);
  EXPECT_EQ(it["peak"]["next_function"], "void demo::gemm<4>(float*)");
  EXPECT_EQ(it["idle_bytes"], 4 * kMiB);
  EXPECT_EQ(it["kinds"]["parameter"]["bytes"], 4 * kMiB);
  EXPECT_EQ(it["kinds"]["optimizer state"]["blocks"], 0);
  EXPECT_EQ(it["sites"][1]["kind"], "activation");
  EXPECT_EQ(it["sites"][1]["frames"][0]["function"], "lib::grow(int)");
  EXPECT_EQ(it["sites"][1]["frames"][0]["offset"], "0x40");
  EXPECT_EQ(it["sites"][0]["frames"][0]["line"], 12);
}

TEST(MemoryJson, KindsAndSitesAddUpToThePeak) {
  const json it = Json(SmallJob(), kSmallKinds);
  uint64_t kinds = 0, sites = 0;
  for (const auto& [name, kind] : it["kinds"].items()) kinds += kind["bytes"].get<uint64_t>();
  for (const json& site : it["sites"]) sites += site["bytes"].get<uint64_t>();
  EXPECT_EQ(kinds, it["peak_bytes"]);
  EXPECT_EQ(sites, it["peak_bytes"]);
}

TEST(MemoryJson, WhatIsNotKnownIsNull) {
  ProfileBuilder job;
  job.Alloc(kMiB, 1);
  const json it = Json(job.profile, {Kind::kUnknown});
  EXPECT_EQ(it["steps"], 0);
  for (const char* key : {"step_ms", "step_launches", "idle_bytes", "fragmentation",
                          "reserved_per_live", "backward_end_ms"}) {
    ASSERT_TRUE(it.contains(key)) << key;
    EXPECT_TRUE(it[key].is_null()) << key;
  }
}

TEST(MemoryJson, TextThatIsNoUtf8StillMakesJson) {
  Profile profile = SmallJob();
  profile.metadata["program"] = "a\xff";
  EXPECT_EQ(Json(profile, kSmallKinds)["program"], "a\xef\xbf\xbd");
}

}  // namespace
}  // namespace ebt::report
