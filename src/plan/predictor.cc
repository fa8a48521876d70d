#include "src/plan/predictor.h"

#include <algorithm>
#include <numeric>

#include "src/base/units.h"

namespace ebt::plan {
namespace {

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

Transfers ScheduleFetches(const DeviceModel& device, const StepClock& clock,
                          std::vector<ColdBlock>& blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return blocks[i].use != ColdUse::kPrefetch; });
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].first > blocks[b].first; });
  Transfers transfers;
  double link_free = clock.step_ms;
  for (size_t i : order) {  // the last needed first: each as late as it may be
    ColdBlock& block = blocks[i];
    const double needed = std::min(TimeOf(clock, block.first), link_free);
    link_free = needed - FetchMs(device, block.bytes);
    block.fetch_launch = std::min(LaunchAt(clock, std::max(0.0, link_free)), block.first);
    block.evict_launch = block.last;
  }
  transfers.most_device_bytes = MostAtOnce(blocks);
  return transfers;
}

Crossing ForcedCrossing(const profile::Profile& profile, const Timeline& timeline,
                        const std::vector<bool>& unchanging, uint64_t room) {
  const size_t launches = timeline.step_launches;
  // Between launch i and the next: what comes and goes there.
  std::vector<int64_t> carried(launches + 1, 0), clean(launches + 1, 0);
  auto add = [](std::vector<int64_t>& sums, size_t begin, size_t end, int64_t bytes) {
    sums[begin] += bytes, sums[end] -= bytes;
  };
  for (size_t i = 0; i < timeline.lives.size(); ++i) {
    const Lived& life = timeline.lives[i];
    const bool elsewhere =
        life.unplanned == Unplanned::kProbe || life.unplanned == Unplanned::kElsewhere;
    if (life.touches.empty() || elsewhere) continue;
    const auto bytes = int64_t(profile.blocks[life.block].bytes);
    if (life.span == Span::kPersistent) {
      add(carried, 0, launches, bytes);
      if (unchanging[i]) add(clean, 0, launches, bytes);
      continue;
    }
    // Of a block that the next step frees the later touches come first in a step.
    const uint32_t first = life.touches.front().launch, last = life.touches.back().launch;
    if (first <= last) {
      add(carried, first, last, bytes);
    } else {
      add(carried, first, launches, bytes);
      add(carried, 0, last, bytes);
    }
  }
  Crossing most;
  int64_t all = 0, same = 0;
  for (size_t i = 0; i < launches; ++i) {
    all += carried[i], same += clean[i];
    const int64_t off = all - int64_t(room);
    most.in = std::max(most.in, uint64_t(std::max<int64_t>(0, off)));
    most.out = std::max(most.out, uint64_t(std::max<int64_t>(0, off - same)));
  }
  return most;
}

double BoundStepMs(const DeviceModel& device, double native_ms, const Crossing& crossing) {
  const double in = Milliseconds(double(crossing.in), device.link_in);
  const double out = Milliseconds(double(crossing.out), device.link_out);
  // Both ways as long as the shorter takes; the rest has the link to itself.
  const double both = std::min(in, out);
  const double rest = in > out ? (in - both) * device.link_in / device.link_in_alone
                               : (out - both) * device.link_out / device.link_out_alone;
  return std::max(native_ms, both + rest);
}

}  // namespace ebt::plan
