#include "src/plan/packer.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "src/base/units.h"
#include "src/plan/occupied_space.h"

namespace ebt::plan {
namespace {

// The orders that serve most training steps; they are improved before the others are tried.
constexpr int kFirstOrders = 3;
// Rounds of moving items forward without a gain after which the packing is taken as it is.
constexpr int kFirstPatience = 6;
constexpr int kPatience = 24;

using Order = std::vector<uint32_t>;
using OrderMaker = std::function<Order()>;

uint64_t LifeTime(const Item& item) {
  uint64_t sum = 0;
  for (const Interval& i : item.live) sum += i.empty() ? 0 : i.end - i.begin;
  return sum;
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

class Packer {
 public:
  Packer(const std::vector<Item>& items, size_t stacked, uint64_t work, uint64_t enough)
      : items_(items),
        stacked_(stacked),
        limit_(work),
        placed_(items),
        peak_(FindPeak(items)),
        enough_(std::max(peak_.bytes, enough)) {
    best_.peak = std::numeric_limits<uint64_t>::max();
    Stack();
  }

  Packing Run() {
    const std::vector<OrderMaker> orders = Orders();
    TryAll(orders.begin(), orders.begin() + kFirstOrders);
    Improve(kFirstPatience);
    TryAll(orders.begin() + kFirstOrders, orders.end());
    Improve(kPatience);
    best_.bound = peak_.bytes;
    return std::move(best_);
  }

 private:
  bool Finished() const { return placed_.work() > limit_ || best_.peak <= enough_; }

  using MakerIterator = std::vector<OrderMaker>::const_iterator;
  void TryAll(MakerIterator order, MakerIterator end) {
    for (; order != end && (best_order_.empty() || !Finished()); ++order) Try((*order)());
  }

  // What every packing begins with.
  void Stack() {
    stack_.offsets.assign(items_.size(), 0);
    for (uint32_t i = 0; i < stacked_; ++i) {
      stack_.offsets[i] = AlignUp(stack_.peak, items_[i].alignment);
      stack_.peak = stack_.offsets[i] + RoundedBytes(items_[i]);
      placed_.Add(i, stack_.offsets[i]);
    }
    placed_.Keep();
  }

  // Whether this order was better than all before.
  bool Try(const Order& order) {
    placed_.Clear();
    Packing packing = stack_;
    for (uint32_t i : order) {
      packing.offsets[i] = placed_.Lowest(i);
      placed_.Add(i, packing.offsets[i]);
      packing.peak = std::max(packing.peak, packing.offsets[i] + RoundedBytes(items_[i]));
    }
    last_ = std::move(packing);
    if (last_.peak >= best_.peak) return false;
    best_ = last_;
    best_order_ = order;
    return true;
  }

  // Orders in which greedy placement does well, the best ones for training steps first. Each is
  // made when it is asked for: of many items only the first few are.
  std::vector<OrderMaker> Orders() const {
    const auto sorted = [this](auto key) -> OrderMaker {
      return [this, key] {
        Order order(items_.size() - stacked_);
        std::iota(order.begin(), order.end(), uint32_t(stacked_));
        std::stable_sort(order.begin(), order.end(),
                         [&](uint32_t a, uint32_t b) { return key(items_[a]) > key(items_[b]); });
        return order;
      };
    };
    const auto area = [](const Item& i) { return double(RoundedBytes(i)) * double(LifeTime(i)); };
    const auto at_peak = [this](const Item& i) {
      return (i.live[0].begin <= peak_.time && peak_.time < i.live[0].end) ||
             (i.live[1].begin <= peak_.time && peak_.time < i.live[1].end);
    };
    // Of what makes the peak nothing must stick out; the rest then fills the slopes around it.
    const auto peak_first = [=](auto key_at_peak, auto key) {
      return sorted([=](const Item& i) {
        return std::pair(at_peak(i), double(at_peak(i) ? key_at_peak(i) : key(i)));
      });
    };
    const auto size = [](const Item& i) { return double(RoundedBytes(i)); };
    const auto lifetime = [](const Item& i) { return double(LifeTime(i)); };
    return {
        // What is large finds no gap later on; what is small finds one everywhere.
        sorted([](const Item& i) { return std::pair(RoundedBytes(i), LifeTime(i)); }),
        peak_first(area, size),
        peak_first(lifetime, area),
        sorted(area),
        peak_first(area, area),
        peak_first(lifetime, size),
        peak_first(size, size),
        // Gaps that only fit unaligned are for what may lie anywhere.
        sorted([=](const Item& i) { return std::pair(i.alignment, area(i)); }),
        sorted([=](const Item& i) { return std::tuple(at_peak(i), i.alignment, area(i)); }),
        sorted([](const Item& i) { return std::pair(LifeTime(i), RoundedBytes(i)); }),
        sorted([](const Item& i) { return -double(i.live[0].begin); }),
    };
  }

  // Lets the items that stick out above the bound choose their place earlier, again and again.
  void Improve(int patience) {
    Order order = best_order_;
    std::vector<double> place(items_.size());
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = double(i + 1);
    last_ = best_;
    for (int in_vain = 0; in_vain < patience && !Finished();) {
      for (uint32_t i : order) {
        if (last_.offsets[i] + RoundedBytes(items_[i]) > peak_.bytes) place[i] *= 0.5;
      }
      std::stable_sort(order.begin(), order.end(),
                       [&](uint32_t a, uint32_t b) { return place[a] < place[b]; });
      in_vain = Try(order) ? 0 : in_vain + 1;
    }
  }

  const std::vector<Item>& items_;
  size_t stacked_;
  uint64_t limit_;
  OccupiedSpace placed_;
  Peak peak_;
  uint64_t enough_;
  Packing stack_, best_, last_;
  Order best_order_;
};

}  // namespace

uint64_t RoundedBytes(const Item& item) {
  return AlignUp(item.bytes, std::min(item.alignment, kBlockAlignment));
}

uint64_t MaxLive(const std::vector<Item>& items) { return FindPeak(items).bytes; }

Packing Pack(const std::vector<Item>& items, size_t stacked, uint64_t work, uint64_t enough) {
  if (items.empty()) return {};
  return Packer(items, std::min(stacked, items.size()), work, enough).Run();
}

}  // namespace ebt::plan
