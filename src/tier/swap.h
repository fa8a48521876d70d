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

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "src/driver/driver_api.h"
#include "src/memory/arena.h"
#include "src/memory/backing.h"
#include "src/memory/page_pool.h"
#include "src/memory/stream_ledger.h"

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
                                                            SwapOptions options);
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

  // Device-arena chunks behind slabs' stays, which must keep their handles (memory given back
  // from under an alias would not be free).
  bool Backs(uint64_t chunk_offset) const;

  // Call when the pool behind the device range has been given another peer.
  CUresult RenewAccess();

  SwapCounters Counters() const;

 private:
  SwapEngine();
  // Filled in by its author.
};

}  // namespace ebt::tier

#endif  // EBBTIDE_SRC_TIER_SWAP_H_
