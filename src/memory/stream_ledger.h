// Stream order as cuMemAllocAsync promises it: memory freed in a stream's order may be used at
// once by work of that stream, and by work of another one only behind what was queued before.
//
// A tag names a stream for as long as freed memory may refer to it. A destroyed stream's tag
// keeps an event that was recorded just before its end.
#ifndef EBBTIDE_SRC_MEMORY_STREAM_LEDGER_H_
#define EBBTIDE_SRC_MEMORY_STREAM_LEDGER_H_

#include <cuda.h>

#include <atomic>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/base/mutex.h"
#include "src/driver/driver_api.h"
#include "src/memory/free_map.h"

namespace ebt::memory {

// Thread-safe. The driver is never called while the ledger's lock is held.
class StreamLedger {
 public:
  explicit StreamLedger(const DriverApi& driver);

  // The tag of `stream` for the calling thread (CU_STREAM_PER_THREAD is another stream in each).
  StreamTag TagOf(CUstream stream);

  // A tag for what comes behind an event instead of a stream's work: whoever is ordered after it
  // waits for what the event was recorded behind last. Memory may be given in its order once it
  // is recorded, and must be taken again before it is recorded anew. wait: makes a stream wait
  // for the event, for whoever wants to know of it; called without a lock.
  using EventWait = std::function<CUresult(CUstream)>;
  StreamTag TagOfEvent(CUevent event, EventWait wait);
  // Call before the event is destroyed: it has happened.
  void EventDone(StreamTag tag);

  // Makes `stream`'s later work wait for what is queued now in the order of each tag of
  // `pieces` other than its own. CUDA_SUCCESS, or the driver's first refusal: then the pieces
  // must not be used by `stream`.
  CUresult OrderAfter(CUstream stream, const std::vector<Piece>& pieces);

  // Returns when what is queued now in the order of each tag of `pieces` has run: for memory
  // that work of any stream may use at once. CUDA_SUCCESS, or the driver's first refusal.
  CUresult WaitFor(const std::vector<Piece>& pieces);

  // Call when memory is freed in the order of `tag`: a stream that other threads cannot name
  // leaves its event here. CUDA_SUCCESS, or the driver's refusal.
  CUresult Freed(StreamTag tag);

  // Call before the driver destroys the stream.
  void StreamDestroyed(CUstream stream);

 private:
  struct Entry {
    CUstream stream = nullptr;
    bool nameable = true;     // false: an event, destroyed, or another thread's per-thread stream
    CUevent event = nullptr;  // covers all freed memory of an entry that is not nameable
    bool lost = false;        // destroyed without an event: nobody can be ordered after it
    EventWait wait;           // of an event
  };

  EventWait WaitOf(StreamTag tag);
  CUresult RecordInto(StreamTag tag, CUstream stream);
  // Calls `use` with an event behind what is queued now in the order of `tag`.
  CUresult WithEventOf(StreamTag tag, const std::function<CUresult(CUevent)>& use);
  bool Capturing(CUstream stream) const;

  const DriverApi& driver_;
  std::atomic<uint64_t> generation_;  // changes when a tag ends
  Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_) = {Entry{}};  // [0] is kIdle
  absl::flat_hash_map<std::pair<CUstream, uint64_t>, StreamTag> tags_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ebt::memory

#endif  // EBBTIDE_SRC_MEMORY_STREAM_LEDGER_H_
