#include "src/report/diff.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "fmt/format.h"
#include "src/base/units.h"
#include "src/report/text.h"

namespace ebt::report {
namespace {

using json = nlohmann::ordered_json;

constexpr size_t kSiteWidth = 42;
constexpr size_t kHeadWidth = 86;

Change ChangeOf(const Sum& before, const Sum& after) {
  if (before.blocks == 0) return Change::kNew;
  if (after.blocks == 0) return Change::kGone;
  if (before.bytes == after.bytes) return Change::kSame;
  return before.bytes < after.bytes ? Change::kGrown : Change::kShrunk;
}

// A site has most of its bytes in the first of its uses.
void AddUses(const Composition& from, Sum SiteDiff::*side, std::map<uint64_t, SiteDiff>& diffs) {
  for (const SiteUse& use : from.site_uses) {
    SiteDiff& diff = diffs[use.site];
    diff.site = use.site;
    if ((diff.*side).blocks == 0) diff.kind = use.kind;
    (diff.*side).bytes += use.at_peak.bytes;
    (diff.*side).blocks += use.at_peak.blocks;
  }
}

std::string SignedSize(int64_t bytes) {
  return fmt::format("{}{}",
                     bytes < 0   ? "-"
                     : bytes > 0 ? "+"
                                 : "",
                     FormatSize(uint64_t(std::llabs(bytes))));
}

std::string MetadataOf(const Side& side, const char* key) {
  const auto found = side.profile.metadata.find(key);
  return found == side.profile.metadata.end() ? "" : Printable(found->second);
}

void PrintSide(const char* title, const Side& side, Text& out) {
  std::string text = fmt::format("{}: {}", side.file, MetadataOf(side, "program"));
  if (const std::string rank = MetadataOf(side, "rank"); !rank.empty()) text += ", rank " + rank;
  for (const char* key : {"gpu", "time"}) {
    if (const std::string value = MetadataOf(side, key); !value.empty()) text += ", " + value;
  }
  Print(out, "{:<11}{}\n", title, Shortened(text, kHeadWidth));
}

void PrintSizes(const char* title, uint64_t before, uint64_t after, Text& out) {
  Print(out, "{:<28}{:>14}{:>14}{:>15}\n", title, FormatSize(before), FormatSize(after),
        SignedSize(int64_t(after) - int64_t(before)));
}

void PrintNumbers(const char* title, std::optional<double> before, std::optional<double> after,
                  int digits, Text& out) {
  if (!before && !after) return;
  const auto text = [&](std::optional<double> value) {
    return value ? fmt::format("{:.{}f}", *value, digits) : std::string("-");
  };
  Print(out, "{:<28}{:>14}{:>14}{:>15}\n", title, text(before), text(after),
        before && after ? fmt::format("{:+.{}f}", *after - *before, digits) : "-");
}

std::optional<double> StepMs(const Composition& it) {
  if (!it.steps || it.steps->ms.empty()) return std::nullopt;
  return it.steps->median_ms;
}

std::optional<double> BackwardEndMs(const Composition& it) {
  if (!it.steps || it.steps->backward_end_ms.empty()) return std::nullopt;
  return it.steps->median_backward_end_ms;
}

std::optional<double> StepLaunches(const Composition& it) {
  if (!it.steps) return std::nullopt;
  return double(it.steps->launches);
}

void PrintWhole(const Composition& before, const Composition& after, Text& out) {
  Print(out, "\n{:<28}{:>14}{:>14}{:>15}\n", "", "before", "after", "difference");
  PrintSizes("Peak", before.peak_bytes, after.peak_bytes, out);
  if (before.native_peak_measured && after.native_peak_measured)
    PrintSizes("Taken of the device", before.native_peak_bytes, after.native_peak_bytes, out);
  if (before.idle_bytes && after.idle_bytes)
    PrintSizes("Idle at the peak", *before.idle_bytes, *after.idle_bytes, out);
  PrintNumbers("Steps", before.steps ? double(before.steps->steps) : 0,
               after.steps ? double(after.steps->steps) : 0, 0, out);
  PrintNumbers("Launches of a step", StepLaunches(before), StepLaunches(after), 0, out);
  PrintNumbers("Step, ms", StepMs(before), StepMs(after), 2, out);
  PrintNumbers("Backward's end, ms", BackwardEndMs(before), BackwardEndMs(after), 2, out);
}

void PrintKinds(const Composition& before, const Composition& after, Text& out) {
  Print(out, "\n{:<28}{:>14}{:>14}{:>15}\n", "Kind", "before", "after", "difference");
  for (size_t i = 0; i < profile::kKinds; ++i) {
    const Sum &was = before.kinds[i].at_peak, &is = after.kinds[i].at_peak;
    if (was.blocks + is.blocks == 0) continue;
    PrintSizes(std::string(profile::KindName(profile::Kind(i))).c_str(), was.bytes, is.bytes, out);
  }
}

std::string NameOf(const SiteDiff& diff, const Side& before, const Side& after) {
  return (diff.change == Change::kGone ? before : after).names.Of(diff.site);
}

void PrintSites(const std::vector<SiteDiff>& diffs, const Side& before, const Side& after,
                size_t top, Text& out) {
  const auto same = std::count_if(diffs.begin(), diffs.end(), [](const SiteDiff& diff) {
    return diff.change == Change::kSame;
  });
  const size_t differ = diffs.size() - size_t(same);
  Print(out, "\n{:<{}}{:>11}{:>11}{:>12}  {:<7}{}\n", "Site", kSiteWidth, "before", "after",
        "difference", "", "kind");
  size_t shown = 0;
  for (const SiteDiff& diff : diffs) {
    if (diff.change == Change::kSame || shown++ >= top) continue;
    Print(out, "{:<{}}{:>11}{:>11}{:>12}  {:<7}{}\n",
          Shortened(Printable(NameOf(diff, before, after)), kSiteWidth - 1), kSiteWidth,
          FormatSize(diff.before.bytes), FormatSize(diff.after.bytes),
          SignedSize(diff.Difference()), ChangeName(diff.change), profile::KindName(diff.kind));
  }
  if (differ > top) Print(out, "... and {} more that differ (--sites N)\n", differ - top);
  Print(out, "{} of {} sites are the same\n", same, diffs.size());
}

template <typename T>
json Pair(const T& before, const T& after) {
  return {{"before", before}, {"after", after}};
}

json Pair(const std::optional<double>& before, const std::optional<double>& after) {
  const auto value = [](const std::optional<double>& v) { return v ? json(*v) : json(nullptr); };
  return {{"before", value(before)}, {"after", value(after)}};
}

json SiteJson(const SiteDiff& diff, const std::string& name) {
  return {{"site", fmt::format("{:#x}", diff.site)},
          {"kind", std::string(profile::KindName(diff.kind))},
          {"name", name},
          {"change", ChangeName(diff.change)},
          {"bytes", Pair(diff.before.bytes, diff.after.bytes)},
          {"blocks", Pair(diff.before.blocks, diff.after.blocks)},
          {"difference_bytes", diff.Difference()}};
}

}  // namespace

std::vector<SiteDiff> CompareSites(const Composition& before, const Composition& after) {
  std::map<uint64_t, SiteDiff> diffs;
  AddUses(before, &SiteDiff::before, diffs);
  AddUses(after, &SiteDiff::after, diffs);
  std::vector<SiteDiff> out;
  for (auto& [site, diff] : diffs) {
    diff.change = ChangeOf(diff.before, diff.after);
    out.push_back(diff);
  }
  std::stable_sort(out.begin(), out.end(), [](const SiteDiff& a, const SiteDiff& b) {
    return std::llabs(a.Difference()) > std::llabs(b.Difference());
  });
  return out;
}

std::string ChangeName(Change change) {
  switch (change) {
    case Change::kSame:
      return "same";
    case Change::kGrown:
      return "grown";
    case Change::kShrunk:
      return "shrunk";
    case Change::kNew:
      return "new";
    case Change::kGone:
      return "gone";
  }
  return "?";
}

std::string DiffTable(const Side& before, const Side& after, size_t top_sites) {
  Text out;
  PrintSide("Before", before, out);
  PrintSide("After", after, out);
  PrintWhole(before.composition, after.composition, out);
  PrintKinds(before.composition, after.composition, out);
  PrintSites(CompareSites(before.composition, after.composition), before, after, top_sites, out);
  return fmt::to_string(out);
}

std::string DiffJson(const Side& before, const Side& after) {
  const Composition &was = before.composition, &is = after.composition;
  json out = {{"before", before.file},
              {"after", after.file},
              {"peak_bytes", Pair(was.peak_bytes, is.peak_bytes)},
              {"native_peak_bytes", Pair(was.native_peak_bytes, is.native_peak_bytes)},
              {"steps", Pair(was.steps ? was.steps->steps : 0, is.steps ? is.steps->steps : 0)},
              {"step_launches", Pair(StepLaunches(was), StepLaunches(is))},
              {"step_ms", Pair(StepMs(was), StepMs(is))},
              {"backward_end_ms", Pair(BackwardEndMs(was), BackwardEndMs(is))},
              {"backward_end_skew_ms", nullptr}};
  if (BackwardEndMs(was) && BackwardEndMs(is))
    out["backward_end_skew_ms"] = *BackwardEndMs(is) - *BackwardEndMs(was);
  for (size_t i = 0; i < profile::kKinds; ++i) {
    out["kinds"][std::string(profile::KindName(profile::Kind(i)))] =
        Pair(was.kinds[i].at_peak.bytes, is.kinds[i].at_peak.bytes);
  }
  out["sites"] = json::array();
  for (const SiteDiff& diff : CompareSites(was, is))
    out["sites"].push_back(SiteJson(diff, NameOf(diff, before, after)));
  return out.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace ebt::report
