#include "src/record/memory_watch.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "src/base/config.h"
#include "src/base/dump_signal.h"
#include "src/callsite/callsite.h"
#include "src/driver/relaxed_capture.h"
#include "src/profile/snapshot_advice.h"

namespace ebt::record {
namespace {

using profile::Snapshot;
using std::chrono::steady_clock;

// What the device's present pool holds; nothing where that is not known.
std::optional<uint64_t> PoolReserved(const DriverApi& driver, CUdevice device) {
  CUmemoryPool pool = nullptr;
  cuuint64_t reserved = 0;
  if (driver.fn_cuDeviceGetMemPool == nullptr || driver.fn_cuMemPoolGetAttribute == nullptr ||
      driver.fn_cuDeviceGetMemPool(&pool, device) != CUDA_SUCCESS ||
      driver.fn_cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) !=
          CUDA_SUCCESS) {
    return std::nullopt;
  }
  return reserved;
}

// A pool that gives memory back, or maps it anew elsewhere, holds less than its addresses say.
void Bound(profile::SnapshotFragmentation& free, uint64_t bytes) {
  free.free_bytes = std::min(free.free_bytes, bytes);
  free.largest_free_bytes = std::min(free.largest_free_bytes, bytes);
  if (bytes == 0) free.pieces = 0;
}

}  // namespace

EventRecord RefusalEvent(const RecorderState& state, const ebt_alloc& request, uint16_t stream,
                         CUdevice device) {
  const RelaxedCapture relaxed(state.driver);
  size_t free = 0, total = 0;
  if (state.driver.fn_cuMemGetInfo_v2 != nullptr &&
      state.driver.fn_cuMemGetInfo_v2(&free, &total) != CUDA_SUCCESS) {
    free = total = 0;
  }
  return {.kind = RecordKind::kFailed,
          .copy = static_cast<profile::CopyKind>(request.kind),
          .device = static_cast<uint16_t>(device),
          .stream = stream,
          .shape = state.options.site(),
          .bytes = request.bytes,
          .fingerprint = total,
          .address = free};
}

MemoryWatch::MemoryWatch(RecorderState& state, std::map<std::string, std::string> metadata)
    : state_(state),
      metadata_(std::move(metadata)),
      files_(profile::SnapshotStem(state.file.path(), state.options.dump_path == kNoDump
                                                          ? std::string()
                                                          : state.options.dump_path),
             FillPath("{program}")) {}

void MemoryWatch::Add(absl::Span<const EventRecord> events) {
  for (const EventRecord& event : events) {
    ledger_.Add(event);
    if (event.kind == RecordKind::kFailed) Refused(event);
  }
}

void MemoryWatch::Refused(const EventRecord& event) {
  const auto now = steady_clock::now();
  if (state_.options.dump_path != kNoDump && files_.Note(event.bytes, now)) {
    Snapshot snapshot = Take(event.device);
    snapshot.refusal = {.bytes = event.bytes,
                        .kind = static_cast<profile::AllocKind>(event.copy),
                        .site = event.shape};
    // As it was when the driver refused, rather than now.
    if (event.fingerprint > 0) {
      snapshot.free_bytes = event.address;
      snapshot.total_bytes = event.fingerprint;
    }
    Complete(snapshot);
    files_.Refused(std::move(snapshot), now);
  }
  std::lock_guard lock(state_.mutex);
  ++state_.refusals_told;
  state_.told.notify_all();
}

void MemoryWatch::Round() {
  files_.Tick(steady_clock::now());
  const auto whole = [this] {
    Snapshot snapshot = Take(ledger_.FullestDevice());
    Complete(snapshot);
    return snapshot;
  };
  state_.live_socket.Serve([&] { return profile::SnapshotJson(whole()); });
  if (DumpSignalCame()) files_.Asked(whole());
}

Snapshot MemoryWatch::Take(uint16_t device) {
  Snapshot snapshot{.metadata = metadata_};
  ledger_.Fill(device, snapshot);
  AskDriver(snapshot);
  return snapshot;
}

void MemoryWatch::AskDriver(Snapshot& snapshot) {
  const uint64_t in_pools = ledger_.PoolBytes(snapshot.device);
  std::lock_guard lock(state_.driver_mutex);
  // Where it holds less than is live, there are other pools than this one.
  const auto reserved =
      snapshot.fragmentation ? PoolReserved(state_.driver, snapshot.device) : std::nullopt;
  if (reserved && *reserved >= in_pools) {
    snapshot.reserved_bytes += *reserved - in_pools;
    Bound(*snapshot.fragmentation, *reserved - in_pools);
  }
  state_.watch.Memory(snapshot.device, snapshot.free_bytes, snapshot.total_bytes);
  // A context that stays current here would outlive its owner's destroying it.
  if (state_.driver.fn_cuCtxSetCurrent != nullptr) state_.driver.fn_cuCtxSetCurrent(nullptr);
  char name[256] = "";
  if (state_.driver.fn_cuDeviceGetName != nullptr &&
      state_.driver.fn_cuDeviceGetName(name, sizeof(name), snapshot.device) == CUDA_SUCCESS) {
    snapshot.metadata.emplace("gpu", name);
  }
}

void MemoryWatch::Complete(Snapshot& snapshot) {
  snapshot.metadata["time"] = UtcNow();
  snapshot.metadata["mode"] = "record";
  snapshot.metadata["profile"] = state_.file.path();
  for (const uint64_t id : profile::NamedSites(snapshot)) {
    callsite::Site site = callsite::Lookup(id);
    if (site.frames.empty()) continue;
    site.id = id;
    snapshot.described.push_back(std::move(site));
  }
  snapshot.advice = profile::Advice(snapshot);
}

}  // namespace ebt::record
