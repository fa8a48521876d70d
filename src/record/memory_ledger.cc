#include "src/record/memory_ledger.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/base/units.h"
#include "src/profile/steps.h"

namespace ebt::record {
namespace {

using profile::AllocKind;
using profile::EventRecord;
using profile::RecordKind;
using profile::SnapshotSite;
using profile::StepsBy;

bool FromPool(AllocKind kind) { return kind == AllocKind::kAsync || kind == AllocKind::kPool; }

// What is mapped by the program is known by its handle alone.
bool HasAddress(AllocKind kind) { return kind != AllocKind::kVmm; }

AddressRange RangeOf(uint64_t address, uint64_t bytes) {
  return {address, bytes > UINT64_MAX - address ? UINT64_MAX : address + bytes};
}

}  // namespace

void MemoryLedger::Add(const EventRecord& event) {
  const StepsBy by = clock_.by();
  const uint64_t launches = clock_.launches();
  bool ended = false;
  switch (event.kind) {
    case RecordKind::kAlloc:
      return Allocated(event);
    case RecordKind::kFree:
      return Freed(event.block);
    case RecordKind::kCopy:
      return Touched(event);
    case RecordKind::kKept:
      if (const auto it = blocks_.find(event.block); it != blocks_.end()) it->second.kept = true;
      return;
    case RecordKind::kLaunch:
    case RecordKind::kGraph:
      ended = Launched(event);
      break;
    case RecordKind::kStep:
      ended = clock_.Marked();
      if (ended) EndStep(by, launches);
      if (by != clock_.by()) first_known_step_ = step_;
      return;
    default:
      return;
  }
  if (ended) EndStep(by, launches);
  if (by != clock_.by()) first_known_step_ = step_;
  launches_ += LaunchesOf(event);
  Touched(event);
}

uint64_t MemoryLedger::LaunchesOf(const EventRecord& event) const {
  return bare_ ? std::max<uint64_t>(event.bytes, 1) : 1;
}

bool MemoryLedger::Launched(const EventRecord& event) {
  if (bare_) return clock_.LaunchedBare(LaunchesOf(event));
  // Graphs are beyond the numbers of functions.
  const bool graph = event.kind == RecordKind::kGraph;
  const uint64_t function = graph ? event.function | uint64_t{1} << 32 : event.function;
  return clock_.Launched(profile::LaunchSymbol(function, graph ? 0 : event.shape), AllBytes());
}

MemoryLedger::SiteUse& MemoryLedger::Changing(Device& device, uint64_t site) {
  SiteUse& use = device.sites[site];
  if (use.epoch != device.epoch) {
    use.peak_bytes = use.bytes;
    use.peak_blocks = use.blocks;
    use.epoch = device.epoch;
  }
  return use;
}

void MemoryLedger::Allocated(const EventRecord& event) {
  Freed(event.block);  // never, in a history that is whole
  const uint64_t bytes = AlignUp(event.bytes, kBlockAlignment);
  blocks_[event.block] = {.site = event.site,
                          .address = event.address,
                          .bytes = bytes,
                          .born_step = step_,
                          .last_touch = launches_,
                          .device = event.device,
                          .kind = event.alloc};
  Device& device = devices_[event.device];
  if (event.alloc == AllocKind::kManaged) {
    device.managed_bytes += bytes;
    return;
  }
  SiteUse& use = Changing(device, event.site);
  use.bytes += bytes;
  ++use.blocks;
  device.bytes += bytes;
  ++device.blocks;
  if (FromPool(event.alloc)) {
    device.pool_bytes += bytes;
    device.pool_ranges.Add(RangeOf(event.address, bytes));
  }
  if (device.bytes <= device.peak_bytes) return;
  device.peak_bytes = device.bytes;
  device.peak_blocks = device.blocks;
  ++device.epoch;
}

void MemoryLedger::Freed(uint32_t id) {
  const auto it = blocks_.find(id);
  if (it == blocks_.end()) return;
  const Block block = it->second;
  blocks_.erase(it);
  Device& device = devices_[block.device];
  if (block.kind == AllocKind::kManaged) {
    device.managed_bytes -= block.bytes;
    return;
  }
  SiteUse& use = Changing(device, block.site);
  use.bytes -= block.bytes;
  --use.blocks;
  device.bytes -= block.bytes;
  --device.blocks;
  if (FromPool(block.kind)) device.pool_bytes -= block.bytes;
}

void MemoryLedger::Touched(const EventRecord& event) {
  for (const uint32_t id : event.touched) {
    if (const auto it = blocks_.find(id); it != blocks_.end()) it->second.last_touch = launches_;
  }
}

uint64_t MemoryLedger::AllBytes() const {
  uint64_t bytes = 0;
  for (const auto& [number, device] : devices_) bytes += device.bytes;
  return bytes;
}

profile::SnapshotStep MemoryLedger::StepOf(const Device& device, StepsBy by,
                                           uint64_t launches) const {
  std::vector<SnapshotSite> sites;
  for (const auto& [site, use] : device.sites) {
    const bool changed = use.epoch == device.epoch;
    const SnapshotSite at_peak{.site = site,
                               .bytes = changed ? use.peak_bytes : use.bytes,
                               .blocks = changed ? use.peak_blocks : use.blocks};
    if (at_peak.blocks > 0) sites.push_back(at_peak);
  }
  return {.number = step_,
          .by = by,
          .launches = launches,
          .peak_bytes = device.peak_bytes,
          .peak_blocks = device.peak_blocks,
          .sites = profile::LargestSites(std::move(sites))};
}

void MemoryLedger::EndStep(StepsBy by, uint64_t launches) {
  for (auto& [number, device] : devices_) {
    device.steps.push_back(StepOf(device, by, launches));
    if (device.steps.size() > profile::kSnapshotSteps) device.steps.pop_front();
    absl::erase_if(device.sites, [](const auto& entry) { return entry.second.blocks == 0; });
    device.peak_bytes = device.bytes;
    device.peak_blocks = device.blocks;
    ++device.epoch;
  }
  if (by != StepsBy::kLaunches) last_step_launches_ = launches;
  ++step_;
}

bool MemoryLedger::Persistent(const Block& block) const {
  const uint64_t known = first_known_step_ > 0 ? first_known_step_ - 1 : 0;
  return clock_.by() != StepsBy::kLaunches && step_ >= std::max(block.born_step, known) + 2;
}

bool MemoryLedger::Idle(const Block& block) const {
  return !block.kept && launches_ - block.last_touch > last_step_launches_ / 2;
}

void MemoryLedger::Fill(uint16_t number, profile::Snapshot& out) const {
  out.device = number;
  const auto found = devices_.find(number);
  if (found == devices_.end()) return;
  const Device& device = found->second;
  out.live_bytes = device.bytes;
  out.live_blocks = device.blocks;
  out.managed_bytes = device.managed_bytes;
  out.reserved_bytes = device.bytes;

  // Without a whole step nobody can have lived through one.
  const bool steps = last_step_launches_ > 0, touches = steps && !bare_;
  absl::flat_hash_map<uint64_t, SnapshotSite> sites;
  std::vector<AddressRange> taken;
  uint64_t persistent = 0, idle = 0;
  for (const auto& [id, block] : blocks_) {
    if (block.device != number) continue;
    if (HasAddress(block.kind)) taken.push_back(RangeOf(block.address, block.bytes));
    if (block.kind == AllocKind::kManaged) continue;
    SnapshotSite& site = sites[block.site];
    site.bytes += block.bytes;
    ++site.blocks;
    if (steps && Persistent(block)) site.persistent_bytes += block.bytes;
    if (touches && Idle(block)) site.idle_bytes += block.bytes;
  }
  std::vector<SnapshotSite> all;
  for (auto& [id, site] : sites) {
    site.site = id;
    persistent += site.persistent_bytes;
    idle += site.idle_bytes;
    all.push_back(site);
  }
  out.sites = profile::LargestSites(std::move(all));
  if (steps) out.persistent_bytes = persistent;
  if (touches) out.idle_bytes = idle;
  if (!device.pool_ranges.empty()) out.fragmentation = device.pool_ranges.Without(std::move(taken));
  out.steps.assign(device.steps.begin(), device.steps.end());
  out.steps.push_back(StepOf(device, clock_.by(), clock_.launches()));
  out.steps.back().whole = false;
}

uint64_t MemoryLedger::PoolBytes(uint16_t number) const {
  const auto found = devices_.find(number);
  return found == devices_.end() ? 0 : found->second.pool_bytes;
}

uint16_t MemoryLedger::FullestDevice() const {
  uint16_t fullest = 0;
  uint64_t most = 0;
  for (const auto& [number, device] : devices_) {
    if (device.bytes <= most) continue;
    fullest = number;
    most = device.bytes;
  }
  return fullest;
}

}  // namespace ebt::record
