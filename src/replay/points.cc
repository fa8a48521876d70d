#include "src/replay/points.h"

#include <algorithm>
#include <tuple>

namespace ebt::replay {

Points::Points(const plan::Plan& plan) {
  for (const plan::Slot& slot : plan.prologue) {
    if (!slot.persistent || slot.tier != plan::Tier::kCold || slot.use != plan::ColdUse::kPrefetch)
      continue;
    if (slot.fetch_launch >= 0)
      points_.push_back({uint32_t(slot.fetch_launch), Point::Kind::kPrefetch, &slot});
    if (slot.evict_launch >= 0)
      points_.push_back({uint32_t(slot.evict_launch) + 1, Point::Kind::kPrefetchBack, &slot});
  }
  for (uint32_t i = 0; i < plan.slabs.size(); ++i) {
    points_.push_back({plan.slabs[i].fetch_launch, Point::Kind::kSwapIn, nullptr, i});
    points_.push_back({plan.slabs[i].evict_launch + 1, Point::Kind::kSwapOut, nullptr, i});
  }
  // Copies out first: what comes in at the same launch may need their room.
  const auto order = [](const Point& point) {
    return std::tuple(point.launch, point.kind != Point::Kind::kSwapOut,
                      point.slot ? point.slot->offset : point.slab);
  };
  std::stable_sort(points_.begin(), points_.end(),
                   [&](const Point& a, const Point& b) { return order(a) < order(b); });
}

bool Points::HasPrefetches() const {
  return std::any_of(points_.begin(), points_.end(),
                     [](const Point& point) { return point.slot != nullptr; });
}

void Points::Launched(std::vector<const Point*>* due) {
  const uint32_t launch = launch_.fetch_add(1, std::memory_order_relaxed);
  uint32_t next = next_.load(std::memory_order_relaxed);
  while (next < points_.size() && points_[next].launch <= launch) {
    if (!next_.compare_exchange_weak(next, next + 1, std::memory_order_relaxed)) continue;
    due->push_back(&points_[next++]);
  }
}

void Points::Restarted(std::vector<const Point*>* due) {
  for (uint32_t i = next_.exchange(0, std::memory_order_relaxed); i < points_.size(); ++i) {
    if (points_[i].kind == Point::Kind::kSwapOut) due->push_back(&points_[i]);
  }
}

}  // namespace ebt::replay
