#include "src/cli/profiles.h"

#include <glob.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_replace.h"
#include "src/base/log.h"
#include "src/profile/reader.h"
#include "src/profile/steps.h"

namespace ebt::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDescribedAtMost = 4;

// The pattern as glob(3) wants it: our placeholders become "*", its own signs are taken as they
// stand.
std::string GlobOf(const std::string& pattern) {
  const std::string escaped =
      absl::StrReplaceAll(pattern, {{"\\", "\\\\"}, {"*", "\\*"}, {"?", "\\?"}, {"[", "\\["}});
  return absl::StrReplaceAll(
      escaped, {{"{pid}", "*"}, {"{rank}", "*"}, {"{host}", "*"}, {"{program}", "*"}});
}

std::vector<std::string> Matches(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return paths;
}

void DescribeProfile(const std::string& path) {
  const absl::StatusOr<profile::Profile> profile = profile::ReadProfile(path);
  if (!profile.ok()) {
    Log(LogLevel::kWarning, "{}", std::string(profile.status().message()));
    return;
  }
  const auto launches = std::count_if(
      profile->events.begin(), profile->events.end(),
      [](const profile::Event& event) { return event.kind == profile::EventKind::kLaunch; });
  const auto steps = profile::FindSteps(*profile);
  Log(LogLevel::kWarning, "{}: {} allocations, {} launches, {}{}; next: ebbtide plan {}", path,
      profile->blocks.size(), launches,
      steps ? fmt::format("{} steps of {} launches", steps->steps, steps->period)
            : "no repeating step",
      profile->truncated ? " (cut short: the process was killed)" : "", path);
}

}  // namespace

std::vector<std::string> ProfilesWritten(const std::string& pattern, fs::file_time_type since) {
  const fs::path path(pattern);
  const std::string suffix = path.extension().string();
  const std::string stem = pattern.substr(0, pattern.size() - suffix.size());
  std::set<std::string> paths;
  for (const std::string& glob : {GlobOf(pattern), GlobOf(stem) + ".[0-9]*" + GlobOf(suffix)}) {
    for (const std::string& found : Matches(glob)) {
      std::error_code error;
      const auto written = fs::last_write_time(found, error);
      if (!error && written >= since) paths.insert(found);
    }
  }
  return {paths.begin(), paths.end()};
}

void DescribeProfiles(const std::vector<std::string>& paths) {
  const size_t described = std::min(paths.size(), kDescribedAtMost);
  for (size_t i = 0; i < described; ++i) DescribeProfile(paths[i]);
  if (paths.size() > described) {
    Log(LogLevel::kWarning, "and {} profiles more, up to {}", paths.size() - described,
        paths.back());
  }
}

std::string CutNote(const profile::Profile& profile, const std::string& path) {
  return profile.truncated
             ? fmt::format("{} ends early: the process was killed, or the file cut", path)
             : "";
}

}  // namespace ebt::cli
