#include "src/tier/swap.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/log.h"
#include "src/base/units.h"
#include "src/driver/relaxed_capture.h"

namespace ebt::tier {
namespace {

// The set-up uses slabs in place, and the first planned fetch comes right behind it.
constexpr std::chrono::nanoseconds kPatience = std::chrono::seconds(2);
// A slab that can never be fetched is not worth asking for.
constexpr uint32_t kMostBusyMisses = 3;
// From wherever a slab is, three changes bring it to where its bytes can be used.
constexpr int kMostChanges = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<SwapEngine>> SwapEngine::Create(const DriverApi& driver,
                                                               memory::Arena& device_arena,
                                                               memory::MappedRange& device_range,
                                                               memory::StreamLedger& ledger,
                                                               const SwapOptions& options) {
  if (options.slab_bytes == 0 || options.stays.empty() ||
      device_range.chunk_bytes() != options.slab_bytes)
    return absl::InvalidArgumentError(absl::StrCat(
        "slabs of ", FormatSize(options.slab_bytes), " cannot lie in device memory of ",
        FormatSize(device_range.chunk_bytes()), " a handle"));
  for (uint64_t stay : options.stays)
    if (stay % options.slab_bytes != 0 || stay >= device_range.size() ||
        device_range.size() - stay < options.slab_bytes)
      return absl::InvalidArgumentError(
          absl::StrCat("a slab cannot stay at ", stay, " of the device's part of the plan"));
  std::unique_ptr<SwapEngine> engine(
      new SwapEngine(driver, device_arena, device_range, ledger, options));
  if (absl::Status built = engine->Build(); !built.ok()) return built;
  return engine;
}

SwapEngine::SwapEngine(const DriverApi& driver, memory::Arena& device_arena,
                       memory::MappedRange& device_range, memory::StreamLedger& ledger,
                       const SwapOptions& options)
    : driver_(driver),
      arena_(device_arena),
      range_(device_range),
      ledger_(ledger),
      slab_bytes_(options.slab_bytes),
      count_(options.stays.size()),
      stays_(options.stays),
      guard_(options.guard),
      slabs_(std::make_unique<Slab[]>(count_)),
      arrivals_(driver),
      departures_(driver),
      patience_(kPatience) {
  for (size_t i = 0; i < count_; ++i) slabs_[i].stay = options.stays[i];
  std::sort(stays_.begin(), stays_.end());
}

absl::Status SwapEngine::Build() {
  RelaxedCapture relaxed(driver_);
  auto memory = SlabMemory::Create(range_.pool(), slab_bytes_, count_);
  if (!memory.ok()) return memory.status();
  base_ = (*memory)->base();
  {
    MutexLock lock(&mutex_);
    memory_ = *std::move(memory);
  }
  if (const CUresult result = MakeStreamsAndEvents(); result != CUDA_SUCCESS)
    return absl::UnavailableError(
        absl::StrCat("streams and events for the slabs: ", ErrorName(driver_, result)));
  auto mover = Mover::Create(driver_, guard_);
  if (!mover.ok()) return mover.status();
  mover_ = *std::move(mover);
  return absl::OkStatus();
}

CUresult SwapEngine::MakeStreamsAndEvents() {
  for (CUstream* stream : {&relay_in_, &relay_out_, &relay_idle_}) {
    const CUresult result =
        driver_.fn_cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, 0);
    if (result != CUDA_SUCCESS) return result;
  }
  for (size_t i = 0; i < count_; ++i) {
    Slab& slab = slabs_[i];
    for (CUevent* event : {&slab.gate_in, &slab.in_done, &slab.gate_out, &slab.out_done}) {
      const CUresult result = driver_.fn_cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
      if (result != CUDA_SUCCESS) return result;
    }
    slab.out_tag = ledger_.TagOfEvent(
        slab.out_done, [this, &slab](CUstream stream) { return WaitForDeparture(slab, stream); });
  }
  return CUDA_SUCCESS;
}

SwapEngine::~SwapEngine() {
  mover_.reset();
  for (CUstream stream : {relay_in_, relay_out_, relay_idle_}) {
    if (!stream) continue;
    driver_.fn_cuStreamSynchronize(stream);
    ledger_.StreamDestroyed(stream);
    driver_.fn_cuStreamDestroy_v2(stream);
  }
  for (size_t i = 0; i < count_; ++i) {
    const Slab& slab = slabs_[i];
    if (slab.holds_stay) arena_.GiveIdle(slab.stay, slab_bytes_);
    if (slab.out_tag != memory::kIdle) ledger_.EventDone(slab.out_tag);
    for (CUevent event : {slab.gate_in, slab.in_done, slab.gate_out, slab.out_done})
      if (event) driver_.fn_cuEventDestroy_v2(event);
  }
}

CUdeviceptr SwapEngine::base() const { return base_; }

uint64_t SwapEngine::size() const { return count_ * slab_bytes_; }

SwapEngine::Range SwapEngine::SlabsOf(uint64_t offset, uint64_t bytes) const {
  if (bytes == 0 || offset >= size()) return {};
  const uint64_t last = std::min(bytes - 1, size() - 1 - offset) + offset;
  return {offset / slab_bytes_, last / slab_bytes_ + 1};
}

void SwapEngine::Complain(Complaint kind, const char* what, CUresult result) {
  if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED) return;  // nobody is there to be told
  if (complained_.fetch_or(kind, std::memory_order_relaxed) & kind) return;
  Log(LogLevel::kWarning, "swap: {} ({})", what, ErrorName(driver_, result));
}

void SwapEngine::Fetch(size_t index, CUstream) {
  // What the stream has queued matters only where it used the stay, and that the arena knows.
  RelaxedCapture relaxed(driver_);
  MutexLock lock(&mutex_);
  Slab& slab = slabs_[index];
  slab.evict_pending = false;
  Settle(slab);
  if (finished_ || slab.pinned || slab.OnDevice()) return;
  if (slab.in_flight > 0) return CountBusy(slab);
  if (slab.state == State::kLeaving) {
    mover_->Flush(Mover::Direction::kOut, slab.ticket);
    Settle(slab);
    if (slab.OnDevice()) return;  // the copy out was refused
  }
  if (slab.state == State::kInPlace) {
    // Nobody should be waited for in vain.
    if (!arena_.IsFree(slab.stay, slab_bytes_) && !FlushLeaving(slab.stay, slab_bytes_)) {
      ++counters_.missed_room;
      return;
    }
    if (!AwaitUsersInPlace(slab)) return;
  }
  if (BeginArrival(index)) ++counters_.fetches;
}

void SwapEngine::Evict(size_t index, CUstream) {
  RelaxedCapture relaxed(driver_);
  MutexLock lock(&mutex_);
  Slab& slab = slabs_[index];
  Settle(slab);
  if (finished_ || slab.pinned || !slab.OnDevice()) return;
  if (slab.in_flight > 0) {
    slab.evict_pending = true;
    return;
  }
  Leave(index);
}

bool SwapEngine::PollUntilDone(CUevent event, std::chrono::nanoseconds budget) {
  const auto end = std::chrono::steady_clock::now() + budget;
  while (true) {
    const CUresult result = driver_.fn_cuEventQuery(event);
    if (result != CUDA_ERROR_NOT_READY) return result == CUDA_SUCCESS;
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

bool SwapEngine::AwaitUsersInPlace(Slab& slab) {
  if (slab.tags.empty()) return true;
  std::vector<memory::Piece> users;
  for (memory::StreamTag tag : slab.tags) users.push_back({0, slab_bytes_, tag});
  // The gate is free: no copy of this slab is queued.
  if (ledger_.OrderAfter(relay_idle_, users) != CUDA_SUCCESS ||
      driver_.fn_cuEventRecord(slab.gate_in, relay_idle_) != CUDA_SUCCESS) {
    CountBusy(slab);
    return false;
  }
  const uint64_t touches = slab.touches;
  const auto budget = patience_;
  const auto begin = std::chrono::steady_clock::now();
  mutex_.unlock();
  const bool done = PollUntilDone(slab.gate_in, budget);
  mutex_.lock();
  const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - begin;
  if (slab.state != State::kInPlace || slab.pinned) return false;
  if (!done || slab.touches != touches || slab.in_flight > 0) {
    patience_ = std::max(std::chrono::nanoseconds(0), patience_ - waited);
    CountBusy(slab);
    return false;
  }
  patience_ = kPatience;
  slab.busy_misses = 0;
  slab.tags.clear();
  return true;
}

void SwapEngine::CountBusy(Slab& slab) {
  ++counters_.missed_busy;
  if (slab.state != State::kInPlace || ++slab.busy_misses < kMostBusyMisses) return;
  slab.pinned = true;
  Complain(kAlwaysBusy,
           "cold memory that is always in use when it should be fetched stays in place",
           CUDA_ERROR_NOT_READY);
}

void SwapEngine::Touch(uint64_t offset, uint64_t bytes, CUstream stream, bool captured) {
  const Range range = SlabsOf(offset, bytes);
  if (range.first == range.end) return;
  // A graph may be launched at any time, and what another thread's stream has queued cannot be
  // waited for.
  const bool unordered = captured || stream == CU_STREAM_PER_THREAD;
  const memory::StreamTag tag = unordered ? memory::kIdle : ledger_.TagOf(stream);
  MutexLock lock(&mutex_);
  for (size_t i = range.first; i < range.end; ++i) {
    if (unordered) PinSlab(i);
    ++slabs_[i].in_flight;
  }
  if (unordered) return;
  for (size_t i = range.first; i < range.end; ++i) Admit(i, stream, tag);
}

void SwapEngine::Touched(uint64_t offset, uint64_t bytes, CUstream, bool) {
  const Range range = SlabsOf(offset, bytes);
  if (range.first == range.end) return;
  MutexLock lock(&mutex_);
  for (size_t i = range.first; i < range.end; ++i) {
    Slab& slab = slabs_[i];
    if (--slab.in_flight > 0 || !slab.evict_pending) continue;
    slab.evict_pending = false;
    RelaxedCapture relaxed(driver_);
    Settle(slab);
    if (!finished_ && !slab.pinned && slab.OnDevice()) Leave(i);
  }
}

void SwapEngine::Admit(size_t index, CUstream stream, memory::StreamTag tag) {
  Slab& slab = slabs_[index];
  const auto known = [&slab, tag] {
    return std::find(slab.tags.begin(), slab.tags.end(), tag) != slab.tags.end();
  };
  if ((slab.state == State::kInPlace || slab.OnDevice()) && known()) {
    ++slab.touches;
    return;
  }
  RelaxedCapture relaxed(driver_);
  for (int change = 0; change < kMostChanges; ++change) {
    Settle(slab);
    if (slab.state == State::kInPlace) {
      ++slab.touches;
      if (!known()) slab.tags.push_back(tag);
      return;
    }
    if (!slab.OnDevice()) {
      if (!PutInPlace(index, /*off_plan=*/true)) return;
    } else if (known()) {
      return;
    } else if (SeeArrivalIssued(slab)) {
      WaitForArrival(slab, stream);
      if (slab.tags.empty()) ++counters_.hits;
      slab.tags.push_back(tag);
      return;
    }
  }
}

void SwapEngine::WaitForArrival(Slab& slab, CUstream stream) {
  ++counters_.waits_arrival;
  const CUresult result = arrivals_.Wait(stream, slab.in_done);
  if (result == CUDA_SUCCESS) return;
  Complain(kOrderRefused, "a stream could not wait for a copy, so the program did", result);
  AwaitOnHost(slab.in_done);
}

CUresult SwapEngine::WaitForDeparture(Slab& slab, CUstream stream) {
  RelaxedCapture relaxed(driver_);
  if (stream == relay_in_) return driver_.fn_cuStreamWaitEvent(stream, slab.out_done, 0);
  MutexLock lock(&departures_mutex_);
  return departures_.Wait(stream, slab.out_done);
}

void SwapEngine::Pin(uint64_t offset, uint64_t bytes) {
  const Range range = SlabsOf(offset, bytes);
  MutexLock lock(&mutex_);
  for (size_t i = range.first; i < range.end; ++i) PinSlab(i);
}

void SwapEngine::PinSlab(size_t index) {
  Slab& slab = slabs_[index];
  slab.pinned = true;
  if (slab.held || slab.state == State::kInPlace) return;
  RelaxedCapture relaxed(driver_);
  // Its own share keeps others from moving it while the lock is released.
  const bool alone = slab.in_flight++ == 0;
  bool may_leave = alone;
  for (int change = 0; change < kMostChanges && slab.state != State::kInPlace; ++change) {
    Settle(slab);
    if (slab.state == State::kHome || slab.state == State::kLeaving) {
      if (!PutInPlace(index, /*off_plan=*/false)) break;
    } else if (slab.OnDevice() && may_leave) {
      may_leave = false;
      Leave(index);
    } else if (slab.OnDevice() && SeeArrivalIssued(slab)) {
      // Somebody is about to use it there, or cannot be waited for: then the stay is for good.
      mutex_.unlock();
      AwaitOnHost(slab.in_done);
      mutex_.lock();
      slab.held = true;
      break;
    }
  }
  --slab.in_flight;
}

bool SwapEngine::MakeRoom(uint64_t offset, uint64_t bytes) {
  RelaxedCapture relaxed(driver_);
  MutexLock lock(&mutex_);
  return FlushLeaving(offset, bytes);
}

void SwapEngine::Finish() {
  {
    MutexLock lock(&mutex_);
    finished_ = true;
  }
  mover_->Stop();
}

bool SwapEngine::Backs(uint64_t chunk_offset) const {
  return std::binary_search(stays_.begin(), stays_.end(), chunk_offset);
}

CUresult SwapEngine::RenewAccess() {
  RelaxedCapture relaxed(driver_);
  MutexLock lock(&mutex_);
  return memory_->RenewAccess();
}

SwapCounters SwapEngine::Counters() const {
  RelaxedCapture relaxed(driver_);
  MutexLock lock(&mutex_);
  SwapCounters counters = counters_;
  counters.bytes_in = mover_->bytes(Mover::Direction::kIn);
  counters.bytes_out = mover_->bytes(Mover::Direction::kOut);
  counters.waits_arrival_ms = arrivals_.Milliseconds();
  {
    MutexLock departures(&departures_mutex_);
    counters.waits_departure = departures_.waits();
    counters.waits_departure_ms = departures_.Milliseconds();
  }
  counters.device_bytes = device_bytes_.load(std::memory_order_relaxed);
  counters.in_place_slabs = 0;
  for (size_t i = 0; i < count_; ++i)
    counters.in_place_slabs += slabs_[i].state == State::kInPlace ? 1 : 0;
  return counters;
}

}  // namespace ebt::tier
