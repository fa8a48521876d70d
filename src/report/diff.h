// Two recordings side by side: before and after a change, or two ranks of one job.
#ifndef EBBTIDE_SRC_REPORT_DIFF_H_
#define EBBTIDE_SRC_REPORT_DIFF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/report/composition.h"
#include "src/report/names.h"

namespace ebt::report {

enum class Change : uint8_t { kSame, kGrown, kShrunk, kNew, kGone };

// What one site has at the peak of each recording. Sites have the same number in both.
struct SiteDiff {
  uint64_t site = 0;
  // Of most of its bytes: behind the change, or before where it is gone.
  profile::Kind kind = profile::Kind::kUnknown;
  Sum before, after;
  Change change = Change::kSame;  // of the bytes

  int64_t Difference() const { return int64_t(after.bytes) - int64_t(before.bytes); }
};

// All sites of both peaks, those whose bytes differ most first.
std::vector<SiteDiff> CompareSites(const Composition& before, const Composition& after);

// "same", "grown", "shrunk", "new", "gone".
std::string ChangeName(Change change);

// One of the two.
struct Side {
  std::string file;
  const profile::Profile& profile;
  const Composition& composition;
  const SiteNames& names;
};

// For people: at most 100 columns wide, no colours, ends with a newline. top_sites: how many of the
// sites that differ are listed.
std::string DiffTable(const Side& before, const Side& after, size_t top_sites = 12);

// One JSON object, without a newline behind it; profiles/REPORT.md names the keys.
std::string DiffJson(const Side& before, const Side& after);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_DIFF_H_
