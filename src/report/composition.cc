#include "src/report/composition.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "fmt/format.h"
#include "src/base/units.h"
#include "src/plan/planner.h"
#include "src/plan/predictor.h"
#include "src/report/backward_end.h"
#include "src/report/idle.h"

namespace ebt::report {
namespace {

using profile::AllocKind;
using profile::Block;
using profile::Event;
using profile::EventKind;
using profile::Kind;
using profile::Profile;

// No sum of live bytes overflows below this.
constexpr uint64_t kSaneBytes = uint64_t{1} << 44;
constexpr uint64_t kSegmentBytes = 2 * kMiB;
constexpr uint64_t kLaunchesPerSegment = 10;

bool IsLaunch(const Event& event) {
  return event.kind == EventKind::kLaunch || event.kind == EventKind::kGraph;
}

bool OnDevice(const Block& block) { return block.kind != AllocKind::kManaged; }

bool LiveBehind(const Block& block, uint64_t at) {
  return block.alloc_at <= at && block.free_at > at;
}

// The block that an allocation or free is about.
const Block* Changed(const Profile& profile, const Event& event) {
  const bool changes = event.kind == EventKind::kAlloc || event.kind == EventKind::kFree;
  return changes && event.block < profile.blocks.size() ? &profile.blocks[event.block] : nullptr;
}

struct Peak {
  uint64_t bytes = 0;
  uint64_t event = 0;
};

// The peak of each device. Of equal ones the first, but in [preferred_begin, preferred_end)
// where that has one.
class PeakSearch {
 public:
  explicit PeakSearch(const std::optional<profile::Steps>& steps) {
    if (steps) preferred_begin_ = steps->start_events.front();
    if (steps) preferred_end_ = steps->start_events.back();
  }

  absl::Status Read(const Profile& profile) {
    uint64_t total = 0;
    for (uint64_t at = 0; at < profile.events.size(); ++at) {
      const Block* block = Changed(profile, profile.events[at]);
      if (block == nullptr) continue;
      if (profile.events[at].kind == EventKind::kFree) {
        total -= TakenBytes(*block);
        if (OnDevice(*block)) live_[block->device] -= TakenBytes(*block);
        continue;
      }
      if (block->bytes > kSaneBytes || total + TakenBytes(*block) > kSaneBytes) {
        return absl::DataLossError(fmt::format(
            "event {}: a block of {} bytes exceeds any device: record again", at, block->bytes));
      }
      total += TakenBytes(*block);
      if (OnDevice(*block)) Note(block->device, live_[block->device] += TakenBytes(*block), at);
    }
    return absl::OkStatus();
  }

  const std::map<uint16_t, Peak>& peaks() const { return peaks_; }

 private:
  bool Preferred(uint64_t at) const { return at >= preferred_begin_ && at < preferred_end_; }

  void Note(uint16_t device, uint64_t bytes, uint64_t at) {
    Peak& peak = peaks_[device];
    const bool better_place = Preferred(at) && !Preferred(peak.event);
    if (bytes > peak.bytes || (bytes == peak.bytes && better_place)) peak = {bytes, at};
  }

  uint64_t preferred_begin_ = 0, preferred_end_ = 0;
  std::map<uint16_t, uint64_t> live_;
  std::map<uint16_t, Peak> peaks_;
};

class Composer {
 public:
  Composer(const Profile& profile, const std::optional<profile::Steps>& steps,
           const std::vector<Kind>& kinds)
      : profile_(profile), steps_(steps), kinds_(kinds), clock_(profile) {}

  absl::StatusOr<Composition> Compose() {
    PeakSearch search(steps_);
    if (absl::Status status = search.Read(profile_); !status.ok()) return status;
    CountEvents();
    TakePeak(search.peaks());
    SumPeak();
    SumSites();
    out_.fragmentation = FreePieces(profile_, out_.device, out_.peak.event);
    out_.caching_segments = LooksLikeSegments(profile_, at_peak_, out_.launches);
    if (steps_) SumSteps();
    return std::move(out_);
  }

 private:
  void CountEvents() {
    out_.events = profile_.events.size();
    out_.allocations = profile_.blocks.size();
    out_.sites = profile_.sites.size();
    out_.truncated = profile_.truncated;
    for (uint64_t at = 0; at < profile_.events.size(); ++at) {
      const Event& event = profile_.events[at];
      if (event.kind == EventKind::kFailed) {
        if (out_.failures++ == 0) out_.first_failure = MomentOf(at);
        out_.largest_failure_bytes = std::max(out_.largest_failure_bytes, event.bytes);
      }
      out_.launches += IsLaunch(event);
    }
  }

  Moment MomentOf(uint64_t at) const {
    Moment moment{.event = at, .gpu_ms = clock_.At(at)};
    for (uint64_t i = 0; i < at; ++i) {
      const Event& event = profile_.events[i];
      moment.launch += IsLaunch(event);
      if (event.kind == EventKind::kPhase) moment.phase = event.phase;
    }
    if (!steps_ || moment.launch < steps_->first_launch) return moment;
    const uint64_t launch = moment.launch - steps_->first_launch;
    if (at < steps_->start_events.front() || at >= steps_->start_events.back()) return moment;
    moment.step = launch / steps_->period;
    moment.step_launch = launch % steps_->period;
    return moment;
  }

  void TakePeak(const std::map<uint16_t, Peak>& peaks) {
    Peak highest;
    for (const auto& [device, peak] : peaks) {
      out_.other_devices.push_back({device, peak.bytes});
      if (peak.bytes > highest.bytes) highest = peak, out_.device = device;
    }
    std::erase_if(out_.other_devices, [&](const auto& d) { return d.device == out_.device; });
    std::stable_sort(out_.other_devices.begin(), out_.other_devices.end(),
                     [](const auto& a, const auto& b) { return a.peak_bytes > b.peak_bytes; });
    out_.peak_bytes = highest.bytes;
    out_.native_peak_bytes = plan::NativePeakBytes(profile_, highest.bytes);
    out_.native_peak_measured = plan::NativePeakBytes(profile_, 0) > 0;
    out_.peak = MomentOf(highest.event);
    for (uint64_t at = highest.event; at < profile_.events.size(); ++at) {
      const Event& event = profile_.events[at];
      if (!IsLaunch(event)) continue;
      out_.peak_function = event.kind == EventKind::kGraph ? fmt::format("graph {}", event.function)
                                                           : FunctionName(event.function);
      break;
    }
  }

  std::string FunctionName(uint32_t function) const {
    return function < profile_.functions.size() ? profile_.functions[function].name : "";
  }

  KindUse& UseOf(const Block& block) { return out_.kinds[size_t(kinds_[block.id])]; }

  void SumPeak() {
    for (const Block& block : profile_.blocks) {
      if (block.device != out_.device || !LiveBehind(block, out_.peak.event)) continue;
      if (!OnDevice(block)) {
        out_.peak_managed_bytes += TakenBytes(block);
        continue;
      }
      at_peak_.push_back(block.id);
      out_.peak_requested_bytes += block.bytes;
      UseOf(block).at_peak.bytes += TakenBytes(block);
      ++UseOf(block).at_peak.blocks;
    }
    out_.peak_blocks = at_peak_.size();
    idle_.assign(at_peak_.size(), false);
    if (!steps_) return;
    idle_ = FindIdle(profile_, *steps_, out_.peak.event, at_peak_);
    out_.idle_bytes = 0;
    for (size_t i = 0; i < at_peak_.size(); ++i) {
      if (!idle_[i]) continue;
      const Block& block = profile_.blocks[at_peak_[i]];
      UseOf(block).idle_bytes += TakenBytes(block);
      *out_.idle_bytes += TakenBytes(block);
    }
  }

  void SumSites() {
    std::map<std::pair<uint64_t, Kind>, SiteUse> uses;
    for (size_t i = 0; i < at_peak_.size(); ++i) {
      const Block& block = profile_.blocks[at_peak_[i]];
      SiteUse& use = uses[{block.site, kinds_[block.id]}];
      use.site = block.site, use.kind = kinds_[block.id];
      use.at_peak.bytes += TakenBytes(block);
      ++use.at_peak.blocks;
      if (idle_[i]) use.idle_bytes += TakenBytes(block);
    }
    for (const auto& [key, use] : uses) out_.site_uses.push_back(use);
    std::stable_sort(
        out_.site_uses.begin(), out_.site_uses.end(),
        [](const SiteUse& a, const SiteUse& b) { return a.at_peak.bytes > b.at_peak.bytes; });
  }

  bool Counts(const Block& block) const { return block.device == out_.device && OnDevice(block); }

  void SumSteps() {
    const profile::Steps& steps = *steps_;
    out_.steps = StepSummary{.steps = steps.steps,
                             .launches = steps.period,
                             .first_launch = steps.first_launch,
                             .marked = steps.marked};
    for (const Block& block : profile_.blocks) {
      if (!Counts(block) || block.alloc_at >= steps.start_events[0] ||
          block.free_at < steps.start_events[0]) {
        continue;
      }
      const size_t kind = size_t(kinds_[block.id]);
      live_[kind] += TakenBytes(block);
      for (Sum* sum : {&out_.kinds[kind].before_steps, &out_.before_steps}) {
        sum->bytes += TakenBytes(block);
        ++sum->blocks;
      }
    }
    for (uint64_t i = 0; i < steps.steps; ++i) {
      WalkStep(steps.start_events[i], steps.start_events[i + 1]);
    }
    for (size_t kind = 0; kind < profile::kKinds; ++kind) FinishKind(kind);
    out_.steps->median_ms = plan::Median(out_.steps->ms);
    out_.steps->backward_end_ms = BackwardEnds(profile_, steps, kinds_, clock_);
    out_.steps->median_backward_end_ms = plan::Median(out_.steps->backward_end_ms);
  }

  void WalkStep(uint64_t begin, uint64_t end) {
    const auto begin_ms = clock_.At(begin), end_ms = clock_.At(end);
    const bool timed = begin_ms && end_ms;
    if (timed) out_.steps->ms.push_back(*end_ms - *begin_ms);
    double before_ms = begin_ms.value_or(0);
    for (uint64_t at = begin; at < end; ++at) {
      const Event& event = profile_.events[at];
      if (IsLaunch(event)) {
        for (size_t kind = 0; kind < profile::kKinds; ++kind)
          launch_sum_[kind] += double(live_[kind]);
      }
      const Block* block = Changed(profile_, event);
      if (block == nullptr || !Counts(*block)) continue;
      if (timed) {
        const double now_ms = *clock_.At(at);
        AddTime(before_ms, now_ms);
        before_ms = now_ms;
      }
      uint64_t& live = live_[size_t(kinds_[block->id])];
      event.kind == EventKind::kAlloc ? live += TakenBytes(*block) : live -= TakenBytes(*block);
      NoteMost(size_t(kinds_[block->id]));
    }
    for (size_t kind = 0; kind < profile::kKinds; ++kind) NoteMost(kind);
    if (timed) AddTime(before_ms, *end_ms);
  }

  void NoteMost(size_t kind) {
    uint64_t& most = out_.kinds[kind].step_max_bytes;
    most = std::max(most, live_[kind]);
  }

  void AddTime(double from, double to) {
    for (size_t kind = 0; kind < profile::kKinds; ++kind) {
      time_sum_[kind] += double(live_[kind]) * (to - from);
    }
    time_ += to - from;
  }

  void FinishKind(size_t kind) {
    KindUse& use = out_.kinds[kind];
    const double launches = double(steps_->steps) * double(steps_->period);
    if (launches > 0) use.step_mean_bytes = launch_sum_[kind] / launches;
    if (time_ > 0) use.step_time_mean_bytes = time_sum_[kind] / time_;
  }

  const Profile& profile_;
  const std::optional<profile::Steps>& steps_;
  const std::vector<Kind>& kinds_;
  plan::GpuClock clock_;
  Composition out_;
  std::vector<uint32_t> at_peak_;
  std::vector<bool> idle_;  // of each of at_peak_
  // Over the steady steps, by kind.
  std::array<uint64_t, profile::kKinds> live_{};
  std::array<double, profile::kKinds> launch_sum_{}, time_sum_{};
  double time_ = 0;
};

}  // namespace

uint64_t TakenBytes(const Block& block) { return AlignUp(block.bytes, kBlockAlignment); }

bool LooksLikeSegments(const Profile& profile, const std::vector<uint32_t>& at_peak,
                       uint64_t launches) {
  uint64_t all = 0, segments = 0;
  for (uint32_t id : at_peak) {
    const Block& block = profile.blocks[id];
    const bool plain = block.kind == AllocKind::kLinear || block.kind == AllocKind::kVmm;
    all += TakenBytes(block);
    if (plain && block.bytes % kSegmentBytes == 0) segments += TakenBytes(block);
  }
  const bool seldom = profile.blocks.size() * kLaunchesPerSegment <= launches;
  return segments > 0 && segments >= all - all / 10 && seldom;
}

absl::StatusOr<Composition> Compose(const Profile& profile,
                                    const std::optional<profile::Steps>& steps,
                                    const std::vector<Kind>& kinds) {
  return Composer(profile, steps, kinds).Compose();
}

}  // namespace ebt::report
