#include "src/plan/pack_tight.h"

#include <algorithm>
#include <numeric>

#include "src/plan/pack_search.h"

namespace ebt::plan {
namespace {

// A group of more items would take too long for even one restart of the search.
constexpr size_t kMostSearched = 4000;
// Decisions of the first restarts; every so many restarts they become that many more again.
constexpr uint64_t kRestartNodes = 1000;
constexpr uint64_t kNodesPerItem = 4;
constexpr uint64_t kRestartsPerGrowth = 8;
// Of so many restarts one tries the goal itself, the others something easier.
constexpr uint64_t kGoalPeriod = 3;
// Restarts that fail before the next goal is set half as far from what is reached.
constexpr uint64_t kFailuresPerGoal = 12;

using Group = std::vector<uint32_t>;

uint64_t Begin(const Item& item) {
  if (item.live[0].empty()) return item.live[1].begin;
  if (item.live[1].empty()) return item.live[0].begin;
  return std::min(item.live[0].begin, item.live[1].begin);
}

uint64_t End(const Item& item) {
  return std::max(item.live[0].empty() ? 0 : item.live[0].end,
                  item.live[1].empty() ? 0 : item.live[1].end);
}

// What shares no moment with what comes later. Without items that take no place.
std::vector<Group> SplitByTime(const std::vector<Item>& items) {
  Group order;
  for (uint32_t i = 0; i < items.size(); ++i) {
    if (RoundedBytes(items[i]) > 0 && End(items[i]) > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return Begin(items[a]) < Begin(items[b]); });
  std::vector<Group> groups;
  uint64_t end = 0;
  for (uint32_t i : order) {
    if (groups.empty() || Begin(items[i]) >= end) groups.emplace_back();
    groups.back().push_back(i);
    end = std::max(end, End(items[i]));
  }
  return groups;
}

// Every offset that the search can choose is a sum of sizes, rounded up to alignments.
uint64_t Grain(const std::vector<Item>& items) {
  uint64_t grain = 0;
  for (const Item& item : items) {
    grain = std::gcd(grain, RoundedBytes(item));
    if (item.alignment > 1) grain = std::gcd(grain, item.alignment);
  }
  return std::max<uint64_t>(grain, 1);
}

// Makes one group's packing tighter.
class Tightening {
 public:
  // Nothing is gained below `goal`.
  Tightening(const std::vector<Item>& items, Packing& packing, uint64_t goal)
      : packing_(packing), grain_(Grain(items)), least_(goal), search_(items) {
    nodes_ = std::max(kRestartNodes, kNodesPerItem * items.size());
  }

  // Takes what it uses of `nodes`.
  void Run(bool only_goal, const std::function<bool()>& stop, uint64_t& nodes) {
    for (uint64_t restart = 0; packing_.peak > least_ && nodes > 0; ++restart) {
      if (stop && stop()) return;
      const bool easier = !only_goal && restart % kGoalPeriod != 0;
      const uint64_t capacity = easier ? Between() : least_;
      const uint64_t before = search_.nodes();
      const uint64_t share = nodes_ * (1 + restart / kRestartsPerGrowth);
      const auto outcome = search_.Try(capacity, std::min(nodes, share), stop);
      nodes -= std::min(nodes, search_.nodes() - before + 1);
      if (outcome == PackSearch::Outcome::kFits) Take();
      if (outcome == PackSearch::Outcome::kImpossible) least_ = capacity + grain_;
      if (easier && outcome == PackSearch::Outcome::kGaveUp) ++failures_;
    }
  }

 private:
  void Take() {
    packing_.offsets = search_.offsets();
    packing_.peak = search_.peak();
    failures_ = 0;
  }

  // From half the way to the goal on, the nearer to what is reached the more has failed.
  uint64_t Between() const {
    uint64_t way = packing_.peak - least_;
    way = std::max(way >> std::min<uint64_t>(1 + failures_ / kFailuresPerGoal, 63), grain_);
    return std::max(least_, (packing_.peak - way) / grain_ * grain_);
  }

  Packing& packing_;
  uint64_t grain_;
  uint64_t least_;  // no packing, or no useful one, has a smaller peak
  PackSearch search_;
  uint64_t nodes_;
  uint64_t failures_ = 0;
};

}  // namespace

Packing PackTight(const std::vector<Item>& items, const TightOptions& options) {
  Packing whole{std::vector<uint64_t>(items.size(), 0), 0, MaxLive(items)};
  uint64_t nodes = options.nodes;
  for (const Group& group : SplitByTime(items)) {
    std::vector<Item> members;
    for (uint32_t i : group) members.push_back(items[i]);
    Packing packing = Pack(members, 0);
    // Below the peak of another group nothing is gained.
    const uint64_t goal = std::max({whole.bound, options.capacity, whole.peak});
    if (packing.peak > goal && group.size() <= kMostSearched) {
      Tightening(members, packing, goal).Run(options.capacity > 0, options.stop, nodes);
    }
    whole.peak = std::max(whole.peak, packing.peak);
    for (size_t i = 0; i < group.size(); ++i) whole.offsets[group[i]] = packing.offsets[i];
  }
  return whole;
}

}  // namespace ebt::plan
