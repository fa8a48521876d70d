// How a slab gets from one place to another. What each refusal of the driver leaves behind is
// said where it is met: the bytes are always where the state says that they are.
#include <algorithm>
#include <chrono>

#include "src/driver/relaxed_capture.h"
#include "src/tier/swap.h"

namespace ebt::tier {
namespace {

// A call that was refused for want of something may be granted the next time.
constexpr int kTries = 3;
// Longer than any work of the device.
constexpr auto kForGood = std::chrono::hours(24);

double MillisecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace

void SwapEngine::Arrived(Slab& slab, CUresult result) {
  if (result == CUDA_SUCCESS) return;
  Complain(kCopyRefused, "a copy was refused; the memory is used where it is", result);
  slab.refused.store(true, std::memory_order_release);
}

void SwapEngine::Left(Slab& slab, CUresult result) {
  if (result != CUDA_SUCCESS) {
    // The device's bytes are the true ones, and nobody else may have their place.
    Complain(kCopyRefused, "a copy was refused; the memory is used where it is", result);
    slab.refused.store(true, std::memory_order_release);
    return;
  }
  device_bytes_.fetch_sub(slab_bytes_, std::memory_order_relaxed);
  slab.holds_stay.store(false, std::memory_order_relaxed);
  // Not in the order of the copies' stream, where later copies wait for later things.
  arena_.GiveBehind(slab.stay, slab_bytes_, slab.out_tag);
}

void SwapEngine::Settle(Slab& slab) {
  if (slab.state == State::kArriving && mover_->Issued(Mover::Direction::kIn, slab.ticket) &&
      !slab.refused.load(std::memory_order_acquire))
    slab.state = State::kStaying;
  if (slab.state == State::kLeaving && mover_->Issued(Mover::Direction::kOut, slab.ticket))
    slab.state = slab.refused.load(std::memory_order_acquire) ? State::kStaying : State::kHome;
}

void SwapEngine::AwaitOnHost(CUevent event) {
  for (int i = 0; i < kTries; ++i)
    if (driver_.fn_cuEventSynchronize(event) == CUDA_SUCCESS) return;
  // Whoever goes on without the wait uses bytes that are still on their way.
  if (!PollUntilDone(event, kForGood)) driver_.fn_cuCtxSynchronize();
}

bool SwapEngine::FlushLeaving(uint64_t offset, uint64_t bytes) {
  bool any = false;
  for (size_t i = 0; i < count_; ++i) {
    Slab& slab = slabs_[i];
    if (slab.state != State::kLeaving || slab.stay >= offset + bytes ||
        offset >= slab.stay + slab_bytes_)
      continue;
    const auto begin = std::chrono::steady_clock::now();
    mover_->Flush(Mover::Direction::kOut, slab.ticket);
    Settle(slab);
    counters_.host_room_ms += MillisecondsSince(begin);
    any = any || slab.state == State::kHome;
  }
  if (any) ++counters_.waits_room;
  return any;
}

bool SwapEngine::TakeStay(const Slab& slab) {
  using Outcome = memory::Arena::Outcome;
  Outcome outcome = arena_.TakeAt(slab.stay, slab_bytes_, relay_in_);
  if (outcome == Outcome::kOccupied && FlushLeaving(slab.stay, slab_bytes_))
    outcome = arena_.TakeAt(slab.stay, slab_bytes_, relay_in_);
  return outcome == Outcome::kServed;
}

CUresult SwapEngine::ShowHome(size_t index) {
  CUresult result = CUDA_SUCCESS;
  for (int i = 0; i < kTries; ++i) {
    result = memory_->ShowHome(index);
    if (result == CUDA_SUCCESS) break;
  }
  return result;
}

bool SwapEngine::ShowStay(size_t index) {
  Slab& slab = slabs_[index];
  const memory::MappedRange::Chunk chunk = range_.HandleAt(slab.stay);
  if (memory_->ShowsChunk(index, chunk)) return true;
  // The handle behind the stay is another one than the last time, which happens when the arena
  // gave memory back. Those who used the address then must be through with it.
  if (slab.state == State::kHome && driver_.fn_cuEventQuery(slab.out_done) != CUDA_SUCCESS) {
    CountBusy(slab);
    return false;
  }
  const CUresult result = memory_->ShowChunk(index, chunk);
  if (result == CUDA_SUCCESS) return true;
  Complain(kRemapRefused, "an address could not be mapped onto its place on the device", result);
  // A slab at home shows nothing that counts; the next touch puts it in place.
  if (slab.state == State::kInPlace && ShowHome(index) != CUDA_SUCCESS) slab.state = State::kHome;
  return false;
}

bool SwapEngine::BeginArrival(size_t index) {
  Slab& slab = slabs_[index];
  if (!TakeStay(slab)) {
    ++counters_.missed_room;
    return false;
  }
  if (!ShowStay(index)) {
    arena_.Give(slab.stay, slab_bytes_, relay_in_);
    return false;
  }
  slab.state = State::kHome;
  // The host pages are what the last copy out has made them.
  CUresult result = driver_.fn_cuStreamWaitEvent(relay_in_, slab.out_done, 0);
  if (result == CUDA_SUCCESS) result = driver_.fn_cuEventRecord(slab.gate_in, relay_in_);
  if (result != CUDA_SUCCESS) {
    Complain(kOrderRefused, "a copy could not be ordered; the memory stays on the host", result);
    arena_.Give(slab.stay, slab_bytes_, relay_in_);
    return false;
  }
  slab.state = State::kArriving;
  slab.tags.clear();
  slab.refused.store(false, std::memory_order_relaxed);
  slab.holds_stay.store(true, std::memory_order_relaxed);
  const uint64_t device =
      device_bytes_.fetch_add(slab_bytes_, std::memory_order_relaxed) + slab_bytes_;
  counters_.peak_device_bytes = std::max(counters_.peak_device_bytes, device);
  slab.ticket =
      mover_->Queue(Mover::Direction::kIn,
                    {arena_.base() + slab.stay, memory_->HomeOf(index), slab_bytes_, slab.gate_in,
                     slab.in_done, [this, &slab](CUresult issued) { Arrived(slab, issued); }});
  return true;
}

bool SwapEngine::SeeArrivalIssued(Slab& slab) {
  if (slab.state == State::kStaying) return true;
  const auto begin = std::chrono::steady_clock::now();
  mover_->Flush(Mover::Direction::kIn, slab.ticket);
  counters_.host_issue_ms += MillisecondsSince(begin);
  Settle(slab);
  if (slab.state == State::kStaying) return true;
  AbandonArrival(slab);
  return false;
}

void SwapEngine::AbandonArrival(Slab& slab) {
  // Nobody has used this stay. The host's bytes are still the true ones; a part of them may be
  // on its way, and whoever gets the place must come behind that.
  const CUstream copies = mover_->stream(Mover::Direction::kIn);
  if (driver_.fn_cuEventRecord(slab.in_done, copies) != CUDA_SUCCESS ||
      driver_.fn_cuStreamWaitEvent(relay_in_, slab.in_done, 0) != CUDA_SUCCESS)
    driver_.fn_cuStreamSynchronize(copies);
  slab.state = State::kHome;
  device_bytes_.fetch_sub(slab_bytes_, std::memory_order_relaxed);
  slab.holds_stay.store(false, std::memory_order_relaxed);
  arena_.Give(slab.stay, slab_bytes_, relay_in_);
}

bool SwapEngine::Leave(size_t index) {
  Slab& slab = slabs_[index];
  if (!SeeArrivalIssued(slab)) return false;
  std::vector<memory::Piece> users;
  for (memory::StreamTag tag : slab.tags) users.push_back({slab.stay, slab_bytes_, tag});
  CUresult result = ledger_.OrderAfter(relay_out_, users);
  // Those who touched it have waited for its arrival.
  if (result == CUDA_SUCCESS && users.empty())
    result = driver_.fn_cuStreamWaitEvent(relay_out_, slab.in_done, 0);
  if (result == CUDA_SUCCESS) result = driver_.fn_cuEventRecord(slab.gate_out, relay_out_);
  // A stream that is being captured cannot be waited for: the slab stays until the next time.
  if (result != CUDA_SUCCESS) return false;
  slab.state = State::kLeaving;
  slab.refused.store(false, std::memory_order_relaxed);
  slab.ticket =
      mover_->Queue(Mover::Direction::kOut,
                    {memory_->HomeOf(index), arena_.base() + slab.stay, slab_bytes_, slab.gate_out,
                     slab.out_done, [this, &slab](CUresult issued) { Left(slab, issued); }});
  return true;
}

bool SwapEngine::PutInPlace(size_t index, bool off_plan) {
  Slab& slab = slabs_[index];
  const auto begin = std::chrono::steady_clock::now();
  const bool leaving = slab.state == State::kLeaving;
  const uint64_t ticket = slab.ticket;
  mutex_.unlock();
  if (leaving) mover_->Flush(Mover::Direction::kOut, ticket);
  // It covers the last stay's touches too, since the copy out came behind them.
  AwaitOnHost(slab.out_done);
  mutex_.lock();
  Settle(slab);
  bool reachable = true;
  if (slab.state == State::kHome) {
    const CUresult result = ShowHome(index);
    if (result == CUDA_SUCCESS) {
      slab.state = State::kInPlace;
      slab.tags.clear();
      if (off_plan) ++counters_.off_plan;
    } else {
      Complain(kRemapRefused, "host memory could not be mapped in place", result);
      reachable = BeginArrival(index);
      if (!reachable) Complain(kOutOfReach, "cold memory is out of reach: its use faults", result);
    }
  }
  if (off_plan) counters_.host_off_plan_ms += MillisecondsSince(begin);
  return reachable;
}

}  // namespace ebt::tier
