#include "src/report/backward_end.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "src/report/composition.h"

namespace ebt::report {
namespace {

using profile::Event;
using profile::EventKind;

constexpr double kTolerance = 0.01;

// Bytes of activations over one step, against those at its start.
struct Activations {
  std::vector<uint64_t> launch_events;
  std::vector<int64_t> least_behind;  // each launch, before the next one
  int64_t most = 0;
};

Activations ReadStep(const profile::Profile& profile, const std::vector<profile::Kind>& kinds,
                     uint64_t begin, uint64_t end) {
  Activations out;
  int64_t live = 0;
  for (uint64_t at = begin; at < end; ++at) {
    const Event& event = profile.events[at];
    if (event.kind == EventKind::kLaunch || event.kind == EventKind::kGraph) {
      out.launch_events.push_back(at);
      out.least_behind.push_back(live);
      continue;
    }
    const bool changes = event.kind == EventKind::kAlloc || event.kind == EventKind::kFree;
    if (!changes || kinds[event.block] != profile::Kind::kActivation) continue;
    const auto bytes = int64_t(TakenBytes(profile.blocks[event.block]));
    live += event.kind == EventKind::kAlloc ? bytes : -bytes;
    out.most = std::max(out.most, live);
    if (!out.least_behind.empty())
      out.least_behind.back() = std::min(out.least_behind.back(), live);
  }
  return out;
}

// The event of the launch that ends backward.
std::optional<uint64_t> LastFall(const Activations& step) {
  const auto& behind = step.least_behind;
  if (behind.empty()) return std::nullopt;
  const int64_t least = *std::min_element(behind.begin(), behind.end());
  const double low = double(least) + kTolerance * double(step.most - least);
  for (size_t i = behind.size(); i-- > 1;) {
    if (double(behind[i]) <= low && double(behind[i - 1]) > low) return step.launch_events[i];
  }
  return std::nullopt;
}

}  // namespace

std::vector<double> BackwardEnds(const profile::Profile& profile, const profile::Steps& steps,
                                 const std::vector<profile::Kind>& kinds,
                                 const plan::GpuClock& clock) {
  std::vector<double> ends;
  for (uint64_t i = 0; i < steps.steps; ++i) {
    const uint64_t begin = steps.start_events[i];
    const auto launch = LastFall(ReadStep(profile, kinds, begin, steps.start_events[i + 1]));
    if (!launch) continue;
    // The clock says when all before an event has run.
    const auto from = clock.At(begin), to = clock.At(*launch + 1);
    if (from && to) ends.push_back(*to - *from);
  }
  return ends;
}

}  // namespace ebt::report
