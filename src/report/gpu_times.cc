#include "src/report/gpu_times.h"

#include <algorithm>
#include <cmath>

namespace ebt::report {
namespace {

// Marks of different streams may be a little out of order, and a file may say anything.
std::vector<GpuTimes::Point> Marks(const profile::Profile& profile) {
  constexpr double kMostMs = 1e12;
  std::vector<GpuTimes::Point> marks;
  double latest = 0;
  for (uint64_t at = 0; at < profile.events.size(); ++at) {
    const profile::Event& event = profile.events[at];
    if (event.kind != profile::EventKind::kMark || !std::isfinite(event.gpu_ms)) continue;
    latest = std::max(latest, std::clamp(event.gpu_ms, 0.0, kMostMs));
    marks.push_back({at, latest});
  }
  return marks;
}

}  // namespace

GpuTimes::GpuTimes(const profile::Profile& profile) : points_(Marks(profile)) {
  const uint64_t events = profile.events.size();
  known_ = points_.size() >= 2 && points_.back().ms > points_.front().ms;
  if (!known_) {
    points_ = {{0, 0}, {std::max<uint64_t>(events, 1), double(std::max<uint64_t>(events, 1))}};
    return;
  }
  const Point first = points_.front(), last = points_.back();
  const double pace = (last.ms - first.ms) / double(last.event - first.event);
  if (first.event > 0) points_.insert(points_.begin(), {0, first.ms - pace * double(first.event)});
  points_.push_back({events, last.ms + pace * double(events - last.event)});
}

double GpuTimes::At(uint64_t event) const {
  const auto next = std::lower_bound(points_.begin(), points_.end(), event,
                                     [](const Point& p, uint64_t at) { return p.event < at; });
  if (next == points_.begin()) return next->ms;
  if (next == points_.end()) return points_.back().ms;
  const Point& before = *(next - 1);
  const double part = double(event - before.event) / double(next->event - before.event);
  return before.ms + part * (next->ms - before.ms);
}

}  // namespace ebt::report
