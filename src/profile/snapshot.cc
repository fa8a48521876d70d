#include "src/profile/snapshot.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace ebt::profile {

std::string_view AllocKindName(AllocKind kind) {
  constexpr std::array<std::string_view, 6> kNames = {"plain",          "pitched", "managed",
                                                      "stream-ordered", "pool",    "physical"};
  const auto index = static_cast<size_t>(kind);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::string_view StepsByName(StepsBy by) {
  switch (by) {
    case StepsBy::kMarks:
      return "marks";
    case StepsBy::kPeriod:
      return "period";
    case StepsBy::kLaunches:
      break;
  }
  return "launches";
}

bool MayBeAProbe(const Snapshot& snapshot) {
  return snapshot.refusal && snapshot.total_bytes > 0 &&
         snapshot.refusal->bytes > snapshot.total_bytes / 2;
}

SnapshotSites LargestSites(std::vector<SnapshotSite> sites, size_t most) {
  std::sort(sites.begin(), sites.end(), [](const SnapshotSite& a, const SnapshotSite& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.site < b.site;
  });
  SnapshotSites out;
  for (size_t i = most; i < sites.size(); ++i) {
    ++out.other_sites;
    out.other_bytes += sites[i].bytes;
    out.other_blocks += sites[i].blocks;
  }
  if (sites.size() > most) sites.resize(most);
  out.largest = std::move(sites);
  return out;
}

std::vector<uint64_t> NamedSites(const Snapshot& snapshot) {
  std::set<uint64_t> named;
  const auto add = [&](const SnapshotSites& sites) {
    for (const SnapshotSite& site : sites.largest) named.insert(site.site);
  };
  add(snapshot.sites);
  for (const SnapshotStep& step : snapshot.steps) add(step.sites);
  if (snapshot.refusal) named.insert(snapshot.refusal->site);
  named.erase(0);
  return {named.begin(), named.end()};
}

}  // namespace ebt::profile
