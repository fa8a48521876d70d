#include "src/plan/stream_order.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "src/base/units.h"

namespace ebt::plan {
namespace {

using profile::AllocKind;

constexpr uint64_t kPlayedSteps = 2;

// A block leaves its place, takes it, or both at one time.
enum class Kind { kLeaves, kTakes, kPasses };

struct Change {
  uint64_t time = 0;
  Kind kind = Kind::kTakes;
  uint32_t life = 0;
};

std::vector<Change> ChangesOf(const Timeline& timeline) {
  std::vector<Change> changes;
  const uint64_t period = timeline.end - timeline.prologue_end;
  for (uint32_t i = 0; i < timeline.lives.size(); ++i) {
    const Lived& life = timeline.lives[i];
    if (!timeline.Planned(life)) continue;
    for (uint64_t step = 0; step < (life.in_step ? kPlayedSteps : 1); ++step) {
      const uint64_t begin = life.live[0].begin + step * period;
      const uint64_t end = life.span == Span::kCyclic ? life.live[1].end + (step + 1) * period
                                                      : life.live[0].end + step * period;
      if (life.span == Span::kPersistent) {
        changes.push_back({begin, Kind::kTakes, i});
      } else if (end <= begin) {
        changes.push_back({begin, Kind::kPasses, i});
      } else {
        changes.push_back({begin, Kind::kTakes, i});
        changes.push_back({end, Kind::kLeaves, i});
      }
    }
  }
  // At one time places are left before others are taken.
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::pair(a.time, a.kind != Kind::kLeaves) < std::pair(b.time, b.kind != Kind::kLeaves);
  });
  return changes;
}

// Where free bytes were last in use, and by which stream: disjoint ranges.
class LastUsers {
 public:
  // Removes [begin, end) and adds the streams that had it to `streams`.
  void Cut(uint64_t begin, uint64_t end, std::vector<uint16_t>& streams) {
    auto at = ranges_.lower_bound(begin);
    if (at != ranges_.begin() && std::prev(at)->second.end > begin) --at;
    while (at != ranges_.end() && at->first < end) {
      const uint64_t low = at->first;
      const Range range = at->second;
      streams.push_back(range.stream);
      ranges_.erase(at);
      if (low < begin) ranges_[low] = {begin, range.stream};
      if (range.end > end) ranges_[end] = {range.end, range.stream};
      at = ranges_.lower_bound(std::min(end, range.end));
    }
  }

  void Leave(uint64_t begin, uint64_t end, uint16_t stream) { ranges_[begin] = {end, stream}; }

 private:
  struct Range {
    uint64_t end = 0;
    uint16_t stream = 0;
  };
  absl::btree_map<uint64_t, Range> ranges_;  // by begin
};

void AddAfter(const std::vector<uint16_t>& streams, const profile::Block& block, Slot& slot) {
  for (uint16_t stream : streams) {
    if (block.kind != AllocKind::kLinear && stream == block.stream) continue;
    const auto at = std::lower_bound(slot.after.begin(), slot.after.end(), stream);
    if (at == slot.after.end() || *at != stream) slot.after.insert(at, stream);
  }
}

}  // namespace

void OrderStreams(const profile::Profile& profile, const Timeline& timeline, Plan& plan) {
  LastUsers users;
  std::vector<uint16_t> streams;
  for (const Change& change : ChangesOf(timeline)) {
    const uint32_t i = change.life;
    Slot& slot = i < plan.prologue.size() ? plan.prologue[i] : plan.step[i - plan.prologue.size()];
    if (slot.tier == Tier::kNative) continue;
    const profile::Block& block = profile.blocks[timeline.lives[i].block];
    const uint64_t end = slot.offset + AlignUp(slot.bytes, kBlockAlignment);
    streams.clear();
    users.Cut(slot.offset, end, streams);
    if (change.kind != Kind::kLeaves) AddAfter(streams, block, slot);
    if (change.kind == Kind::kTakes) continue;
    // What cuMemFree freed is idle.
    if (block.kind != AllocKind::kLinear || block.free_stream != 0) {
      users.Leave(slot.offset, end, block.free_stream);
    }
  }
}

}  // namespace ebt::plan
