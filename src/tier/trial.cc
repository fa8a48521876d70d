#include "src/tier/trial.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/log.h"
#include "src/base/units.h"
#include "src/driver/current_context.h"
#include "src/driver/relaxed_capture.h"

namespace ebt::tier {
namespace {

// High in the address space, as the arenas lie (src/memory/page_pool.cc), and apart from them.
constexpr CUdeviceptr kAddressHint = 0x5ede'0000'0000;
constexpr auto kLongestTurn = std::chrono::seconds(2);

// Our calls and waits neither disturb somebody's capture nor change, beyond its life, which context
// is current.
class Calm {
 public:
  explicit Calm(const DriverApi& driver) : relaxed_(driver), before_(driver) {}
  Calm(const DriverApi& driver, CUcontext context) : relaxed_(driver), before_(driver, context) {}

  // The calling thread's own.
  CUcontext before() const { return before_.context(); }

 private:
  const RelaxedCapture relaxed_;
  const CurrentContext before_;
};

CUmemAllocationProp Properties(CUmemLocationType type, int id) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = type;
  properties.location.id = id;
  return properties;
}

// What a wait answers when the driver or the context is going away, which is nobody's fault.
bool IsGoodbye(CUresult result) {
  return result == CUDA_ERROR_DEINITIALIZED || result == CUDA_ERROR_NOT_INITIALIZED ||
         result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_CONTEXT;
}

// Somebody has begun a capture that we were not told of: nothing can be waited for now.
bool IsCapture(CUresult result) {
  return result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ||
         result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

}  // namespace

const char* FaultWord(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::kAccess:
      return "access";
    case Fault::Kind::kCaptured:
      return "captured";
    case Fault::Kind::kDriver:
      return "driver";
  }
  return "driver";
}

absl::StatusOr<std::unique_ptr<Trial>> Trial::Create(const DriverApi& driver, CUcontext context,
                                                     CUdevice device, uint64_t bytes,
                                                     uint64_t granule,
                                                     std::function<void(const Fault&)> on_fault) {
  CUmemAllocationProp properties = Properties(CU_MEM_LOCATION_TYPE_DEVICE, device);
  size_t granularity = 0;
  CUresult result = driver.fn_cuMemGetAllocationGranularity(&granularity, &properties,
                                                            CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  if (result != CUDA_SUCCESS || granularity == 0)
    return absl::UnavailableError("the device has no virtual memory management");
  if (granule == 0 || granule % granularity != 0 || bytes == 0 || bytes % granule != 0)
    return absl::InvalidArgumentError(absl::StrCat("a trial of ", bytes, " bytes in granules of ",
                                                   granule, ": the device maps multiples of ",
                                                   granularity));
  CUdeviceptr base = 0;
  result = driver.fn_cuMemAddressReserve(&base, bytes, granularity, kAddressHint, 0);
  if (result != CUDA_SUCCESS)
    return absl::UnavailableError(absl::StrCat("no address range of ", FormatSize(bytes),
                                               " for the trial: ", ErrorName(driver, result)));
  return std::unique_ptr<Trial>(
      new Trial(driver, context, device, base, bytes, granule, std::move(on_fault)));
}

Trial::Trial(const DriverApi& driver, CUcontext context, CUdevice device, CUdeviceptr base,
             uint64_t bytes, uint64_t granule, std::function<void(const Fault&)> on_fault)
    : driver_(driver),
      context_(context),
      device_(device),
      base_(base),
      size_(bytes),
      granule_(granule),
      on_fault_(std::move(on_fault)),
      granules_(bytes / granule) {
  int supported = 0, node = -1;
  driver_.fn_cuDeviceGetAttribute(
      &supported, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
  driver_.fn_cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device);
  if (supported) host_numa_ = node;
}

Trial::~Trial() {
  const Calm calm(driver_);
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < granules_.size(); ++i) {
    if (granules_[i].mapped) Unmap(i);
    if (granules_[i].handle != 0) driver_.fn_cuMemRelease(granules_[i].handle);
  }
  driver_.fn_cuMemAddressFree(base_, size_);
}

CUresult Trial::MakeMemory(Granule& granule) {
  if (host_numa_ >= 0) {
    const CUmemAllocationProp properties = Properties(CU_MEM_LOCATION_TYPE_HOST_NUMA, host_numa_);
    if (driver_.fn_cuMemCreate(&granule.handle, granule_, &properties, 0) == CUDA_SUCCESS)
      return CUDA_SUCCESS;
  }
  const CUmemAllocationProp properties = Properties(CU_MEM_LOCATION_TYPE_DEVICE, device_);
  const CUresult result = driver_.fn_cuMemCreate(&granule.handle, granule_, &properties, 0);
  granule.on_device = result == CUDA_SUCCESS;
  if (result != CUDA_SUCCESS) granule.handle = 0;
  return result;
}

CUresult Trial::Ensure(uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  const Calm calm(driver_);
  MutexLock lock(&mutex_);
  for (size_t i = offset / granule_; i <= (offset + bytes - 1) / granule_; ++i) {
    if (granules_[i].handle != 0) continue;
    CUresult result = MakeMemory(granules_[i]);
    // Once the trial has ended nothing is mapped by name any more.
    if (result == CUDA_SUCCESS && ended_) result = Map(i);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

uint64_t Trial::device_bytes() const {
  MutexLock lock(&mutex_);
  uint64_t bytes = 0;
  for (const Granule& granule : granules_)
    if (granule.on_device) bytes += granule_;
  return bytes;
}

CUresult Trial::Map(size_t index) {
  const CUdeviceptr at = base_ + index * granule_;
  CUresult result = driver_.fn_cuMemMap(at, granule_, 0, granules_[index].handle, 0);
  if (result != CUDA_SUCCESS) return result;
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {device_}},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  result = driver_.fn_cuMemSetAccess(at, granule_, &access, 1);
  granules_[index].mapped = result == CUDA_SUCCESS;
  if (result != CUDA_SUCCESS) driver_.fn_cuMemUnmap(at, granule_);
  return result;
}

CUresult Trial::Unmap(size_t index) {
  const CUresult result = driver_.fn_cuMemUnmap(base_ + index * granule_, granule_);
  if (result == CUDA_SUCCESS) granules_[index].mapped = false;
  return result;
}

void Trial::TakeTurn() {
  const auto mine = std::this_thread::get_id();
  const auto free = [this, mine]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return turn_ == std::thread::id() || turn_ == mine;
  };
  turn_ended_.wait_for(mutex_, kLongestTurn, free);
  turn_ = mine;
}

void Trial::MarkNamed(const std::vector<Extent>& named, bool pin) {
  for (Granule& granule : granules_) granule.named = false;
  for (const Extent& extent : named) {
    if (extent.bytes == 0 || extent.offset >= size_) continue;
    const uint64_t last = std::min(extent.offset + extent.bytes, size_) - 1;
    for (size_t i = extent.offset / granule_; i <= last / granule_; ++i) {
      granules_[i].named = true;
      if (pin) granules_[i].pinned = true;
    }
  }
}

void Trial::GiveUp(const Fault& fault) {
  ended_ = true;
  for (size_t i = 0; i < granules_.size(); ++i)
    if (granules_[i].handle != 0 && !granules_[i].mapped) Map(i);
  on_fault_(fault);
}

void Trial::WaitForWork() {
  if (work_.empty()) return;
  // A copy that another context queued is waited for there.
  std::vector<CUcontext> contexts = {context_};
  if (work_context_ != nullptr && work_context_ != context_) contexts.push_back(work_context_);
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < contexts.size() && result == CUDA_SUCCESS; ++i) {
    const CurrentContext before(driver_, contexts[i]);
    result = before.result();
    if (result == CUDA_SUCCESS) result = driver_.fn_cuCtxSynchronize();
  }
  if (IsCapture(result)) return;
  const std::string work = std::exchange(work_, std::string());
  if (result == CUDA_SUCCESS || IsGoodbye(result)) return;
  GiveUp({Fault::Kind::kAccess, work, result, {}});
}

void Trial::MapNamed() {
  for (size_t i = 0; i < granules_.size(); ++i) {
    Granule& granule = granules_[i];
    const bool wanted = granule.named || granule.pinned;
    if (granule.handle == 0 || granule.mapped == wanted) continue;
    // What may still be running keeps its memory.
    if (!wanted && !work_.empty()) continue;
    const CUresult result = wanted ? Map(i) : Unmap(i);
    if (result != CUDA_SUCCESS) return GiveUp({Fault::Kind::kDriver, "", result, {}});
  }
}

void Trial::Begin(const std::vector<Extent>& named, const char* what, bool capturing) {
  const Calm calm(driver_, context_);
  // Other devices' work does not see the range; to wait for it, or for who waits for it, could be
  // to wait for a partner that this very thread has still to launch.
  if (!capturing && named.empty() && calm.before() != context_) return;
  MutexLock lock(&mutex_);
  TakeTurn();
  if (ended_) return;
  if (!capturing) WaitForWork();
  if (ended_) return;
  MarkNamed(named, capturing);
  if (capturing) {
    for (size_t i = 0; i < granules_.size() && !ended_; ++i) {
      if (!granules_[i].named || granules_[i].mapped || granules_[i].handle == 0) continue;
      if (const CUresult result = Map(i); result != CUDA_SUCCESS)
        GiveUp({Fault::Kind::kDriver, what, result, {}});
    }
    if (!named.empty() && !ended_) on_fault_({Fault::Kind::kCaptured, what, CUDA_SUCCESS, named});
  } else {
    MapNamed();
  }
  if (capturing && !work_.empty()) return;
  work_ = what;
  work_context_ = calm.before();
}

void Trial::Queued() {
  {
    MutexLock lock(&mutex_);
    if (turn_ != std::this_thread::get_id()) return;
    turn_ = std::thread::id();
  }
  turn_ended_.notify_all();
}

void Trial::Check() {
  const Calm calm(driver_, context_);
  MutexLock lock(&mutex_);
  if (!ended_) WaitForWork();
}

}  // namespace ebt::tier
