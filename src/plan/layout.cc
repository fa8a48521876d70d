#include "src/plan/layout.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "src/base/units.h"
#include "src/plan/colocation.h"

namespace ebt::plan {
namespace {

constexpr uint64_t kNoOffset = ~uint64_t{0};

struct Region {
  uint64_t peak = 0;
  uint64_t live = 0;                   // most bytes at once
  std::vector<uint64_t> stay_offsets;  // of the stays
  std::vector<uint64_t> rooms;         // offsets of the timeline's rooms
};

// Of the blocks that have no item of their own: twins, and those that share a room.
void ShareOffsets(const Timeline& timeline, const std::vector<uint64_t>& rooms,
                  std::vector<uint64_t>& offsets) {
  for (uint32_t i = 0; i < offsets.size(); ++i) {
    const Lived& life = timeline.lives[i];
    if (life.twin != kNoTwin) offsets[i] = offsets[life.twin];
    if (life.room != kNoRoom && rooms[life.room] != kNoOffset) offsets[i] = rooms[life.room];
  }
}

// One region: its blocks in stacking order, then packed together with `stays`; offsets from its
// begin.
Region PackRegion(const profile::Profile& profile, const Timeline& timeline,
                  const Behaviour& behaviour, const std::vector<Tier>& tiers,
                  std::vector<uint32_t> members, const std::vector<Item>& stays,
                  std::vector<uint64_t>& offsets) {
  auto persistent = [&](uint32_t i) { return timeline.lives[i].span == Span::kPersistent; };
  members = StackingOrder(timeline, behaviour, tiers, std::move(members));
  const size_t stacked = std::count_if(members.begin(), members.end(), persistent);
  Occupation occupation = Occupy(profile, timeline, members);
  occupation.items.insert(occupation.items.end(), stays.begin(), stays.end());
  const Packing packing = Pack(occupation.items, stacked);
  const auto behind_blocks = packing.offsets.begin() + occupation.lives.size();
  std::vector<uint64_t> rooms(timeline.rooms.size(), kNoOffset);
  for (size_t i = 0; i < occupation.lives.size(); ++i) {
    offsets[occupation.lives[i]] = packing.offsets[i];
    const uint32_t room = timeline.lives[occupation.lives[i]].room;
    if (room != kNoRoom) rooms[room] = packing.offsets[i];
  }
  return {packing.peak,
          MaxLive(occupation.items),
          {behind_blocks, packing.offsets.end()},
          std::move(rooms)};
}

}  // namespace

Occupation Occupy(const profile::Profile& profile, const Timeline& timeline,
                  const std::vector<uint32_t>& wanted) {
  // How long a place is still taken, at the step's begin, by the warm-up's edition of a block.
  std::vector<Interval> handed_over(timeline.lives.size());
  for (const Lived& life : timeline.lives) {
    if (life.twin != kNoTwin) handed_over[life.twin] = life.live[0];
  }
  std::vector<bool> has_room(timeline.rooms.size(), false);
  Occupation out;
  for (uint32_t i : wanted) {
    const Lived& life = timeline.lives[i];
    if (life.twin != kNoTwin) continue;
    if (life.room != kNoRoom) {
      if (!has_room[life.room]) {
        has_room[life.room] = true;
        const SharedRoom& room = timeline.rooms[life.room];
        out.items.push_back({.bytes = room.bytes, .live = {room.live}});
        out.lives.push_back(i);
      }
      continue;
    }
    Item item{timeline.PlaceBytes(profile, life), life.live};
    const Interval& before = handed_over[i];
    if (!before.empty()) {
      item.live[1] = {before.begin, std::max(before.end, life.live[1].end)};
    }
    out.items.push_back(item);
    out.lives.push_back(i);
  }
  return out;
}

uint64_t LiveBytes(const profile::Profile& profile, const Timeline& timeline,
                   const std::vector<Tier>& tiers, std::initializer_list<Tier> wanted) {
  std::vector<uint32_t> members;
  for (uint32_t i = 0; i < tiers.size(); ++i) {
    const Unplanned why = timeline.lives[i].unplanned;
    if (why == Unplanned::kProbe || why == Unplanned::kElsewhere) continue;
    if (why == Unplanned::kLoose) continue;  // counted by playing the plan
    if (std::find(wanted.begin(), wanted.end(), tiers[i]) != wanted.end()) members.push_back(i);
  }
  return MaxLive(Occupy(profile, timeline, members).items);
}

uint64_t MaxLiveBytes(const profile::Profile& profile, const Timeline& timeline) {
  if (timeline.uneven) return timeline.recorded_live;
  const std::vector<Tier> one_tier(timeline.lives.size(), Tier::kWarm);
  return LiveBytes(profile, timeline, one_tier, {Tier::kWarm});
}

Layout MakeLayout(const profile::Profile& profile, const Timeline& timeline,
                  const Behaviour& behaviour, const std::vector<Tier>& tiers,
                  const SlabSection& section) {
  std::vector<bool> in_section(tiers.size(), false);
  for (uint32_t i : section.lives) in_section[i] = true;
  std::vector<uint32_t> warm, cold;
  for (uint32_t i = 0; i < tiers.size(); ++i) {
    if (tiers[i] == Tier::kHot || tiers[i] == Tier::kWarm) warm.push_back(i);
    if (tiers[i] == Tier::kCold && !in_section[i]) cold.push_back(i);
  }
  Layout layout;
  layout.offsets.assign(tiers.size(), 0);
  Region device =
      PackRegion(profile, timeline, behaviour, tiers, warm, section.stays, layout.offsets);
  layout.warm_live_bytes = device.live;
  layout.stay_offsets = std::move(device.stay_offsets);
  layout.warm_bytes = AlignUp(device.peak, std::max(kRegionAlignment, section.slab_bytes));
  const Region rest = PackRegion(profile, timeline, behaviour, tiers, cold, {}, layout.offsets);
  layout.cold_bytes = section.bytes() + AlignUp(rest.peak, kRegionAlignment);
  for (uint32_t i : cold) layout.offsets[i] += layout.warm_bytes + section.bytes();
  for (size_t i = 0; i < section.lives.size(); ++i) {
    layout.offsets[section.lives[i]] = layout.warm_bytes + section.offsets[i];
  }
  ShareOffsets(timeline, device.rooms, layout.offsets);
  return layout;
}

}  // namespace ebt::plan
