// A report must be there before one wonders where it is.
#include <gtest/gtest.h>

#include <chrono>

#include "src/base/units.h"
#include "src/profile/kinds.h"
#include "src/profile/reader.h"
#include "src/profile/writer.h"
#include "src/report/composition.h"
#include "src/report/memory_json.h"
#include "src/report/memory_table.h"
#include "src/report/symbols.h"
#include "tests/unit/training_profile.h"

namespace ebt::report {
namespace {

constexpr double kMostSeconds = 2;
constexpr size_t kEvents = 300'000;

// Blocks get places as a heap that only grows would give them, and sites deep stacks.
profile::Profile Grown(const profile::TrainingShape& shape) {
  profile::Profile profile = profile::Training(shape).profile;
  uint64_t address = uint64_t{1} << 40;
  for (profile::Block& block : profile.blocks) {
    block.address = address;
    block.site = block.site * 100 + block.id % 50;
    address += AlignUp(block.bytes, kBlockAlignment);
  }
  profile.sites.clear();
  for (uint64_t id = 100; id < 900; ++id) {
    callsite::Site site{.id = id};
    for (uint64_t i = 0; i < 60; ++i) {
      site.frames.push_back(
          {callsite::Frame::Kind::kNative, "ab12ab12ab12ab12", id * 64 + i, "", "/proc/self/exe"});
    }
    profile.sites.push_back(site);
  }
  return profile;
}

double SecondsOfAReport(const std::string& path) {
  const auto began = std::chrono::steady_clock::now();
  auto profile = profile::ReadProfile(path);
  EXPECT_TRUE(profile.ok()) << profile.status();
  EXPECT_GE(profile->events.size(), kEvents);
  const auto steps = profile::FindSteps(*profile);
  EXPECT_TRUE(steps);
  const auto composition = Compose(*profile, steps, profile::FindKinds(*profile, steps));
  EXPECT_TRUE(composition.ok()) << composition.status();
  ResolveNames(profile->sites);
  const SiteNames names(profile->sites);
  EXPECT_NE(MemoryTable(*profile, *composition, names), "");
  EXPECT_NE(MemoryJson(path, *profile, *composition, names), "");
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

void ExpectQuick(const char* name, const profile::TrainingShape& shape) {
  const std::string path = testing::TempDir() + "/ebt_report_cost_" + name + ".ebp";
  ASSERT_TRUE(profile::WriteProfile(Grown(shape), path).ok());
  const double seconds = SecondsOfAReport(path);
  testing::Test::RecordProperty(name, std::to_string(seconds));
  EXPECT_LE(seconds, kMostSeconds);
  std::remove(path.c_str());
}

TEST(ReportCost, ManyShortStepsAreReportedInTwoSeconds) {
  ExpectQuick("short", {.layers = 24, .steps = 1350});
}

TEST(ReportCost, FewLongStepsAreReportedInTwoSeconds) {
  ExpectQuick("long", {.layers = 2000, .steps = 17});
}

}  // namespace
}  // namespace ebt::report
