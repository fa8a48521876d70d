#include "src/replay/replayer.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "src/base/log.h"
#include "src/base/units.h"
#include "src/callsite/callsite.h"
#include "src/driver/current_context.h"
#include "src/plan/clearance.h"

namespace ebt::replay {
namespace {

using memory::Arena;

// After so many allocations of which so few were in the plan, the plan is another job's.
constexpr uint64_t kTrialAllocations = 128;
constexpr uint64_t kLeastMatched = kTrialAllocations / 8;

void SayNatively(const char* why) {
  Log(LogLevel::kWarning, "{}: the program runs on natively from here", why);
}

}  // namespace

Replayer::Replayer(const DriverApi& driver, plan::Plan plan, ReplayOptions options)
    : driver_(driver),
      plan_(std::move(plan)),
      options_(std::move(options)),
      points_(plan_),
      disabled_(plan_.prologue.empty() && plan_.step.empty()),
      matcher_(plan_, [] { return callsite::Capture(); }) {}

void Replayer::Disable(const char* why) {
  if (!disabled_.exchange(true)) SayNatively(why);
}

std::shared_ptr<Space> Replayer::CurrentSpace() {
  CUcontext context = nullptr;
  if (driver_.fn_cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context) return nullptr;
  MutexLock lock(&mutex_);
  if (!space_ && !space_tried_) {
    // Once in a process's life: whoever else allocates meanwhile must wait for it anyway.
    space_tried_ = true;
    auto space = MakeSpace();
    if (space.ok()) {
      space_ = *std::move(space);
      naming_.store(space_->named() != nullptr, std::memory_order_release);
      reporting_.store(outcome_ || run_log_, std::memory_order_release);
      for (CUdevice peer : peers_[space_->device()]) space_->AddPeer(peer);
    } else {
      Log(LogLevel::kWarning, "no memory of our own can be set up ({}): the program runs natively",
          Message(space.status()));
      disabled_ = true;
    }
  }
  return space_ && space_->context() == context ? space_ : nullptr;
}

absl::StatusOr<std::unique_ptr<Space>> Replayer::MakeSpace() {
  auto space = Space::Create(driver_, {plan_.warm_bytes, plan_.uneven, plan_.slab_bytes,
                                       options_.host_budget, options_.guard});
  if (!space.ok()) return space;
  char name[256] = "";
  driver_.fn_cuDeviceGetName(name, sizeof(name) - 1, (*space)->device());
  gpu_ = name;
  driver_.fn_cuDriverGetVersion(&driver_version_);
  OpenTrialOutcome();
  if (absl::Status added = AddColdParts(**space); !added.ok()) return added;
  OpenRunLog(**space);
  return space;
}

std::vector<uint64_t> Replayer::MovingSites() const {
  if (!options_.trial_path.empty()) return options_.trial_sites;
  if (options_.cold == Cold::kSwap) return plan::SwappableSites(plan_);
  if (options_.cold != Cold::kAuto) return {};
  const std::string why = plan::WhyNotCleared(plan_, driver_version_, gpu_);
  if (!why.empty()) Log(LogLevel::kWarning, "{}", why);
  return plan::ClearedSites(plan_, driver_version_, gpu_);
}

absl::Status Replayer::AddColdParts(Space& space) {
  const std::vector<uint64_t> moving = MovingSites();
  const absl::flat_hash_set<uint64_t> sites(moving.begin(), moving.end());
  const absl::Status added = AddMovingPart(space, sites);
  homes_ = std::make_unique<ColdHomes>(
      plan_, [&](uint64_t site) { return space.named() && sites.contains(site); });
  absl::Status result;
  if (homes_->other_bytes() > 0)
    result = space.AddCold(
        {homes_->other_bytes(), options_.cold != Cold::kOff, points_.HasPrefetches()});
  // Where host memory does not even do for the other way, that has been said.
  if (!added.ok() && !(absl::IsResourceExhausted(added) && space.cold_on_device()))
    Log(LogLevel::kWarning, "no cold block is swapped: {}", Message(added));
  if (!added.ok() && outcome_) outcome_->Fault("driver", "", Message(added), {});
  return result;
}

absl::Status Replayer::AddMovingPart(Space& space, const absl::flat_hash_set<uint64_t>& sites) {
  const ColdHomes wanted(plan_, [&](uint64_t site) { return sites.contains(site); });
  if (wanted.swapped_bytes() == 0) return absl::OkStatus();
  if (!options_.trial_path.empty())
    return space.AddTrial(wanted.swapped_bytes(),
                          [this](const tier::Fault& fault) { TrialFaulted(fault); });
  std::vector<uint64_t> stays;
  for (const plan::Slab& slab : plan_.slabs) stays.push_back(slab.stay_offset);
  return space.AddSwapped(std::move(stays));
}

std::shared_ptr<Space> Replayer::AnySpace() {
  MutexLock lock(&mutex_);
  return space_;
}

bool Replayer::Capturing(CUstream stream) {
  if (captures_.load(std::memory_order_relaxed) == 0) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver_.fn_cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool Replayer::PoolOf(const Space& space, const ebt_alloc& request, CUmemoryPool* pool) {
  *pool = nullptr;
  if (request.kind == EBT_ALLOC_LINEAR) return true;
  *pool = request.pool;
  if (request.kind == EBT_ALLOC_ASYNC &&
      driver_.fn_cuDeviceGetMemPool(pool, space.device()) != CUDA_SUCCESS)
    return false;
  if (pools_.Servable(*pool, space.device())) return true;
  // The default pool was there before anybody could tell us.
  if (!*pool || *pool != space.default_pool()) return false;
  pools_.Announce(*pool, space.device());
  return true;
}

const plan::Slot* Replayer::Match(const ebt_alloc& request) {
  const uint64_t fingerprint = callsite::Fingerprint();
  std::vector<const Point*> left;
  const plan::Slot* slot = nullptr;
  {
    MutexLock lock(&mutex_);
    slot = Follow(request.bytes, fingerprint, &left);
    steps_.store(matcher_.steps(), std::memory_order_relaxed);
  }
  if (!left.empty()) Perform(left, request.stream);
  return slot;
}

const plan::Slot* Replayer::Follow(uint64_t bytes, uint64_t fingerprint,
                                   std::vector<const Point*>* left) {
  const plan::Slot* const before = matcher_.last();
  const plan::Slot* slot = matcher_.Next(bytes, fingerprint);
  const uint64_t seen = matcher_.matched() + matcher_.missed();
  if (seen == kTrialAllocations && matcher_.matched() < kLeastMatched)
    Disable(
        "the plan does not fit this job (it was made from another one, or the job's "
        "arguments changed; record and plan again)");
  if (slot && slot == matcher_.last()) {
    // In this order: a launch of another thread in between finds the points of the last step, all
    // of them behind it.
    points_.At(slot->launch);
    if (before && slot <= before) points_.Restarted(left);
    in_step_.store(true, std::memory_order_relaxed);
  }
  return slot;
}

bool Replayer::PlaceAt(Space& space, const plan::Slot& slot, const ebt_alloc& request,
                       Block* block) {
  const bool cold = slot.tier == plan::Tier::kCold;
  const ColdHome home = cold ? homes_->Of(slot) : ColdHome{false, slot.offset};
  Arena* arena = home.swapped ? space.swapped() : cold ? space.cold() : space.warm();
  if (!arena) return false;
  if (slot.variable()) return PlaceVariable(space, slot, request, block);
  const auto take = [&] {
    return request.kind == EBT_ALLOC_LINEAR
               ? arena->TakeIdleAt(home.offset, request.bytes)
               : arena->TakeAt(home.offset, request.bytes, request.stream);
  };
  Arena::Outcome outcome = take();
  if (outcome == Arena::Outcome::kOccupied && !cold && space.swap() &&
      space.swap()->MakeRoom(home.offset, request.bytes))
    outcome = take();
  if (outcome != Arena::Outcome::kServed) return false;
  *block = {arena, home.offset, request.bytes, nullptr, cold, slot.site};
  return true;
}

bool Replayer::PlaceVariable(Space& space, const plan::Slot& slot, const ebt_alloc& request,
                             Block* block) {
  const std::optional<CUstream> stream =
      request.kind == EBT_ALLOC_LINEAR ? std::nullopt : std::optional(request.stream);
  uint64_t offset = 0;
  const Arena::Outcome outcome =
      slot.dynamic ? space.warm()->TakeCompact(plan_.warm_bytes, request.bytes, stream, &offset)
                   : space.warm()->TakeWithin(slot.offset, slot.offset + slot.room_bytes,
                                              request.bytes, stream, &offset);
  if (outcome != Arena::Outcome::kServed) return false;
  *block = {space.warm(), offset, request.bytes, nullptr, false, slot.site};
  return true;
}

bool Replayer::PlaceAnywhere(Space& space, const ebt_alloc& request, Block* block) {
  uint64_t offset = 0;
  Arena& arena = plan_.uneven ? *space.warm() : space.dynamic();
  // What set-up has not taken yet is not free: it would be in the way of what has its place there.
  const bool setting_up = !in_step_.load(std::memory_order_relaxed);
  const Arena::Outcome outcome =
      !plan_.uneven ? arena.Take(request.bytes, request.stream, &offset)
      : setting_up
          ? arena.TakeWithin(plan_.warm_bytes, arena.size(), request.bytes, request.stream, &offset)
          : arena.TakeCompact(plan_.warm_bytes, request.bytes, request.stream, &offset);
  if (outcome != Arena::Outcome::kServed) return false;
  *block = {&arena, offset, request.bytes, nullptr, false, 0};
  return true;
}

bool Replayer::Alloc(const ebt_alloc& request, CUdeviceptr* ptr, CUresult* result) {
  if (disabled_.load(std::memory_order_relaxed)) {
    if (context_ended_.load(std::memory_order_relaxed) && context_ended_.exchange(false))
      SayNatively("the context that the plan was kept in is destroyed");
    return false;
  }
  if (request.bytes == 0 || request.kind == EBT_ALLOC_PITCHED ||
      request.kind == EBT_ALLOC_MANAGED || request.kind == EBT_ALLOC_VMM)
    return false;
  if (Capturing(request.stream)) return false;
  const std::shared_ptr<Space> space = CurrentSpace();
  CUmemoryPool pool = nullptr;
  if (!space || !PoolOf(*space, request, &pool)) return false;
  const plan::Slot* slot = Match(request);
  if (disabled_.load(std::memory_order_relaxed)) return false;
  Block block{};
  bool planned =
      slot && slot->tier != plan::Tier::kNative && PlaceAt(*space, *slot, request, &block);
  // Linear memory that no plan knows may be a library's own (communication, IPC): the driver's.
  const bool native =
      request.kind == EBT_ALLOC_LINEAR || (slot && slot->tier == plan::Tier::kNative);
  if (!planned && (native || !PlaceAnywhere(*space, request, &block))) return false;
  (planned ? planned_ : dynamic_).fetch_add(1, std::memory_order_relaxed);
  block.pool = pool;
  *ptr = block.arena->base() + block.offset;
  Register(*space, *ptr, block);
  *result = CUDA_SUCCESS;
  return true;
}

void Replayer::Register(const Space& space, CUdeviceptr address, const Block& block) {
  const uint64_t rounded = AlignUp(block.bytes, kBlockAlignment);
  uint64_t reserved = 0;
  {
    MutexLock lock(&mutex_);
    blocks_[address] = block;
    if (block.arena == space.swapped()) {
      space.named()->Add(block.offset, block.bytes);
      if (outcome_ && !touched_sites_.contains(block.site))
        untouched_[block.offset] = {block.bytes, block.site};
    }
    (block.cold ? cold_live_bytes_ : warm_live_bytes_) += rounded;
    cold_peak_bytes_ = std::max(cold_peak_bytes_, cold_live_bytes_);
    warm_peak_bytes_ = std::max(warm_peak_bytes_, warm_live_bytes_);
    // What the arenas hold is counted once, with the default pool.
    if (block.pool == space.default_pool()) reserved = Reserved(space);
  }
  if (block.pool) pools_.Allocated(block.pool, rounded, reserved);
}

bool Replayer::Unregister(CUdeviceptr ptr, Block* block, std::shared_ptr<Space>* space) {
  uint64_t rounded = 0;
  {
    MutexLock lock(&mutex_);
    const auto at = blocks_.find(ptr);
    if (at == blocks_.end()) return false;
    *block = at->second;
    *space = space_;
    blocks_.erase(at);
    if (space_ && space_->named() && block->arena == space_->swapped()) {
      space_->named()->Remove(block->offset);
      untouched_.erase(block->offset);
    }
    if (block->sync_memops) synchronized_blocks_.fetch_sub(1);
    rounded = AlignUp(block->bytes, kBlockAlignment);
    (block->cold ? cold_live_bytes_ : warm_live_bytes_) -= rounded;
  }
  if (block->pool) pools_.Freed(block->pool, rounded);
  return true;
}

// Of a block that is none: freed already, or the middle of one. To the driver it would be a part of
// all we hold, or its beginning.
bool Replayer::IsOfOurRanges(CUdeviceptr ptr, CUresult* result) {
  MutexLock lock(&mutex_);
  *result = CUDA_ERROR_INVALID_VALUE;
  return space_ && space_->Holds(ptr);
}

bool Replayer::Free(CUdeviceptr ptr, CUstream stream, bool ordered, CUresult* result) {
  std::shared_ptr<Space> space;  // keeps the block's arena
  Block block{};
  // Most frees: nobody captures, nothing is waited for, so the block is off the books at once.
  if (ordered && captures_.load(std::memory_order_relaxed) == 0) {
    if (!Unregister(ptr, &block, &space)) return IsOfOurRanges(ptr, result);
    *result = CUDA_SUCCESS;
    block.arena->Give(block.offset, block.bytes, stream);
    return true;
  }
  {
    MutexLock lock(&mutex_);
    space = blocks_.contains(ptr) ? space_ : nullptr;
  }
  if (!space) return IsOfOurRanges(ptr, result);
  // Under capture a free is a graph node, and only of graph memory: the driver says so.
  if (ordered && Capturing(stream)) return false;
  // cuMemFree waits for the work that may still use the block, and where it may not wait the
  // block stays.
  *result = ordered ? CUDA_SUCCESS : space->Drain();
  if (*result != CUDA_SUCCESS) return true;
  if (!Unregister(ptr, &block, &space)) {  // another thread was quicker
    *result = CUDA_ERROR_INVALID_VALUE;
    return true;
  }
  if (ordered) {
    block.arena->Give(block.offset, block.bytes, stream);
  } else {
    block.arena->GiveIdle(block.offset, block.bytes);
  }
  return true;
}

void Replayer::Native(const ebt_alloc&, CUdeviceptr) {
  native_.fetch_add(1, std::memory_order_relaxed);
}

void Replayer::PoolTrim() {
  if (captures_.load(std::memory_order_relaxed) != 0) return;
  // Whoever asks, and from whichever context: what we hold is missing on the whole device.
  if (const std::shared_ptr<Space> space = AnySpace()) space->Trim();
}

void Replayer::PoolCreated(CUmemoryPool pool, const CUmemPoolProps& properties) {
  if (properties.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
      properties.handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
      properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
    pools_.Announce(pool, properties.location.id);
}

void Replayer::AddPeer(CUdevice owner, CUdevice peer) {
  MutexLock lock(&mutex_);
  peers_[owner].insert(peer);
  // Rare, and nobody may be given memory in between that the peer cannot reach.
  if (space_ && space_->device() == owner) space_->AddPeer(peer);
}

void Replayer::PeerEnabled(CUcontext owner) {
  CUdevice peer = 0, device = 0;
  if (driver_.fn_cuCtxGetDevice(&peer) != CUDA_SUCCESS) return;
  {
    const CurrentContext before(driver_, owner);
    if (before.result() != CUDA_SUCCESS || driver_.fn_cuCtxGetDevice(&device) != CUDA_SUCCESS)
      return;
  }
  AddPeer(device, peer);
}

void Replayer::PoolAccess(CUmemoryPool pool, const CUmemAccessDesc& access) {
  if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      access.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
    return;
  int devices = 0;
  driver_.fn_cuDeviceGetCount(&devices);
  for (CUdevice device = 0; device < devices; ++device) {
    CUmemoryPool standard = nullptr;
    driver_.fn_cuDeviceGetDefaultMemPool(&standard, device);
    if (pool == standard || pools_.Servable(pool, device)) AddPeer(device, access.location.id);
  }
}

void Replayer::PoolDestroyed(CUmemoryPool pool) { pools_.Destroyed(pool); }

void Replayer::StreamDestroyed(CUstream stream) {
  CaptureEnded(stream);
  if (const std::shared_ptr<Space> space = AnySpace()) space->ledger().StreamDestroyed(stream);
}

void Replayer::CaptureBegun(CUstream stream) {
  MutexLock lock(&mutex_);
  capturing_.insert(stream);
  captures_.store(capturing_.size(), std::memory_order_relaxed);
}

void Replayer::CaptureEnded(CUstream stream) {
  MutexLock lock(&mutex_);
  capturing_.erase(stream);
  captures_.store(capturing_.size(), std::memory_order_relaxed);
}

}  // namespace ebt::replay
