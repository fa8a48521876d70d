// What filled the memory of a planned device when the driver refused an allocation.
#include <unistd.h>

#include <chrono>
#include <utility>

#include "src/base/units.h"
#include "src/callsite/callsite.h"
#include "src/driver/relaxed_capture.h"
#include "src/profile/snapshot_advice.h"
#include "src/replay/replayer.h"

namespace ebt::replay {

using profile::Snapshot;
using profile::SnapshotSite;
using std::chrono::steady_clock;

void Replayer::Refused(const ebt_alloc& request, CUresult result) {
  if (result != CUDA_ERROR_OUT_OF_MEMORY || options_.dump_path == kNoDump) return;
  const std::shared_ptr<Space> space = AnySpace();
  if (!space) return;  // the program runs natively, and nothing is known
  const auto now = steady_clock::now();
  {
    MutexLock lock(&refusals_mutex_);
    if (refusals_ == nullptr) {
      const std::string& beside =
          options_.run_log_path.empty() ? options_.plan_path : options_.run_log_path;
      refusals_ = std::make_unique<profile::SnapshotFiles>(
          profile::SnapshotStem(beside, options_.dump_path), FillPath("{program}"));
    }
    if (!refusals_->Note(request.bytes, now)) return;
  }
  Snapshot snapshot = TakeSnapshot(*space);
  snapshot.refusal = {.bytes = request.bytes,
                      .kind = static_cast<profile::AllocKind>(request.kind),
                      .site = callsite::Capture()};
  Describe(snapshot);
  MutexLock lock(&refusals_mutex_);
  refusals_->Refused(std::move(snapshot), now);
}

// Cold blocks whose home is the host are summed up alone: where they lie changes all the time.
Snapshot Replayer::TakeSnapshot(Space& space) {
  Snapshot out;
  const RelaxedCapture relaxed(driver_);
  size_t free = 0, total = 0;
  if (driver_.fn_cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS) {
    out.free_bytes = free;
    out.total_bytes = total;
  }
  out.device = static_cast<uint16_t>(space.device());
  out.reserved_bytes = space.device_bytes();
  profile::SnapshotPlan plan{.budget = options_.budget, .device_reserved = out.reserved_bytes};
  const bool at_home = space.swap() != nullptr || !space.cold_on_device();
  absl::flat_hash_map<uint64_t, SnapshotSite> sites;
  MutexLock lock(&mutex_);
  for (const auto& [address, block] : blocks_) {
    const uint64_t bytes = AlignUp(block.bytes, kBlockAlignment);
    if (block.cold && at_home) {
      plan.cold += bytes;
      continue;
    }
    const bool behind = plan_.uneven && block.arena == space.warm() &&
                        block.offset + block.bytes > plan_.warm_bytes;
    const bool beside = block.arena == &space.dynamic() || behind;
    (beside ? plan.dynamic : plan.planned) += bytes;
    SnapshotSite& site = sites[block.site];
    site.bytes += bytes;
    ++site.blocks;
    ++out.live_blocks;
  }
  out.live_bytes = plan.planned + plan.dynamic;
  out.plan = plan;
  std::vector<SnapshotSite> all;
  for (auto& [id, site] : sites) {
    site.site = id;
    all.push_back(site);
  }
  out.sites = profile::LargestSites(std::move(all));
  return out;
}

void Replayer::Describe(Snapshot& snapshot) const {
  snapshot.metadata = {{"program", ProgramIdentity()},
                       {"pid", std::to_string(getpid())},
                       {"rank", FillPath("{rank}")},
                       {"ebbtide", EBBTIDE_VERSION},
                       {"time", UtcNow()},
                       {"mode", "replay"},
                       {"plan", options_.plan_path}};
  if (!gpu_.empty()) snapshot.metadata["gpu"] = gpu_;
  if (!plan_.source.empty()) snapshot.metadata["profile"] = plan_.source;
  absl::flat_hash_map<uint64_t, const std::string*> labels;
  for (const plan::Site& site : plan_.sites) labels[site.id] = &site.label;
  for (const uint64_t id : profile::NamedSites(snapshot)) {
    if (const auto label = labels.find(id); label != labels.end()) {
      snapshot.labels[id] = *label->second;
      continue;
    }
    callsite::Site site = callsite::Lookup(id);
    site.id = id;
    if (!site.frames.empty()) snapshot.described.push_back(std::move(site));
  }
  snapshot.advice = profile::Advice(snapshot);
}

}  // namespace ebt::replay
