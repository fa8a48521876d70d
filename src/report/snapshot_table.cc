#include "src/report/snapshot_table.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "src/base/units.h"
#include "src/report/text.h"

namespace ebt::report {
namespace {

using profile::Snapshot;
using profile::SnapshotSite;
using profile::SnapshotStep;
using profile::StepsBy;

constexpr size_t kWidth = 100;
constexpr size_t kPlaceWidth = 45;
constexpr size_t kLineWidth = kWidth - 11;
constexpr size_t kStepSiteWidth = 46;

std::string Metadata(const Snapshot& it, const char* key) {
  const auto found = it.metadata.find(key);
  return found == it.metadata.end() ? "" : Printable(found->second);
}

void PrintHead(const Snapshot& it, Text& out) {
  std::vector<std::string> words = {Metadata(it, "program")};
  if (const std::string pid = Metadata(it, "pid"); !pid.empty()) words.push_back("pid " + pid);
  if (const std::string rank = Metadata(it, "rank"); !rank.empty()) words.push_back("rank " + rank);
  std::erase(words, "");
  Print(out, "Process    {}\n",
        words.empty() ? "an unknown one"
                      : Shortened(fmt::format("{}", fmt::join(words, ", ")), kLineWidth));
  words = {Metadata(it, "gpu"), Metadata(it, "time")};
  std::erase(words, "");
  if (!words.empty())
    Print(out, "           {}\n", Shortened(fmt::format("{}", fmt::join(words, ", ")), kLineWidth));
}

std::string NameOf(uint64_t site, const Snapshot& it, const SiteNames& names) {
  const auto label = it.labels.find(site);
  return Printable(label != it.labels.end() ? label->second : names.Of(site));
}

void PrintRefusal(const Snapshot& it, const SiteNames& names, Text& out) {
  if (!it.refusal) return;
  const profile::SnapshotRefusal& refusal = *it.refusal;
  Print(out, "Refused    {} of {} memory", FormatSize(refusal.bytes),
        profile::AllocKindName(refusal.kind));
  if (refusal.count > 1) {
    Print(out, "; refusal {} of the process, the largest of {}", refusal.count,
          FormatSize(refusal.largest_bytes));
  }
  Print(out, "\n           for {}\n", Shortened(NameOf(refusal.site, it, names), kLineWidth - 4));
}

void PrintDevice(const Snapshot& it, Text& out) {
  if (it.total_bytes == 0) return;
  Print(out, "Device {:<4}{} of {} free", it.device, FormatSize(it.free_bytes),
        FormatSize(it.total_bytes));
  if (it.OthersBytes() > 0) {
    Print(out, "; {} in use beside (context, others)", FormatSize(it.OthersBytes()));
  }
  Print(out, "\n");
}

void PrintLive(const Snapshot& it, Text& out) {
  Print(out, "Live       {} in {} blocks", FormatSize(it.live_bytes), it.live_blocks);
  if (it.managed_bytes > 0)
    Print(out, ", and {} of managed memory beside them", FormatSize(it.managed_bytes));
  Print(out, "\n");
  if (it.live_bytes > 0 && it.reserved_bytes > 0) {
    Print(out, "Reserved   {}, {:.3f} times what is live\n", FormatSize(it.reserved_bytes),
          double(it.reserved_bytes) / double(it.live_bytes));
  }
  if (it.fragmentation) {
    const profile::SnapshotFragmentation& f = *it.fragmentation;
    Print(out,
          "Free       {} between live blocks in {} pieces, {:.1f} % of it outside of the largest\n",
          FormatSize(f.free_bytes), f.pieces, 100 * f.Share());
  }
  if (it.persistent_bytes) {
    Print(out, "Persistent {} ({:.1f} %) have lived through a whole step\n",
          FormatSize(*it.persistent_bytes), Percent(*it.persistent_bytes, it.live_bytes));
  }
  if (it.idle_bytes) {
    Print(out, "Idle       {} ({:.1f} %) untouched for more than half of a step\n",
          FormatSize(*it.idle_bytes), Percent(*it.idle_bytes, it.live_bytes));
  }
  if (!it.plan) return;
  const profile::SnapshotPlan& plan = *it.plan;
  Print(out, "Plan       {} planned, {} beside it, {} with their home on the host\n",
        FormatSize(plan.planned), FormatSize(plan.dynamic), FormatSize(plan.cold));
  Print(out, "           its arenas hold {} of the device; budget {}\n",
        FormatSize(plan.device_reserved),
        plan.budget > 0 ? FormatSize(plan.budget) : std::string("none"));
}

// Words of `text` on lines of at most kWidth columns, behind `first` and then as many blanks.
void PrintWrapped(std::string_view first, const std::string& text, Text& out) {
  std::string line(first);
  bool empty = true;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = Shortened(text.substr(at, end - at), kWidth - first.size());
    if (!empty && line.size() + 1 + word.size() > kWidth) {
      Print(out, "{}\n", line);
      line.assign(first.size(), ' ');
      empty = true;
    }
    if (!empty) line += ' ';
    line += word;
    empty = word.empty() && empty;
    at = end + 1;
  }
  Print(out, "{}\n", line);
}

void PrintAdvice(const Snapshot& it, Text& out) {
  std::string_view first = "Try        ";
  for (const std::string& sentence : it.advice) {
    PrintWrapped(first, Printable(sentence), out);
    first = "           ";
  }
}

void PrintSites(const Snapshot& it, const SiteNames& names, size_t top, Text& out) {
  Print(out, "\n{:<{}}{:>11}{:>8}{:>8}{:>12}{:>11}\n", "Site", kPlaceWidth, "live", "share",
        "blocks", "persistent", "idle");
  uint64_t other_sites = it.sites.other_sites, other_bytes = it.sites.other_bytes,
           other_blocks = it.sites.other_blocks;
  for (size_t i = 0; i < it.sites.largest.size(); ++i) {
    const SnapshotSite& site = it.sites.largest[i];
    if (i >= top) {
      ++other_sites;
      other_bytes += site.bytes;
      other_blocks += site.blocks;
      continue;
    }
    Print(out, "{:<{}}{:>11}{:>6.1f} %{:>8}{:>12}{:>11}\n",
          Shortened(NameOf(site.site, it, names), kPlaceWidth - 1), kPlaceWidth,
          FormatSize(site.bytes), Percent(site.bytes, it.live_bytes), site.blocks,
          it.persistent_bytes ? FormatSize(site.persistent_bytes) : "-",
          it.idle_bytes ? FormatSize(site.idle_bytes) : "-");
  }
  if (other_sites == 0) return;
  Print(out, "{:<{}}{:>11}{:>6.1f} %{:>8}\n",
        fmt::format("... and {} more{}", other_sites,
                    top < it.sites.largest.size() ? " (--sites N)" : ""),
        kPlaceWidth, FormatSize(other_bytes), Percent(other_bytes, it.live_bytes), other_blocks);
}

std::string_view StepNote(const SnapshotStep& step) {
  if (!step.whole) return step.by == StepsBy::kLaunches ? "so far, no step known" : "so far";
  return step.by == StepsBy::kLaunches ? "no step known" : "";
}

void PrintSteps(const Snapshot& it, const SiteNames& names, Text& out) {
  if (it.steps.empty()) return;
  Print(out, "\n{:>8}{:>10}{:>12}{:>8}  {}\n", "Step", "launches", "peak", "blocks",
        "largest site at the peak");
  for (const SnapshotStep& step : it.steps) {
    const std::string_view note = StepNote(step);
    Print(out, "{:>8}{:>10}{:>12}{:>8}", step.number, step.launches, FormatSize(step.peak_bytes),
          step.peak_blocks);
    if (!step.sites.largest.empty()) {
      const SnapshotSite& first = step.sites.largest.front();
      const size_t width = note.empty() ? kStepSiteWidth : kStepSiteWidth - note.size() - 3;
      Print(out, "  {} {}", FormatSize(first.bytes),
            Shortened(NameOf(first.site, it, names), width));
    }
    if (!note.empty()) Print(out, "  ({})", note);
    Print(out, "\n");
  }
}

}  // namespace

std::string SnapshotTable(const Snapshot& snapshot, const SiteNames& names, size_t top_sites) {
  Text out;
  PrintHead(snapshot, out);
  PrintRefusal(snapshot, names, out);
  PrintDevice(snapshot, out);
  PrintLive(snapshot, out);
  PrintAdvice(snapshot, out);
  PrintSites(snapshot, names, top_sites, out);
  PrintSteps(snapshot, names, out);
  return fmt::to_string(out);
}

}  // namespace ebt::report
