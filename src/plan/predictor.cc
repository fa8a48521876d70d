#include "src/plan/predictor.h"

#include <algorithm>
#include <numeric>

#include "src/base/units.h"

namespace ebt::plan {
namespace {

using profile::EventKind;

double Milliseconds(double bytes, double bytes_per_second) {
  return bytes_per_second > 0 ? bytes / bytes_per_second * 1e3 : 0;
}

// The launch that is running at `ms`: fetching before it starts no later than then.
uint32_t LaunchAt(const StepClock& clock, double ms) {
  auto next = std::upper_bound(clock.launch_ms.begin(), clock.launch_ms.end(), ms);
  return next == clock.launch_ms.begin() ? 0 : uint32_t(next - clock.launch_ms.begin() - 1);
}

double TimeOf(const StepClock& clock, uint32_t launch) {
  return launch < clock.launch_ms.size() ? clock.launch_ms[launch] : clock.step_ms;
}

uint64_t MostAtOnce(const std::vector<ColdBlock>& blocks) {
  std::vector<std::pair<int64_t, int64_t>> changes;
  for (const ColdBlock& block : blocks) {
    if (block.use != ColdUse::kPrefetch) continue;
    const auto bytes = int64_t(AlignUp(block.bytes, kBlockAlignment));
    changes.emplace_back(block.fetch_launch, bytes);
    changes.emplace_back(block.evict_launch + 1, -bytes);
  }
  std::sort(changes.begin(), changes.end());
  int64_t now = 0, most = 0;
  for (const auto& change : changes) most = std::max(most, now += change.second);
  return uint64_t(most);
}

}  // namespace

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

double InPlaceMs(const DeviceModel& device, uint64_t bytes, uint64_t touches) {
  return Milliseconds(double(bytes) * double(touches), device.in_place);
}

double FetchMs(const DeviceModel& device, uint64_t bytes) {
  return Milliseconds(double(bytes), device.managed_in);
}

double SendBackMs(const DeviceModel& device, uint64_t bytes) {
  return Milliseconds(double(bytes), device.managed_out);
}

ColdUse CheaperUse(const DeviceModel& device, uint64_t bytes, uint64_t touches) {
  const double in_place = InPlaceMs(device, bytes, touches);
  const double moved = FetchMs(device, bytes) + SendBackMs(device, bytes);
  return in_place <= moved ? ColdUse::kInPlace : ColdUse::kPrefetch;
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

Transfers ScheduleFetches(const DeviceModel& device, const StepClock& clock,
                          std::vector<ColdBlock>& blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return blocks[i].use != ColdUse::kPrefetch; });
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].first > blocks[b].first; });
  Transfers transfers;
  double link_free = clock.step_ms, sent_back = 0, missing = 0;
  for (size_t i : order) {  // the last needed first: each as late as it may be
    ColdBlock& block = blocks[i];
    const double needed = std::min(TimeOf(clock, block.first), link_free);
    link_free = needed - FetchMs(device, block.bytes);
    missing = std::max(missing, -link_free);
    block.fetch_launch = std::min(LaunchAt(clock, std::max(0.0, link_free)), block.first);
    block.evict_launch = block.last;
    sent_back += SendBackMs(device, block.bytes);
  }
  transfers.stall_ms = missing + std::max(0.0, sent_back - clock.step_ms);
  transfers.most_device_bytes = MostAtOnce(blocks);
  return transfers;
}

double PredictStepMs(const DeviceModel& device, const StepClock& clock,
                     const std::vector<ColdBlock>& blocks, const Transfers& transfers) {
  double ms = clock.step_ms + transfers.stall_ms;
  for (const ColdBlock& block : blocks) {
    if (block.use == ColdUse::kInPlace) ms += InPlaceMs(device, block.bytes, block.touches);
  }
  return ms;
}

double BoundStepMs(const DeviceModel& device, double native_ms, uint64_t forced_bytes) {
  return std::max({native_ms, Milliseconds(double(forced_bytes), device.link_in),
                   Milliseconds(double(forced_bytes), device.link_out)});
}

}  // namespace ebt::plan
