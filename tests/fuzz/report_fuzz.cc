// Whatever a recording says, what is made of it holds together: sums add up to the peak, JSON is
// JSON, a trace and a page can be written, and a plan keeps every rule.
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "src/plan/planner.h"
#include "src/plan/validator.h"
#include "src/profile/kinds.h"
#include "src/profile/reader.h"
#include "src/profile/steps.h"
#include "src/report/composition.h"
#include "src/report/html.h"
#include "src/report/memory_json.h"
#include "src/report/memory_table.h"
#include "src/report/names.h"
#include "src/report/readable_names.h"
#include "src/report/trace.h"
#include "tests/fuzz/profile_bytes.h"

namespace {

using namespace ebt;  // NOLINT: its folders' names are what is read here

void Require(bool holds) {
  if (!holds) abort();
}

void CheckSums(const report::Composition& composition) {
  uint64_t kinds = 0, sites = 0;
  for (const auto& kind : composition.kinds) kinds += kind.at_peak.bytes;
  for (const auto& site : composition.site_uses) sites += site.at_peak.bytes;
  Require(kinds == composition.peak_bytes && sites == composition.peak_bytes);
}

bool IsJson(const std::string& text) { return nlohmann::json::accept(text); }

void CheckTrace(const profile::Profile& profile, const std::optional<profile::Steps>& steps,
                const std::vector<profile::Kind>& kinds, const report::ReadableNames& names) {
  static const int fd = memfd_create("trace", 0);
  static const std::string path = fmt::format("/proc/self/fd/{}", fd);
  Require(report::WriteTrace(profile, steps, kinds, names, path).ok());
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  Require(IsJson(text.str()));
}

void CheckPlan(const profile::Profile& profile) {
  const auto result = plan::MakePlan(profile, {});
  if (!result.ok()) return Require(!result.status().message().empty());
  if (result->summary.feasible) Require(plan::ValidatePlan(profile, result->plan).ok());
}

void CheckReports(std::string_view bytes) {
  const absl::StatusOr<profile::Profile> profile = profile::ParseProfile(bytes, "fuzz");
  if (!profile.ok()) return;
  const auto steps = profile::FindSteps(*profile);
  const auto kinds = profile::FindKinds(*profile, steps);
  const auto composition = report::Compose(*profile, steps, kinds);
  if (!composition.ok()) return Require(!composition.status().message().empty());
  CheckSums(*composition);
  const report::SiteNames names(profile->sites);
  Require(IsJson(report::MemoryJson("fuzz", *profile, kinds, *composition, names)));
  Require(!report::MemoryTable(*profile, *composition, names).empty());
  const report::ReadableNames readable = report::NamesOf(*profile);
  Require(!report::HtmlPage(*profile, steps, kinds, readable).empty());
  CheckTrace(*profile, steps, kinds, readable);
  CheckPlan(*profile);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckReports(bytes);
  CheckReports(ebt::fuzz::WithTrueChecksums(bytes));
  return 0;
}
