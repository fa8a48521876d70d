#include "src/plan/step_clock.h"

#include <algorithm>

namespace ebt::plan {

using profile::EventKind;

GpuClock::GpuClock(const profile::Profile& profile) {
  double latest = 0;
  for (uint64_t at = 0; at < profile.events.size(); ++at) {
    if (profile.events[at].kind != EventKind::kMark) continue;
    // Marks of different streams may be a little out of order.
    latest = std::max(latest, profile.events[at].gpu_ms);
    marks_.emplace_back(at, latest);
  }
}

std::optional<double> GpuClock::At(uint64_t event) const {
  auto next = std::lower_bound(marks_.begin(), marks_.end(), std::pair(event, 0.0),
                               [](const auto& a, const auto& b) { return a.first < b.first; });
  if (next == marks_.end()) return std::nullopt;
  if (next->first == event) return next->second;
  if (next == marks_.begin()) return std::nullopt;
  const auto& [before, ms] = *(next - 1);
  const double part = double(event - before) / double(next->first - before);
  return ms + part * (next->second - ms);
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + middle, values.end());
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle] + *std::max_element(values.begin(), values.begin() + middle)) / 2;
}

StepClock ReadClock(const profile::Profile& profile, const Timeline& timeline) {
  const GpuClock gpu(profile);
  const auto& starts = timeline.steps.start_events;
  std::vector<double> steps;
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    auto begin = gpu.At(starts[i]), end = gpu.At(starts[i + 1]);
    if (begin && end) steps.push_back(*end - *begin);
  }
  StepClock clock;
  clock.step_ms = Median(std::move(steps));

  const uint64_t first = starts[timeline.representative];
  const uint64_t last = starts[timeline.representative + 1];
  const auto begin = gpu.At(first), end = gpu.At(last);
  for (uint64_t at = first; at < last; ++at) {
    const auto kind = profile.events[at].kind;
    if (kind != EventKind::kLaunch && kind != EventKind::kGraph) continue;
    // Without GPU time within this step its launches are taken to be equally long.
    double part = double(clock.launch_ms.size()) / std::max(1u, timeline.step_launches);
    if (begin && end && *end > *begin) part = (*gpu.At(at) - *begin) / (*end - *begin);
    clock.launch_ms.push_back(part * clock.step_ms);
  }
  return clock;
}

}  // namespace ebt::plan
