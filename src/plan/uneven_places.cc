#include "src/plan/uneven_places.h"

#include <algorithm>

#include "src/plan/envelope.h"
#include "src/plan/matcher.h"
#include "src/plan/recorded_lives.h"

namespace ebt::plan {
namespace {

using profile::Event;
using profile::EventKind;
using profile::kNoBlock;
using profile::Profile;

// What the matcher finds changes what is steady, and that changes what it finds.
constexpr int kMostRounds = 4;
constexpr uint64_t kAnySize = uint64_t{1} << 50;

using StepBlocks = std::vector<std::vector<uint32_t>>;  // of each step, in order of allocation

StepBlocks BlocksOf(const Profile& profile, const std::vector<uint64_t>& starts) {
  StepBlocks blocks(starts.size() - 1);
  for (size_t step = 0; step + 1 < starts.size(); ++step) {
    for (uint64_t at = starts[step]; at < starts[step + 1]; ++at) {
      const Event& event = profile.events[at];
      if (event.kind != EventKind::kAlloc) continue;
      if (Servable(profile.blocks[event.block].kind)) blocks[step].push_back(event.block);
    }
  }
  return blocks;
}

std::vector<PlaceBlocks> Merge(const Profile& profile, const StepBlocks& blocks, size_t model) {
  std::vector<std::vector<uint64_t>> sites(blocks.size());
  for (size_t step = 0; step < blocks.size(); ++step) {
    for (uint32_t block : blocks[step]) sites[step].push_back(profile.blocks[block].site);
  }
  const Merged merged = MergeSequences(sites, model);
  std::vector<PlaceBlocks> places(merged.symbols.size(), PlaceBlocks(blocks.size(), kNoBlock));
  for (size_t step = 0; step < blocks.size(); ++step) {
    for (size_t i = 0; i < blocks[step].size(); ++i) {
      places[merged.place_of[step][i]][step] = blocks[step][i];
    }
  }
  return places;
}

// The step of a plan with these places, as far as the matcher looks at it.
Plan MatchedPlan(const Profile& profile, const std::vector<PlaceBlocks>& places) {
  Plan plan;
  plan.uneven = true;
  for (const PlaceBlocks& place : places) {
    const auto any =
        std::find_if(place.begin(), place.end(), [](uint32_t block) { return block != kNoBlock; });
    const profile::Block& block = profile.blocks[*any];
    Slot slot{.site = block.site, .fingerprint = block.fingerprint};
    slot.bytes = LargestOf(profile, place);
    slot.room_bytes = IsSteady(profile, place) ? 0 : kAnySize;
    plan.step.push_back(slot);
  }
  return plan;
}

std::vector<PlaceBlocks> Matched(const Profile& profile, const StepBlocks& blocks,
                                 const std::vector<PlaceBlocks>& places) {
  const Plan plan = MatchedPlan(profile, places);
  uint64_t site = 0;
  Matcher matcher(plan, [&site] { return site; });
  std::vector<PlaceBlocks> out(places.size(), PlaceBlocks(blocks.size(), kNoBlock));
  for (size_t step = 0; step < blocks.size(); ++step) {
    int64_t last = -1;
    for (uint32_t id : blocks[step]) {
      const profile::Block& block = profile.blocks[id];
      site = block.site;
      const Slot* slot = matcher.Next(block.bytes, block.fingerprint);
      const int64_t place = slot == nullptr ? -1 : slot - plan.step.data();
      if (place <= last) continue;
      out[place][step] = id;
      last = place;
    }
  }
  std::erase_if(out, [](const PlaceBlocks& place) {
    return std::count(place.begin(), place.end(), kNoBlock) == int64_t(place.size());
  });
  return out;
}

}  // namespace

uint64_t LargestOf(const Profile& profile, const PlaceBlocks& place) {
  uint64_t largest = 0;
  for (uint32_t block : place) {
    if (block != kNoBlock) largest = std::max(largest, profile.blocks[block].bytes);
  }
  return largest;
}

bool IsSteady(const Profile& profile, const PlaceBlocks& place) {
  return std::all_of(place.begin(), place.end(), [&](uint32_t block) {
    return block != kNoBlock && profile.blocks[block].bytes == profile.blocks[place[0]].bytes;
  });
}

std::vector<PlaceBlocks> FindPlaces(const Profile& profile, const std::vector<uint64_t>& starts,
                                    size_t model) {
  const StepBlocks blocks = BlocksOf(profile, starts);
  std::vector<PlaceBlocks> places = Merge(profile, blocks, model);
  for (int round = 0; round < kMostRounds; ++round) {
    std::vector<PlaceBlocks> matched = Matched(profile, blocks, places);
    if (matched == places) break;
    places = std::move(matched);
  }
  return places;
}

}  // namespace ebt::plan
