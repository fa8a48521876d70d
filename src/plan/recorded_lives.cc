#include "src/plan/recorded_lives.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "src/base/units.h"

namespace ebt::plan {
namespace {

using profile::AllocKind;
using profile::Event;
using profile::EventKind;
using profile::kNever;
using profile::Profile;

// A block that nothing touches is a probe when it is larger than this part of the device, or of
// what is live at most.
constexpr uint64_t kProbePart = 4;
constexpr uint64_t kSaneBytes = uint64_t{1} << 44;

absl::Status Contradiction(uint64_t at, const char* what, uint32_t block) {
  return absl::DataLossError(
      fmt::format("event {} {} (block {}): record the profile again", at, what, block));
}

// One plan is for one device: that with the most bytes.
void ChooseDevice(const Profile& profile, Timeline& timeline) {
  std::map<uint16_t, uint64_t> bytes;
  for (const Lived& life : timeline.lives) {
    bytes[profile.blocks[life.block].device] += profile.blocks[life.block].bytes;
  }
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != bytes.end()) timeline.device = most->first;
  for (Lived& life : timeline.lives) {
    if (profile.blocks[life.block].device != timeline.device) {
      life.unplanned = Unplanned::kElsewhere;
    }
  }
}

void FindProbes(const Profile& profile, const RecordedLives& recorded, Timeline& timeline) {
  std::vector<Item> touched;
  for (const Lived& life : timeline.lives) {
    if (!recorded.blocks[life.block].touched) continue;
    touched.push_back({profile.blocks[life.block].bytes, life.live});
  }
  uint64_t limit = MaxLive(touched) / kProbePart;
  const auto total = profile.metadata.find("total_bytes");
  if (total != profile.metadata.end()) {
    if (auto bytes = ParseSize(total->second); bytes.ok() && *bytes > 0) {
      limit = limit == 0 ? *bytes / kProbePart : std::min(limit, *bytes / kProbePart);
    }
  }
  if (limit == 0) return;
  for (Lived& life : timeline.lives) {
    const bool huge = profile.blocks[life.block].bytes > limit;
    if (huge && !recorded.blocks[life.block].touched) life.unplanned = Unplanned::kProbe;
  }
}

}  // namespace

bool Servable(AllocKind kind) {
  return kind == AllocKind::kLinear || kind == AllocKind::kAsync || kind == AllocKind::kPool;
}

absl::Status RecordedLives::Read(const Profile& profile) {
  blocks.resize(profile.blocks.size());
  launches_before.reserve(profile.events.size() + 1);
  uint64_t live_bytes = 0, graphs = kNever;  // the last graph
  for (uint64_t at = 0; at < profile.events.size(); ++at) {
    const Event& event = profile.events[at];
    launches_before.push_back(launch_at.size());
    if (IsLaunch(event)) launch_at.push_back(at);
    if (event.kind == EventKind::kGraph) graphs = at;
    for (uint32_t block : event.touched) {
      if (block < blocks.size()) blocks[block].touched = true;
    }
    if (event.kind != EventKind::kAlloc && event.kind != EventKind::kFree) continue;
    if (event.block >= blocks.size()) {
      return Contradiction(at, "names a block that is not there", event.block);
    }
    Block& block = blocks[event.block];
    const uint64_t bytes = profile.blocks[event.block].bytes;
    if (event.kind == EventKind::kAlloc) {
      if (block.alloc_at != kNever) {
        return Contradiction(at, "allocates a block a second time", event.block);
      }
      block.alloc_at = at;
      if (bytes > kSaneBytes - live_bytes) {
        return Contradiction(at, "exceeds any device", event.block);
      }
      live_bytes += bytes;
      continue;
    }
    if (block.alloc_at == kNever) {
      return Contradiction(at, "frees a block before its allocation", event.block);
    }
    if (block.free_at != kNever) {
      return Contradiction(at, "frees a block a second time", event.block);
    }
    block.free_at = at;
    block.touched |= graphs != kNever && graphs > block.alloc_at;
    live_bytes -= bytes;
  }
  launches_before.push_back(launch_at.size());
  for (Block& block : blocks) {
    if (block.free_at != kNever || block.alloc_at == kNever) continue;
    block.touched |= graphs != kNever && graphs > block.alloc_at;
  }
  return absl::OkStatus();
}

void LeaveOutUnplannable(const Profile& profile, const RecordedLives& recorded,
                         Timeline& timeline) {
  absl::flat_hash_set<uint64_t> exporting_sites;
  for (const profile::Block& block : profile.blocks) {
    if (block.exported) exporting_sites.insert(block.site);
  }
  for (Lived& life : timeline.lives) {
    const auto& block = profile.blocks[life.block];
    // The step that stands for all need not be the one that shared the site's memory.
    if (exporting_sites.contains(block.site)) life.unplanned = Unplanned::kExported;
    if (block.bytes == 0) life.unplanned = Unplanned::kEmpty;
  }
  ChooseDevice(profile, timeline);
  FindProbes(profile, recorded, timeline);
}

}  // namespace ebt::plan
