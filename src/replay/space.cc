#include "src/replay/space.h"

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/log.h"
#include "src/base/units.h"
#include "src/driver/current_context.h"
#include "src/driver/primary_context.h"
#include "src/plan/plan.h"

namespace ebt::replay {
namespace {

uint64_t WarmChunkBytes(const SpaceOptions& options) {
  if (options.uneven) return plan::kUnevenChunkBytes;
  return options.slab_bytes > 0 ? options.slab_bytes : memory::MappedRange::kChunkBytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Space>> Space::Create(const DriverApi& driver,
                                                     const SpaceOptions& options) {
  CUcontext context = nullptr;
  CUdevice device = 0;
  if (driver.fn_cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context ||
      driver.fn_cuCtxGetDevice(&device) != CUDA_SUCCESS)
    return absl::FailedPreconditionError("no CUDA context is current");
  std::unique_ptr<Space> space(new Space(driver, context));
  space->primary_ = PrimaryContext(driver, device) == context;
  if (absl::Status built = space->Build(device, options); !built.ok()) return built;
  return space;
}

absl::Status Space::Build(CUdevice device, const SpaceOptions& options) {
  pool_ = std::make_unique<memory::PagePool>(driver_, device, /*limit=*/0);
  ledger_ = std::make_unique<memory::StreamLedger>(driver_);
  if (driver_.fn_cuDeviceGetDefaultMemPool(&default_pool_, device) != CUDA_SUCCESS)
    default_pool_ = nullptr;
  options_ = options;
  size_t total = 0;
  if (driver_.fn_cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS)
    return absl::UnavailableError("the size of the device's memory is not known");
  if (options.warm_bytes > 0 || options.uneven) {
    const uint64_t behind = options.uneven ? AlignUp(total, 2 * kMiB) : 0;
    auto warm = OnDevice(options.warm_bytes + behind, WarmChunkBytes(options));
    if (!warm.ok()) return warm.status();
    warm_ = *std::move(warm);
    warm_range_ = on_device_.back().range;
  }
  auto dynamic = OnDevice(AlignUp(total, 2 * kMiB), memory::MappedRange::kChunkBytes);
  if (!dynamic.ok()) return dynamic.status();
  dynamic_ = *std::move(dynamic);
  return absl::OkStatus();
}

absl::Status Space::MayUseHost(uint64_t bytes) const {
  if (host_bytes_ + bytes <= options_.host_budget) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(FormatSize(host_bytes_ + bytes), " of host memory are needed and ",
                   FormatSize(options_.host_budget),
                   " may be used (free host memory, raise EBBTIDE_HOST_BUDGET, or plan with a "
                   "larger --budget)"));
}

absl::Status Space::AddSwapped(std::vector<uint64_t> stays) {
  const uint64_t bytes = stays.size() * options_.slab_bytes;
  if (!warm_) return absl::FailedPreconditionError("the plan has no device part");
  if (absl::Status may = MayUseHost(bytes); !may.ok()) return may;
  auto engine = tier::SwapEngine::Create(
      driver_, *warm_, *warm_range_, *ledger_,
      {.slab_bytes = options_.slab_bytes, .stays = std::move(stays), .guard = options_.guard});
  if (!engine.ok()) return engine.status();
  host_bytes_ += bytes;
  swap_ = engine->get();
  named_ = std::make_unique<NamedBlocks>(driver_, swap_->base(), swap_->size());
  swapped_ = std::make_unique<memory::Arena>(*std::move(engine), *ledger_);
  return absl::OkStatus();
}

absl::Status Space::AddTrial(uint64_t bytes, std::function<void(const tier::Fault&)> on_fault) {
  auto trial = tier::Trial::Create(driver_, context_, device(), bytes, options_.slab_bytes,
                                   std::move(on_fault));
  if (!trial.ok()) return trial.status();
  trial_ = trial->get();
  named_ = std::make_unique<NamedBlocks>(driver_, trial_->base(), trial_->size());
  swapped_ = std::make_unique<memory::Arena>(*std::move(trial), *ledger_);
  return absl::OkStatus();
}

absl::Status Space::AddManaged(const ColdOptions& options) {
  if (absl::Status may = MayUseHost(options.bytes); !may.ok()) return may;
  auto range = tier::ManagedRange::Create(driver_, device(), options.bytes);
  if (!range.ok()) return range.status();
  tier::ManagedRange* managed = range->get();
  cold_ = std::make_unique<memory::Arena>(*std::move(range), *ledger_);
  cold_on_device_ = false;
  host_bytes_ += options.bytes;
  if (options.prefetches)
    prefetcher_ =
        std::make_unique<tier::Prefetcher>(driver_, context_, device(), *managed, options_.guard);
  return absl::OkStatus();
}

absl::Status Space::AddCold(const ColdOptions& options) {
  if (options.managed) {
    absl::Status managed = AddManaged(options);
    if (managed.ok()) return managed;
    Log(LogLevel::kWarning, "{} stay on the device: {}",
        swap_ ? "the cold blocks that are not swapped" : "cold blocks", Message(managed));
  }
  auto cold = OnDevice(options.bytes, memory::MappedRange::kChunkBytes);
  if (!cold.ok()) return cold.status();
  cold_ = *std::move(cold);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<memory::Arena>> Space::OnDevice(uint64_t bytes,
                                                               uint64_t chunk_bytes) {
  auto range = memory::MappedRange::Reserve(*pool_, bytes, chunk_bytes);
  if (!range.ok()) return range.status();
  memory::MappedRange* mapped = range->get();
  auto arena = std::make_unique<memory::Arena>(*std::move(range), *ledger_);
  on_device_.push_back({arena.get(), mapped});
  return arena;
}

uint64_t Space::idle_device_bytes() const {
  uint64_t live = 0;
  for (const Part& part : on_device_) live += part.arena->live_bytes();
  // A block at a chunk's end may be counted whole while its chunk is still being mapped.
  return device_bytes() > live ? device_bytes() - live : 0;
}

void Space::Trim() {
  for (const Part& part : on_device_) Trim(part);
}

void Space::Trim(const Part& part) {
  // Claimed first and drained afterwards: nobody can take what is about to be unmapped, and
  // what is freed meanwhile stays.
  std::vector<memory::Piece> claimed;
  absl::flat_hash_set<uint64_t> chunks;
  for (uint64_t offset : part.range->MappedChunks()) {
    if (swap_ && part.range == warm_range_ && swap_->Backs(offset)) continue;
    const auto pieces = part.arena->Claim(offset, part.range->ChunkBytesAt(offset));
    if (!pieces.empty()) chunks.insert(offset);
    claimed.insert(claimed.end(), pieces.begin(), pieces.end());
  }
  if (claimed.empty()) return;
  if (Drain() == CUDA_SUCCESS) {
    part.range->ReleaseChunks(
        [&chunks](uint64_t offset, uint64_t) { return chunks.contains(offset); });
    for (memory::Piece& piece : claimed) piece.tag = memory::kIdle;
  }
  part.arena->Unclaim(claimed);
}

CUresult Space::Drain() {
  // The caller's context may be another one.
  const CurrentContext before(driver_, context_);
  return before.result() == CUDA_SUCCESS ? driver_.fn_cuCtxSynchronize() : before.result();
}

bool Space::Holds(CUdeviceptr address) const {
  for (const auto* part : {&warm_, &swapped_, &cold_, &dynamic_}) {
    if (*part && address >= (*part)->base() && address - (*part)->base() < (*part)->size())
      return true;
  }
  return false;
}

void Space::HoldThreads() {
  if (swap_) swap_->Hold();
  if (prefetcher_) prefetcher_->Hold();
}

void Space::ResumeThreads() {
  if (prefetcher_) prefetcher_->Resume();
  if (swap_) swap_->Resume();
}

void Space::ContextIsGone() {
  constexpr CUresult kGone = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  driver_.fn_cuCtxSetCurrent = [](CUcontext) { return kGone; };
  driver_.fn_cuCtxSynchronize = [] { return kGone; };
  driver_.fn_cuMemFree_v2 = [](CUdeviceptr) { return kGone; };
  driver_.fn_cuMemcpyAsync = [](CUdeviceptr, CUdeviceptr, size_t, CUstream) { return kGone; };
  driver_.fn_cuMemPrefetchAsync = [](CUdeviceptr, size_t, CUdevice, CUstream) { return kGone; };
  driver_.fn_cuStreamDestroy_v2 = [](CUstream) { return kGone; };
  driver_.fn_cuStreamSynchronize = [](CUstream) { return kGone; };
  driver_.fn_cuStreamQuery = [](CUstream) { return kGone; };
  driver_.fn_cuStreamWaitEvent = [](CUstream, CUevent, unsigned) { return kGone; };
  driver_.fn_cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus*) { return kGone; };
  driver_.fn_cuEventCreate = [](CUevent*, unsigned) { return kGone; };
  driver_.fn_cuEventRecord = [](CUevent, CUstream) { return kGone; };
  driver_.fn_cuEventQuery = [](CUevent) { return kGone; };
  driver_.fn_cuEventSynchronize = [](CUevent) { return kGone; };
  driver_.fn_cuEventDestroy_v2 = [](CUevent) { return kGone; };
}

void Space::AddPeer(CUdevice peer) {
  pool_->AddPeer(peer);
  if (swap_) swap_->RenewAccess();
  for (const Part& part : on_device_) {
    const CUresult result = part.range->RenewAccess();
    if (result != CUDA_SUCCESS)
      Log(LogLevel::kWarning, "device {} cannot reach planned memory of device {} ({})", peer,
          device(), ErrorName(driver_, result));
  }
}

}  // namespace ebt::replay
