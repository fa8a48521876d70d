// The swap engine: cold memory that lies on the host and is copied onto the device for the part
// of a step that uses it, under an address that never changes.
//
// The range is cut into slabs of one VMM handle each. A slab's stay on the device is an item of
// the device arena like any block: it lies at a planned offset there, and the slab's own address,
// the one the application holds, is a second mapping of the handle behind that offset. So in
// steady state nothing is mapped and nobody waits on the host: the copy in waits, on its stream,
// for what lay there before; the first touch waits for the copy in; what comes to lie there next
// waits for the copy out. Every such wait is on an event behind work that has been queued
// already, never on work still to be queued, so that no two waits can wait for each other.
//
// A touch outside the stay puts the slab in place: its address is mapped onto its host pages,
// where kernels and copies use it over the link, and the next planned fetch ends that. So does a
// fetch that finds no room. A slab is in place from the start until its first fetch.
#ifndef EBBTIDE_SRC_TIER_SWAP_H_
#define EBBTIDE_SRC_TIER_SWAP_H_

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/mutex.h"
#include "src/driver/driver_api.h"
#include "src/memory/arena.h"
#include "src/memory/backing.h"
#include "src/memory/page_pool.h"
#include "src/memory/stream_ledger.h"
#include "src/tier/mover.h"
#include "src/tier/slab_memory.h"
#include "src/tier/wait_sampler.h"

namespace ebt::tier {

// Since the engine was made. Times are milliseconds.
struct SwapCounters {
  uint64_t bytes_in = 0, bytes_out = 0;  // copied
  uint64_t fetches = 0;                  // planned fetches that were begun
  uint64_t hits = 0;                     // of them, slabs that were touched during their stay
  uint64_t missed_room = 0;              // planned fetches given up: somebody was in the place
  uint64_t missed_busy = 0;              // ... the slab was still being used in place
  uint64_t off_plan = 0;                 // touches outside the stay that put a slab in place
  uint64_t waits_arrival = 0;            // stream waits for a copy in
  double waits_arrival_ms = 0;           // device time that they held the stream up, sampled
  uint64_t waits_departure = 0;          // stream waits for a copy out to leave a block's place
  double waits_departure_ms = 0;         // device time that they held the stream up, sampled
  uint64_t waits_room = 0;               // calls that had to see a copy out issued first
  double host_room_ms = 0;               // host time of those
  double host_issue_ms = 0;              // host time until a copy in was issued
  double host_off_plan_ms = 0;           // host time of touches outside the stay
  uint64_t in_place_slabs = 0;           // now
  uint64_t device_bytes = 0;             // of slabs on the device now
  uint64_t peak_device_bytes = 0;
};

struct SwapOptions {
  uint64_t slab_bytes = 0;      // what one handle of the device range holds
  std::vector<uint64_t> stays;  // of each slab: its offset in the device arena
  int* (*guard)() = nullptr;    // the thread's re-entrancy guard, set by the engine's thread
};

// Thread-safe. Nothing here fails towards the caller: what the driver refuses costs time (the
// slab stays or goes in place) and one line.
class SwapEngine : public memory::Backing {
 public:
  // The driver, the arena, the range behind it (made with chunks of slab_bytes) and the ledger
  // must outlive the engine. All of the host memory, on the NUMA node next to the device, is had
  // now; what cannot be had is an error and nothing is kept. The device arena's context is
  // current.
  static absl::StatusOr<std::unique_ptr<SwapEngine>> Create(const DriverApi& driver,
                                                            memory::Arena& device_arena,
                                                            memory::MappedRange& device_range,
                                                            memory::StreamLedger& ledger,
                                                            const SwapOptions& options);
  // Nothing on the device may use the range any more. Waits for its own copies.
  ~SwapEngine() override;

  CUdeviceptr base() const override;
  uint64_t size() const override;
  CUresult Ensure(uint64_t, uint64_t) override { return CUDA_SUCCESS; }
  uint64_t device_bytes() const override { return 0; }  // it lies in the device arena's memory

  // The plan's points, called in the order of the launches of a step before the launch that is
  // queued next on `stream`.
  void Fetch(size_t slab, CUstream stream);
  void Evict(size_t slab, CUstream stream);

  // The application is about to queue work on `stream` (or, `captured`, to put it into a graph)
  // that may read or write [offset, offset + bytes) of the range: afterwards that work finds the
  // right bytes. Every Touch is followed by one Touched of the same arguments once the work has
  // been queued (or refused); in between the slabs do not move. Work on CU_STREAM_PER_THREAD and
  // captured work pin the slabs (see Pin).
  void Touch(uint64_t offset, uint64_t bytes, CUstream stream, bool captured);
  void Touched(uint64_t offset, uint64_t bytes, CUstream stream, bool captured);

  // From now on these bytes are on the host and in place for good: any pointer may reach them at
  // any time.
  void Pin(uint64_t offset, uint64_t bytes);

  // Somebody found [offset, offset + bytes) of the device arena occupied: returns when the
  // copies out that are to leave it, if any, have been issued and the arena has been given the
  // place. True when there were any.
  bool MakeRoom(uint64_t offset, uint64_t bytes);

  // For the application's own copies between host and device, into the device (kIn) or out of it.
  RightOfWay& application(Mover::Direction direction) { return mover_->application(direction); }

  // See Mover.
  void Hold() ABSL_NO_THREAD_SAFETY_ANALYSIS { mover_->Hold(); }
  void Resume() ABSL_NO_THREAD_SAFETY_ANALYSIS { mover_->Resume(); }

  // The process ends: what is queued is issued, nothing moves any more, and the engine's thread is
  // gone. Touches are served as before.
  void Finish();

  // Device-arena chunks behind slabs' stays, which must keep their handles (memory given back
  // from under an alias would not be free).
  bool Backs(uint64_t chunk_offset) const;

  // Call when the pool behind the device range has been given another peer.
  CUresult RenewAccess();

  SwapCounters Counters() const;
  // Bytes of slabs on the device now, SwapCounters::device_bytes alone. Takes no lock.
  uint64_t staying() const { return device_bytes_.load(std::memory_order_relaxed); }

 private:
  // A slab's address shows its host pages in kInPlace and the handle behind its stay in all the
  // others, where its bytes are: on the host (kHome), on the device (kStaying), or on their way
  // by a copy that is queued with the mover (kArriving, kLeaving). kArriving and kLeaving end
  // lazily, see Settle.
  enum class State : uint8_t { kInPlace, kHome, kArriving, kStaying, kLeaving };

  struct Slab {
    uint64_t stay = 0;
    State state = State::kInPlace;
    bool pinned = false;         // no planned fetch or evict any more
    bool held = false;           // pinned where it stays on the device
    bool evict_pending = false;  // wanted while touches were in flight
    uint32_t in_flight = 0;      // Touch without its Touched
    uint32_t busy_misses = 0;    // in a row
    uint64_t touches = 0;        // changes with every one in place
    uint64_t ticket = 0;         // of the copy that was queued last
    // Streams that touched it since it is where it is; on the device: that wait for the arrival.
    std::vector<memory::StreamTag> tags;
    CUevent gate_in = nullptr, in_done = nullptr, gate_out = nullptr, out_done = nullptr;
    memory::StreamTag out_tag = memory::kIdle;  // of out_done
    // Written by the mover's thread before the copy counts as issued.
    std::atomic<bool> refused{false};     // the copy that was queued last
    std::atomic<bool> holds_stay{false};  // its place in the arena is ours
    bool OnDevice() const { return state == State::kArriving || state == State::kStaying; }
  };
  struct Range {
    size_t first = 0, end = 0;  // slabs, half-open
  };
  enum Complaint : unsigned {
    kCopyRefused = 1,
    kOrderRefused = 2,
    kRemapRefused = 4,
    kOutOfReach = 8,
    kAlwaysBusy = 16
  };

  SwapEngine(const DriverApi& driver, memory::Arena& device_arena,
             memory::MappedRange& device_range, memory::StreamLedger& ledger,
             const SwapOptions& options);
  absl::Status Build() ABSL_LOCKS_EXCLUDED(mutex_);
  CUresult MakeStreamsAndEvents();

  Range SlabsOf(uint64_t offset, uint64_t bytes) const;
  void Complain(Complaint kind, const char* what, CUresult result);
  // Called by the mover's thread; take no lock of the engine.
  void Arrived(Slab& slab, CUresult result);
  void Left(Slab& slab, CUresult result);

  // Takes note of a copy that has been issued by now.
  void Settle(Slab& slab) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeStay(const Slab& slab) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ShowStay(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CUresult ShowHome(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Queues the copy in of a slab that nobody uses. False: it is where it was, or at home.
  bool BeginArrival(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sees the copy in issued. False: it was refused; the slab is at home.
  bool SeeArrivalIssued(Slab& slab) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AbandonArrival(Slab& slab) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Queues the copy out of a slab on the device without touches in flight. False: it stays, or
  // was found to be at home.
  bool Leave(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // From kLeaving or kHome to kInPlace, or to kStaying when the copy out was refused. The lock
  // is released while it waits; a touch in flight keeps the slab from moving meanwhile. False:
  // the bytes cannot be reached.
  bool PutInPlace(size_t index, bool off_plan) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The lock is released while it waits. False: the slab stays in place for now.
  bool AwaitUsersInPlace(Slab& slab) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool PollUntilDone(CUevent event, std::chrono::nanoseconds budget);
  void CountBusy(Slab& slab) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Admit(size_t index, CUstream stream, memory::StreamTag tag)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitForArrival(Slab& slab, CUstream stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PinSlab(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes `stream`, which gets the slab's place, wait for its copy out.
  CUresult WaitForDeparture(Slab& slab, CUstream stream) ABSL_LOCKS_EXCLUDED(departures_mutex_);
  bool FlushLeaving(uint64_t offset, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AwaitOnHost(CUevent event);

  const DriverApi& driver_;
  memory::Arena& arena_;
  memory::MappedRange& range_;
  memory::StreamLedger& ledger_;
  const uint64_t slab_bytes_;
  const size_t count_;
  std::vector<uint64_t> stays_;  // sorted
  int* (*const guard_)();

  // Streams that carry nothing but waits, so that what a copy waits for can be put together
  // without touching the stream it will run on. They wait for work of the application's alone or
  // for copies that came long before: streams share the device's few queues, and a wait for
  // something slow would hold up whoever shares one with it.
  CUstream relay_in_ = nullptr, relay_out_ = nullptr, relay_idle_ = nullptr;

  // Held around driver calls that only queue work, since the order in which work is queued on
  // the relays and on the application's streams must be the order in which slabs change state:
  // two threads that touch, fetch and evict one slab would otherwise queue a use in front of
  // the wait that it needs. It is never held while the device works, except on the rare ways out
  // of a refusal. No deadlock can come of it: under it we wait only for the mover to issue,
  // whose thread takes no lock of ours, and without it only for work that has been queued.
  mutable Mutex mutex_;
  std::unique_ptr<SlabMemory> memory_ ABSL_GUARDED_BY(mutex_);
  CUdeviceptr base_ = 0;
  std::unique_ptr<Slab[]> slabs_;  // what is not atomic in them is guarded by mutex_
  SwapCounters counters_ ABSL_GUARDED_BY(mutex_);
  mutable WaitSampler arrivals_ ABSL_GUARDED_BY(mutex_);
  // Of its own: who takes a place may or may not hold mutex_.
  mutable Mutex departures_mutex_ ABSL_ACQUIRED_AFTER(mutex_);
  mutable WaitSampler departures_ ABSL_GUARDED_BY(departures_mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  // What fetches may still wait for users in place until one of them succeeds.
  std::chrono::nanoseconds patience_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> device_bytes_{0};
  std::atomic<unsigned> complained_{0};
  std::unique_ptr<Mover> mover_;
};

}  // namespace ebt::tier

#endif  // EBBTIDE_SRC_TIER_SWAP_H_
