#include "src/report/memory_table.h"

#include <algorithm>
#include <vector>

#include "fmt/format.h"
#include "src/base/units.h"
#include "src/plan/predictor.h"
#include "src/report/text.h"

namespace ebt::report {
namespace {

constexpr size_t kNameWidth = 45;
constexpr size_t kFunctionWidth = 60;

std::string Mean(double bytes) { return FormatSize(static_cast<uint64_t>(bytes)); }

std::string Metadata(const profile::Profile& profile, const char* key) {
  const auto found = profile.metadata.find(key);
  return found == profile.metadata.end() ? "" : Printable(found->second);
}

void PrintHead(const profile::Profile& profile, const Composition& it, Text& out) {
  std::vector<std::string> words = {Metadata(profile, "program")};
  if (const std::string rank = Metadata(profile, "rank"); !rank.empty())
    words.push_back("rank " + rank);
  for (const char* key : {"gpu", "time"}) words.push_back(Metadata(profile, key));
  std::erase(words, "");
  Print(out, "Recording  {}\n",
        words.empty() ? "of an unknown program" : fmt::format("{}", fmt::join(words, ", ")));
  Print(out, "           {} events, {} launches, {} allocations from {} sites{}\n", it.events,
        it.launches, it.allocations, it.sites, it.truncated ? "; cut short" : "");
}

// Where no row of steps is alike.
void PrintEachStep(const std::vector<EachStep>& each_step, Text& out) {
  std::vector<uint64_t> launches;
  std::vector<double> ms;
  for (const EachStep& step : each_step) {
    if (step.kind == profile::StepKind::kEvaluation) continue;
    launches.push_back(step.launches);
    if (step.ms) ms.push_back(*step.ms);
  }
  if (launches.empty()) {
    Print(out, "Steps      none found, and ebbtide_step() was not called\n");
    return;
  }
  const auto [fewest, most] = std::minmax_element(launches.begin(), launches.end());
  Print(out, "Steps      {}, not all alike: {} to {} launches", launches.size(), *fewest, *most);
  if (ms.empty()) {
    Print(out, "; no GPU time was recorded\n");
    return;
  }
  const auto [shortest, longest] = std::minmax_element(ms.begin(), ms.end());
  Print(out, "; {:.2f} ms each ({:.2f} to {:.2f})\n", plan::Median(ms), *shortest, *longest);
}

void PrintSteps(const Composition& it, Text& out) {
  if (!it.steps) return PrintEachStep(it.each_step, out);
  const StepSummary& steps = *it.steps;
  Print(out, "Steps      {} of {} launches behind the first {}{}", steps.steps, steps.launches,
        steps.first_launch, steps.marked ? ", as marked" : "");
  if (steps.ms.empty()) {
    Print(out, "; no GPU time was recorded\n");
    return;
  }
  const auto [least, most] = std::minmax_element(steps.ms.begin(), steps.ms.end());
  Print(out, "; {:.2f} ms each ({:.2f} to {:.2f})\n", steps.median_ms, *least, *most);
  if (!steps.backward_end_ms.empty()) {
    Print(out, "           backward ends {:.2f} ms behind the start of a step\n",
          steps.median_backward_end_ms);
  }
}

std::string Place(const Moment& moment, const std::optional<StepSummary>& steps) {
  std::string text = moment.step ? fmt::format("step {}, behind launch {} of {}", *moment.step + 1,
                                               moment.step_launch, steps->launches)
                                 : fmt::format("behind launch {} of the recording", moment.launch);
  if (!moment.phase.empty()) text += ", in " + Printable(moment.phase);
  return text;
}

void PrintPeak(const Composition& it, Text& out) {
  Print(out, "Peak       {} in {} blocks", FormatSize(it.peak_bytes), it.peak_blocks);
  if (it.native_peak_measured) {
    Print(out, "; the process took {} of the device", FormatSize(it.native_peak_bytes));
  }
  Print(out, "\n           {}\n", Place(it.peak, it.steps));
  if (!it.peak_function.empty()) {
    Print(out, "           before {}\n",
          Shortened(Printable(ShortName(it.peak_function)), kFunctionWidth));
  }
  if (it.peak_managed_bytes > 0) {
    Print(out, "           and {} of managed memory beside it\n",
          FormatSize(it.peak_managed_bytes));
  }
  for (const DevicePeak& other : it.other_devices) {
    Print(out, "           device {}; on device {} the peak is {}\n", it.device, other.device,
          FormatSize(other.peak_bytes));
  }
}

void PrintUse(const Composition& it, Text& out) {
  if (it.steps) {
    Print(out, "Before     {} in {} blocks live when the first of these steps begins\n",
          FormatSize(it.before_steps.bytes), it.before_steps.blocks);
  }
  if (it.idle_bytes) {
    Print(out, "Idle       {} of the peak ({:.1f} %) untouched for more than half of a step\n",
          FormatSize(*it.idle_bytes), Percent(*it.idle_bytes, it.peak_bytes));
  }
  if (const auto reserved = it.ReservedPerLive()) {
    Print(out, "Reserved   {:.3f} times what is live at the peak\n", *reserved);
  }
  if (it.fragmentation) {
    const Fragmentation& f = *it.fragmentation;
    Print(out, "Free       {} in {} pieces at the peak, {:.1f} % of it outside of the largest\n",
          FormatSize(f.free_bytes), f.pieces, 100 * f.Share());
  }
  if (it.failures > 0) {
    Print(out, "Failed     {} allocations, the largest of {}; the first {}\n", it.failures,
          FormatSize(it.largest_failure_bytes), Place(*it.first_failure, it.steps));
  }
  if (it.caching_segments) {
    Print(out,
          "Note       these blocks are segments of a caching allocator; what is in them is seen\n"
          "           with the stream-ordered allocator that `ebbtide record` asks for\n");
  }
}

void PrintKinds(const Composition& it, Text& out) {
  Print(out, "\n{:<18}{:>12}{:>8}{:>9}{:>12}{:>14}{:>12}\n", "Kind", "at peak", "share", "blocks",
        "idle", "most in steps", "mean");
  std::vector<size_t> order(profile::kKinds);
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return it.kinds[a].at_peak.bytes > it.kinds[b].at_peak.bytes;
  });
  for (size_t kind : order) {
    const KindUse& use = it.kinds[kind];
    if (use.at_peak.blocks == 0 && use.step_max_bytes == 0) continue;
    Print(out, "{:<18}{:>12}{:>6.1f} %{:>9}{:>12}{:>14}{:>12}\n",
          profile::KindName(profile::Kind(kind)), FormatSize(use.at_peak.bytes),
          Percent(use.at_peak.bytes, it.peak_bytes), use.at_peak.blocks,
          it.idle_bytes ? FormatSize(use.idle_bytes) : "-",
          it.steps ? FormatSize(use.step_max_bytes) : "-",
          it.steps ? Mean(use.step_mean_bytes) : "-");
  }
}

void PrintSites(const Composition& it, const SiteNames& names, size_t top, Text& out) {
  Print(out, "\n{:<{}}{:>11}{:>8}{:>8}{:>11}  {}\n", "Site", kNameWidth, "at peak", "share",
        "blocks", "idle", "kind");
  Sum rest;
  for (size_t i = 0; i < it.site_uses.size(); ++i) {
    const SiteUse& use = it.site_uses[i];
    if (i >= top) {
      rest.bytes += use.at_peak.bytes;
      rest.blocks += use.at_peak.blocks;
      continue;
    }
    Print(out, "{:<{}}{:>11}{:>6.1f} %{:>8}{:>11}  {}\n",
          Shortened(Printable(names.Of(use.site)), kNameWidth - 1), kNameWidth,
          FormatSize(use.at_peak.bytes), Percent(use.at_peak.bytes, it.peak_bytes),
          use.at_peak.blocks, it.idle_bytes ? FormatSize(use.idle_bytes) : "-",
          profile::KindName(use.kind));
  }
  if (it.site_uses.size() > top) {
    Print(out, "{:<{}}{:>11}{:>6.1f} %{:>8}\n",
          fmt::format("... and {} more (--sites N)", it.site_uses.size() - top), kNameWidth,
          FormatSize(rest.bytes), Percent(rest.bytes, it.peak_bytes), rest.blocks);
  }
}

}  // namespace

std::string MemoryTable(const profile::Profile& profile, const Composition& composition,
                        const SiteNames& names, size_t top_sites) {
  Text out;
  PrintHead(profile, composition, out);
  PrintSteps(composition, out);
  PrintPeak(composition, out);
  PrintUse(composition, out);
  PrintKinds(composition, out);
  PrintSites(composition, names, top_sites, out);
  return fmt::to_string(out);
}

}  // namespace ebt::report
