#include "src/plan/packer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "src/base/units.h"

namespace ebt::plan {
namespace {

// More buckets make short queries cheaper and long-lived items dearer to enter.
constexpr size_t kMaxBuckets = 512;
constexpr size_t kMomentsPerBucket = 64;
// Rounds of moving items forward without a gain after which the packing is taken as it is.
constexpr int kPatience = 24;

using Order = std::vector<uint32_t>;
enum class Fit { kFirst, kBest };

uint64_t LifeTime(const Item& item) {
  uint64_t sum = 0;
  for (const Interval& i : item.live) sum += i.empty() ? 0 : i.end - i.begin;
  return sum;
}

bool LiveTogether(const Item& a, const Item& b) {
  for (const Interval& x : a.live) {
    for (const Interval& y : b.live) {
      if (!x.empty() && !y.empty() && x.begin < y.end && y.begin < x.end) return true;
    }
  }
  return false;
}

struct Peak {
  uint64_t bytes = 0;
  uint64_t time = 0;
};

Peak FindPeak(const std::vector<Item>& items) {
  std::vector<std::pair<uint64_t, int64_t>> changes;
  for (const Item& item : items) {
    for (const Interval& i : item.live) {
      if (i.empty()) continue;
      changes.emplace_back(i.begin, int64_t(RoundedBytes(item)));
      changes.emplace_back(i.end, -int64_t(RoundedBytes(item)));
    }
  }
  std::sort(changes.begin(), changes.end());  // at one moment frees come first
  Peak peak;
  int64_t live = 0;
  for (const auto& [time, change] : changes) {
    live += change;
    if (live > int64_t(peak.bytes)) peak = {uint64_t(live), time};
  }
  return peak;
}

// The items that have a place already, found by time.
class PlacedItems {
 public:
  PlacedItems(const std::vector<Item>& items, uint64_t& work)
      : items_(items), work_(work), seen_(items.size(), 0) {
    for (const Item& item : items) {
      for (const Interval& i : item.live) {
        if (!i.empty()) moments_.push_back(i.begin), moments_.push_back(i.end);
      }
    }
    std::sort(moments_.begin(), moments_.end());
    moments_.erase(std::unique(moments_.begin(), moments_.end()), moments_.end());
    buckets_.resize(std::clamp<size_t>(moments_.size() / kMomentsPerBucket, 1, kMaxBuckets));
    spans_.reserve(items.size());
    for (const Item& item : items) {
      std::array<Range, 2> spans = {Span(item.live[0]), Span(item.live[1])};
      std::sort(spans.begin(), spans.end());
      spans_.push_back(spans);
    }
  }

  void Clear() {
    for (auto& bucket : buckets_) bucket.clear();
  }

  void Add(uint32_t item, uint64_t offset) {
    const Placed placed{offset, offset + RoundedBytes(items_[item]), item};
    size_t next = 0;
    for (const auto& [first, last] : spans_[item]) {
      for (size_t b = std::max(first, next); b < last; ++b) {
        auto& bucket = buckets_[b];
        bucket.insert(std::upper_bound(bucket.begin(), bucket.end(), placed), placed);
        next = b + 1;
      }
    }
  }

  // The offset for `item`: the lowest gap, or the smallest that is large enough.
  uint64_t Place(uint32_t item, Fit fit) {
    CollectNeighbours(item);
    const uint64_t bytes = RoundedBytes(items_[item]), alignment = items_[item].alignment;
    uint64_t top = 0, best = 0, best_gap = std::numeric_limits<uint64_t>::max();
    for (const Placed& placed : neighbours_) {
      const uint64_t from = AlignUp(top, alignment);
      if (placed.offset > from && placed.offset - from >= bytes && placed.offset - top < best_gap) {
        if (fit == Fit::kFirst) return from;
        best = from, best_gap = placed.offset - top;
      }
      top = std::max(top, placed.end);
    }
    return best_gap == std::numeric_limits<uint64_t>::max() ? AlignUp(top, alignment) : best;
  }

 private:
  struct Placed {
    uint64_t offset, end;
    uint32_t item;
    bool operator<(const Placed& other) const { return offset < other.offset; }
  };
  using Range = std::pair<size_t, size_t>;  // buckets [first, second)

  Range Span(const Interval& i) const {
    if (i.empty()) return {0, 0};
    return {BucketOf(i.begin), BucketOf(i.end - 1) + 1};
  }

  size_t BucketOf(uint64_t time) const {
    auto next = std::upper_bound(moments_.begin(), moments_.end(), time);
    return size_t(next - moments_.begin() - 1) * buckets_.size() / moments_.size();
  }

  // Fills neighbours_ with what is placed and lives together with `item`, by offset.
  void CollectNeighbours(uint32_t item) {
    neighbours_.clear();
    ++stamp_;
    size_t visited = 0, next = 0;
    for (const auto& [first, last] : spans_[item]) {
      for (size_t b = std::max(first, next); b < last; ++b) {
        next = b + 1;
        ++visited;
        work_ += buckets_[b].size() + 1;
        for (const Placed& placed : buckets_[b]) {
          if (seen_[placed.item] == stamp_) continue;
          seen_[placed.item] = stamp_;
          if (LiveTogether(items_[item], items_[placed.item])) neighbours_.push_back(placed);
        }
      }
    }
    if (visited > 1) {
      std::sort(neighbours_.begin(), neighbours_.end());
      work_ += neighbours_.size() * 4;
    }
  }

  const std::vector<Item>& items_;
  uint64_t& work_;
  std::vector<uint64_t> moments_;
  std::vector<std::array<Range, 2>> spans_;
  std::vector<std::vector<Placed>> buckets_;
  std::vector<uint32_t> seen_;
  uint32_t stamp_ = 0;
  std::vector<Placed> neighbours_;
};

class Packer {
 public:
  Packer(const std::vector<Item>& items, size_t stacked, uint64_t work)
      : items_(items),
        stacked_(stacked),
        limit_(work),
        placed_(items, work_),
        peak_(FindPeak(items)) {
    best_.peak = std::numeric_limits<uint64_t>::max();
  }

  Packing Run() {
    Order best_order;
    Fit best_fit = Fit::kFirst;
    for (const Order& order : Orders()) {
      for (Fit fit : {Fit::kFirst, Fit::kBest}) {
        if (!best_order.empty() && Finished()) break;
        if (Try(order, fit)) best_order = order, best_fit = fit;
      }
    }
    Improve(best_order, best_fit);
    best_.bound = peak_.bytes;
    return best_;
  }

 private:
  bool Finished() const { return work_ > limit_ || best_.peak <= peak_.bytes; }

  // Whether this order was better than all before.
  bool Try(const Order& order, Fit fit) {
    placed_.Clear();
    Packing packing;
    packing.offsets.assign(items_.size(), 0);
    uint64_t top = 0;
    for (uint32_t i = 0; i < stacked_; ++i) {
      packing.offsets[i] = AlignUp(top, items_[i].alignment);
      top = packing.offsets[i] + RoundedBytes(items_[i]);
      placed_.Add(i, packing.offsets[i]);
    }
    packing.peak = top;
    for (uint32_t i : order) {
      packing.offsets[i] = placed_.Place(i, fit);
      placed_.Add(i, packing.offsets[i]);
      packing.peak = std::max(packing.peak, packing.offsets[i] + RoundedBytes(items_[i]));
    }
    last_ = std::move(packing);
    if (last_.peak >= best_.peak) return false;
    best_ = last_;
    return true;
  }

  // Orders in which greedy placement does well, the best one for training steps first.
  std::vector<Order> Orders() const {
    Order all(items_.size() - stacked_);
    std::iota(all.begin(), all.end(), uint32_t(stacked_));
    auto sorted = [&](auto key) {
      Order order = all;
      std::stable_sort(order.begin(), order.end(),
                       [&](uint32_t a, uint32_t b) { return key(items_[a]) > key(items_[b]); });
      return order;
    };
    auto area = [](const Item& i) { return double(RoundedBytes(i)) * double(LifeTime(i)); };
    auto at_peak = [this](const Item& i) {
      return (i.live[0].begin <= peak_.time && peak_.time < i.live[0].end) ||
             (i.live[1].begin <= peak_.time && peak_.time < i.live[1].end);
    };
    return {
        sorted(area),
        // What makes the peak leaves no gap there; the rest then fills the slopes around it.
        sorted([&](const Item& i) { return std::pair(at_peak(i), area(i)); }),
        sorted([&](const Item& i) {
          return std::pair(at_peak(i), at_peak(i) ? double(LifeTime(i)) : area(i));
        }),
        sorted([](const Item& i) { return std::pair(RoundedBytes(i), LifeTime(i)); }),
        sorted([](const Item& i) { return std::pair(LifeTime(i), RoundedBytes(i)); }),
        sorted([](const Item& i) { return -double(i.live[0].begin); }),
        // Gaps that only fit unaligned are for what may lie anywhere.
        sorted([&](const Item& i) { return std::pair(i.alignment, area(i)); }),
        sorted([&](const Item& i) { return std::pair(i.alignment, -double(i.live[0].begin)); }),
        sorted([&](const Item& i) { return std::tuple(at_peak(i), i.alignment, area(i)); }),
    };
  }

  // Lets the items that stick out above the bound choose their place earlier, again and again.
  void Improve(Order order, Fit fit) {
    std::vector<double> place(items_.size());
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = double(i + 1);
    last_ = best_;
    for (int in_vain = 0; in_vain < kPatience && !Finished();) {
      for (uint32_t i : order) {
        if (last_.offsets[i] + RoundedBytes(items_[i]) > peak_.bytes) place[i] *= 0.5;
      }
      std::stable_sort(order.begin(), order.end(),
                       [&](uint32_t a, uint32_t b) { return place[a] < place[b]; });
      in_vain = Try(order, fit) ? 0 : in_vain + 1;
    }
  }

  const std::vector<Item>& items_;
  size_t stacked_;
  uint64_t limit_;
  uint64_t work_ = 0;
  PlacedItems placed_;
  Peak peak_;
  Packing best_, last_;
};

}  // namespace

uint64_t RoundedBytes(const Item& item) {
  return AlignUp(item.bytes, std::min(item.alignment, kBlockAlignment));
}

uint64_t MaxLive(const std::vector<Item>& items) { return FindPeak(items).bytes; }

Packing Pack(const std::vector<Item>& items, size_t stacked, uint64_t work) {
  if (items.empty()) return {};
  return Packer(items, std::min(stacked, items.size()), work).Run();
}

}  // namespace ebt::plan
