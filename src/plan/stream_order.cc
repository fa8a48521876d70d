#include "src/plan/stream_order.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "src/base/units.h"
#include "src/plan/matcher.h"

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

void AddAfter(uint16_t stream, Slot& slot) {
  const auto at = std::lower_bound(slot.after.begin(), slot.after.end(), stream);
  if (at == slot.after.end() || *at != stream) slot.after.insert(at, stream);
}

// Where steps differ: which streams use each slot, and which bytes each stream frees.
class UnevenOrder {
 public:
  UnevenOrder(const profile::Profile& profile, Plan& plan) : profile_(profile), plan_(plan) {}

  void Run() {
    Look();
    for (auto& [stream, ranges] : freed_) Merge(ranges);
    for (size_t i = 0; i < users_.size(); ++i) SetAfter(i);
  }

 private:
  struct Range {
    uint64_t begin = 0, end = 0;
  };
  struct Users {
    std::set<uint16_t> streams;
    bool any = false;  // a linear block: work of any stream
  };

  Slot& SlotAt(size_t i) {
    const size_t prologue = plan_.prologue.size();
    return i < prologue ? plan_.prologue[i] : plan_.step[i - prologue];
  }

  static Range PlaceOf(const Slot& slot) {
    const uint64_t bytes = slot.variable() ? slot.room_bytes : slot.bytes;
    return {slot.offset, slot.offset + AlignUp(bytes, kBlockAlignment)};
  }

  size_t IndexOf(const Slot* slot) const {
    const Slot* const step = plan_.step.data();
    return slot >= step && slot < step + plan_.step.size()
               ? plan_.prologue.size() + size_t(slot - step)
               : size_t(slot - plan_.prologue.data());
  }

  void Look() {
    users_.resize(plan_.prologue.size() + plan_.step.size());
    uint64_t site = 0;
    Matcher matcher(plan_, [&site] { return site; });
    for (const profile::Event& event : profile_.events) {
      if (event.kind != profile::EventKind::kAlloc) continue;
      const profile::Block& block = profile_.blocks[event.block];
      const bool served = block.kind == AllocKind::kLinear || block.kind == AllocKind::kAsync ||
                          block.kind == AllocKind::kPool;
      if (!served || block.bytes == 0) continue;
      site = block.site;
      const Slot* slot = matcher.Next(block.bytes, block.fingerprint);
      if (slot == nullptr || slot->tier == Tier::kNative || slot->dynamic) continue;
      const bool linear = block.kind == AllocKind::kLinear;
      Users& users = users_[IndexOf(slot)];
      users.streams.insert(block.stream);
      users.any |= linear;
      if (block.free_at == profile::kNever || (linear && block.free_stream == 0)) continue;
      freed_[block.free_stream].push_back(PlaceOf(*slot));
    }
  }

  // Ascending and disjoint.
  static void Merge(std::vector<Range>& ranges) {
    std::sort(ranges.begin(), ranges.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
    std::vector<Range> merged;
    for (const Range& range : ranges) {
      if (merged.empty() || merged.back().end < range.begin) {
        merged.push_back(range);
      } else {
        merged.back().end = std::max(merged.back().end, range.end);
      }
    }
    ranges = std::move(merged);
  }

  void SetAfter(size_t i) {
    const Users& users = users_[i];
    Slot& slot = SlotAt(i);
    const Range place = PlaceOf(slot);
    for (const auto& [stream, ranges] : freed_) {
      const bool alone =
          users.streams.empty() || (users.streams.size() == 1 && users.streams.contains(stream));
      if (alone && !users.any) continue;
      const auto next =
          std::lower_bound(ranges.begin(), ranges.end(), place.end,
                           [](const Range& range, uint64_t end) { return range.begin < end; });
      if (next != ranges.begin() && std::prev(next)->end > place.begin) AddAfter(stream, slot);
    }
  }

  const profile::Profile& profile_;
  Plan& plan_;
  std::vector<Users> users_;                      // of each slot, the prologue's first
  std::map<uint16_t, std::vector<Range>> freed_;  // by stream
};

}  // namespace

void OrderStreams(const profile::Profile& profile, const Timeline& timeline, Plan& plan) {
  if (timeline.uneven) return UnevenOrder(profile, plan).Run();
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
    for (uint16_t stream : streams) {
      const bool own = block.kind != AllocKind::kLinear && stream == block.stream;
      if (change.kind != Kind::kLeaves && !own) AddAfter(stream, slot);
    }
    if (change.kind == Kind::kTakes) continue;
    // What cuMemFree freed is idle.
    if (block.kind != AllocKind::kLinear || block.free_stream != 0) {
      users.Leave(slot.offset, end, block.free_stream);
    }
  }
}

}  // namespace ebt::plan
