#include <algorithm>

#include "src/base/units.h"
#include "src/profile/metadata.h"
#include "src/report/simulation.h"
#include "src/report/text.h"

namespace ebt::report {
namespace {

using plan::Baseline;
using plan::PlayedPlan;
using plan::Taker;

constexpr size_t kSourceWidth = 60;

double RatioOf(uint64_t part, uint64_t whole) {
  return whole == 0 ? 1 : double(part) / double(whole);
}

void PrintPolicy(const Baseline& baseline, Text& out) {
  Print(out, "{:<12}{:>12}{:>9.3f}{:>14}{:>10}{:>8}{:>9}\n", plan::PolicyName(baseline.policy),
        FormatSize(baseline.peak_reserved_bytes),
        RatioOf(baseline.peak_reserved_bytes, baseline.peak_live_bytes),
        FormatSize(baseline.peak_process_bytes), baseline.segments_made, baseline.segments_freed,
        baseline.retries);
  if (!baseline.fits) {
    Print(out, "{:12}out of memory: {} at event {}; the figures are those up to there\n", "",
          FormatSize(baseline.refused_bytes), baseline.refused_at);
  }
  if (baseline.moved_in_bytes + baseline.moved_out_bytes > 0) {
    Print(out, "{:12}{} by page faults to the device and {} from it: {:.0f} ms at least\n", "",
          FormatSize(baseline.moved_in_bytes), FormatSize(baseline.moved_out_bytes),
          baseline.fault_ms);
  }
}

void PrintPlan(const Simulation::Played& played, Text& out) {
  const PlayedPlan& figures = played.figures;
  Print(out, "{:<12}{:>12}{:>9.3f}{:>14}\n", "plan",
        FormatSize(figures.planned_bytes + figures.dynamic_bytes),
        RatioOf(figures.peak_bytes, figures.live_bytes), FormatSize(figures.peak_bytes));
  Print(out, "{:12}{}{}{}\n", "", Shortened(Printable(played.source), kSourceWidth),
        played.from_step > 0 ? fmt::format(", figures from step {} on", played.from_step) : "",
        played.fits ? "" : ": MORE THAN THERE IS");
  Print(out, "{:12}{} planned, {} dynamic (at most {} live there)\n", "",
        FormatSize(figures.planned_bytes), FormatSize(figures.dynamic_bytes),
        FormatSize(figures.dynamic_live_bytes));
  Print(out, "{:12}{} allocations at their place, {} found it in use, {} not in the plan, {} the ",
        "", figures.planned, figures.occupied, figures.unknown, figures.native);
  Print(out, "driver's\n");
}

}  // namespace

Simulation DescribeRecording(const profile::Profile& profile, const std::string& source,
                             uint64_t budget) {
  Simulation simulation;
  simulation.source = source;
  simulation.events = profile.events.size();
  simulation.sites = profile.sites.size();
  simulation.steps = plan::CountSteps(profile);
  simulation.budget_bytes = budget;
  simulation.capacity_bytes = budget > 0 ? budget : plan::RecordedCapacity(profile);
  const plan::Takers takers = plan::FindTakers(profile);
  uint64_t live = 0;
  for (const profile::Event& event : profile.events) {
    const bool alloc = event.kind == profile::EventKind::kAlloc;
    if ((!alloc && event.kind != profile::EventKind::kFree) || event.block >= takers.of.size() ||
        takers.of[event.block] == Taker::kElsewhere)
      continue;
    const uint64_t bytes = AlignUp(profile.blocks[event.block].bytes, kBlockAlignment);
    live = alloc ? live + bytes : live - bytes;
    simulation.max_live_bytes = std::max(simulation.max_live_bytes, live);
  }
  simulation.native_peak_bytes = profile::NativePeakBytes(profile, simulation.max_live_bytes);
  return simulation;
}

void SetDevice(const profile::Profile& profile, const plan::DeviceDescription& device,
               Simulation* simulation) {
  const uint64_t base = profile::Number(profile, "device_used_base_bytes").value_or(0);
  const uint64_t left = device.device_bytes > base ? device.device_bytes - base : 1;
  simulation->device = device.name;
  simulation->capacity_bytes =
      simulation->budget_bytes > 0 ? std::min(left, simulation->budget_bytes) : left;
}

std::string SimulationTable(const Simulation& simulation) {
  Text out;
  Print(out, "{}: {} events, {} step{}; at most {} live\n",
        Shortened(Printable(simulation.source), kSourceWidth), simulation.events, simulation.steps,
        simulation.steps == 1 ? "" : "s", FormatSize(simulation.max_live_bytes));
  Print(out, "the process may have {}{}{}\n\n", FormatSize(simulation.capacity_bytes),
        simulation.budget_bytes > 0 ? " (--budget)" : "",
        simulation.device.empty() ? "" : " of " + Printable(simulation.device));
  Print(out, "{:<12}{:>12}{:>9}{:>14}{:>10}{:>8}{:>9}\n", "policy", "reserved", "/ live", "process",
        "segments", "freed", "retries");
  for (const Baseline& baseline : simulation.policies) PrintPolicy(baseline, out);
  if (simulation.plan) PrintPlan(*simulation.plan, out);
  Print(out,
        "\nreserved: device memory that the allocator held at most, and by how much that exceeds "
        "what was\nlive in it; process: with what libraries took beside it\n");
  return fmt::to_string(out);
}

}  // namespace ebt::report
