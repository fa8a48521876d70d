#include "src/report/plan_table.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "src/base/units.h"
#include "src/report/text.h"

namespace ebt::report {
namespace {

using plan::BlockClass;
using plan::ColdUse;
using plan::Plan;
using plan::PlanSummary;
using plan::Slot;
using plan::Tier;

constexpr size_t kLabelWidth = 48;
constexpr size_t kTextWidth = 88;

// The slots that a steady step knows: persistent blocks, and those it makes itself.
std::vector<const Slot*> SteadySlots(const Plan& plan) {
  std::vector<const Slot*> slots;
  for (const Slot& slot : plan.prologue) {
    if (slot.persistent) slots.push_back(&slot);
  }
  for (const Slot& slot : plan.step) slots.push_back(&slot);
  return slots;
}

// Indented as the figures are, a line as soon as it is full.
void PrintWrapped(const std::string& text, Text& out) {
  size_t width = 0;
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  for (const std::string& word : words) {
    if (width == 0 || width + 1 + word.size() > kTextWidth) {
      Print(out, "{}{:11}", width == 0 ? "" : "\n", "");
      width = 0;
    } else {
      Print(out, " ");
      ++width;
    }
    Print(out, "{}", word);
    width += word.size();
  }
  Print(out, "\n");
}

struct Sum {
  uint64_t bytes = 0;
  uint64_t blocks = 0;
};

void PrintPeak(const plan::PlanResult& result, Text& out) {
  const Plan& plan = result.plan;
  const PlanSummary& summary = result.summary;
  const double saved =
      summary.native_peak_bytes > 0
          ? 100 * (1 - double(summary.planned_peak_bytes) / double(summary.native_peak_bytes))
          : 0;
  Print(out, "Peak       native {}, planned {} ({:+.1f} %), max live {}\n",
        FormatSize(summary.native_peak_bytes), FormatSize(summary.planned_peak_bytes), -saved,
        FormatSize(summary.max_live_bytes));
  Print(out, "Packing    {:.3f} of what is live on the device; on the host {}\n",
        summary.fragmentation, FormatSize(plan.cold_bytes));
  if (plan.budget > 0) {
    Print(out, "Budget     {}, of it {} for what is not planned: {}\n", FormatSize(plan.budget),
          FormatSize(plan.overhead_bytes), summary.feasible ? "met" : "NOT MET");
  }
  if (!summary.feasible) PrintWrapped(summary.infeasible_reason, out);
}

void PrintTime(const PlanSummary& summary, Text& out) {
  if (summary.native_step_ms <= 0) {
    Print(out, "Step       no GPU time was recorded; cold blocks add {:.2f} ms\n",
          summary.predicted_step_ms);
    return;
  }
  Print(out, "Step       native {:.2f} ms, predicted {:.2f} ms ({:+.1f} %), bound {:.2f} ms\n",
        summary.native_step_ms, summary.predicted_step_ms,
        100 * (summary.predicted_step_ms / summary.native_step_ms - 1), summary.bound_step_ms);
  const plan::StallMs& stall = summary.stall_ms;
  if (summary.bytes_in + summary.bytes_out == 0) return;
  Print(out, "Link       {} in, {} out a step; waits: {:.2f} ms for copies in, {:.2f} for room,\n",
        FormatSize(summary.bytes_in), FormatSize(summary.bytes_out), stall.fetch, stall.room);
  Print(out, "           {:.2f} in place, {:.2f} for the host\n", stall.in_place, stall.host);
  if (!summary.time_reason.empty()) PrintWrapped(summary.time_reason, out);
}

void PrintTiers(const plan::PlanResult& result, Text& out) {
  Print(out, "\n{:<18}{:>12}{:>10}\n", "Tier", "most live", "blocks");
  for (Tier tier : {Tier::kHot, Tier::kWarm, Tier::kCold, Tier::kNative}) {
    const auto& sum = result.summary.tiers[size_t(tier)];
    if (sum.blocks == 0) continue;
    Print(out, "{:<18}{:>12}{:>10}\n", plan::TierName(tier), FormatSize(sum.bytes), sum.blocks);
  }
}

void PrintClasses(const std::vector<const Slot*>& slots, Text& out) {
  std::array<Sum, 5> sums{};
  for (const Slot* slot : slots) {
    Sum& sum = sums[size_t(slot->block_class)];
    sum.bytes += slot->bytes;
    ++sum.blocks;
  }
  Print(out, "\n{:<18}{:>12}{:>10}\n", "Class", "allocated", "blocks");
  for (BlockClass c : {BlockClass::kParameter, BlockClass::kOptimizerState, BlockClass::kGradient,
                       BlockClass::kActivation, BlockClass::kOther}) {
    const Sum& sum = sums[size_t(c)];
    if (sum.blocks == 0) continue;
    Print(out, "{:<18}{:>12}{:>10}\n", plan::ClassName(c), FormatSize(sum.bytes), sum.blocks);
  }
}

void PrintCold(const std::vector<const Slot*>& slots, Text& out) {
  Sum in_place, fetched;
  for (const Slot* slot : slots) {
    if (slot->tier != Tier::kCold) continue;
    Sum& sum = slot->use == ColdUse::kPrefetch ? fetched : in_place;
    sum.bytes += slot->bytes;
    ++sum.blocks;
  }
  if (in_place.blocks + fetched.blocks == 0) return;
  Print(out, "\nCold: {} in {} blocks used in place, {} in {} blocks fetched for their window\n",
        FormatSize(in_place.bytes), in_place.blocks, FormatSize(fetched.bytes), fetched.blocks);
}

// Swapping has to be allowed: the table says by what, and what the step costs until then.
void PrintSlabs(const plan::PlanResult& result, Text& out) {
  const PlanSummary& summary = result.summary;
  if (summary.slabs == 0) return;
  Print(out, "      {} of it in {} slabs of {}: swapped once `ebbtide verify` has cleared it, or\n",
        FormatSize(summary.slab_bytes), summary.slabs, FormatSize(result.plan.slab_bytes));
  Print(out, "      with --cold swap");
  if (summary.native_step_ms > 0) {
    Print(out, "; until then the step takes {:.2f} ms", summary.managed_step_ms);
  }
  Print(out, "\n");
}

void PrintSites(const plan::PlanResult& result, size_t top, Text& out) {
  absl::flat_hash_map<uint64_t, std::string> labels;
  for (const plan::Site& site : result.plan.sites) labels[site.id] = site.label;
  Print(out, "\n{:<{}}{:>11}{:>7}{:>8}  {:<7}{}\n", "Site", kLabelWidth, "bytes", "blocks",
        "touches", "tier", "class");
  for (size_t i = 0; i < result.sites.size() && i < top; ++i) {
    const plan::SiteSum& sum = result.sites[i];
    auto label = labels.find(sum.site);
    const std::string name =
        label == labels.end() ? fmt::format("site {:#x}", sum.site) : label->second;
    Print(out, "{:<{}}{:>11}{:>7}{:>8}  {:<7}{}\n", Shortened(name, kLabelWidth - 1), kLabelWidth,
          FormatSize(sum.bytes), sum.blocks, sum.touches, plan::TierName(sum.tier),
          plan::ClassName(sum.block_class));
  }
  if (result.sites.size() > top) Print(out, "... and {} more\n", result.sites.size() - top);
}

}  // namespace

std::string PlanTable(const plan::PlanResult& result, size_t top_sites) {
  const PlanSummary& summary = result.summary;
  const std::vector<const Slot*> slots = SteadySlots(result.plan);
  Text out;
  Print(out, "Recording  {} events, {} sites, {} whole steps of {} launches\n", summary.events,
        summary.sites, summary.steps, result.plan.step_launches);
  PrintPeak(result, out);
  if (summary.uneven) {
    Print(out,
          "Steps differ: nothing moves at launches; {} of the peak for blocks without a place\n",
          FormatSize(summary.dynamic_bytes));
  }
  PrintTime(summary, out);
  PrintTiers(result, out);
  PrintClasses(slots, out);
  PrintCold(slots, out);
  PrintSlabs(result, out);
  PrintSites(result, top_sites, out);
  Print(out, "\nPlanned in {:.2f} s\n", summary.plan_seconds);
  return fmt::to_string(out);
}

}  // namespace ebt::report
