// Events on their way from the threads that see them to the thread that writes them.
#ifndef EBBTIDE_SRC_RECORD_EVENT_BUFFERS_H_
#define EBBTIDE_SRC_RECORD_EVENT_BUFFERS_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "src/profile/writer.h"

namespace ebt::record {

using profile::EventRecord;
using profile::RecordKind;

// A piece of memory full of events. Pieces never move, so a burst costs what it holds and no more.
struct Segment {
  std::unique_ptr<uint64_t[]> words;
  size_t capacity = 0;
  size_t used = 0;
};

// One thread's events, in order. Appending takes a lock that only the writer ever contends for.
class ThreadBuffer {
 public:
  explicit ThreadBuffer(uint32_t number) : number_(number) {}

  // Gives the event the next number of `sequence` and keeps it. The lock is held across both:
  // see EventBuffers::Drain. Returns the bytes that the buffer holds now; memory that it takes is
  // added to `in_flight`. Throws std::bad_alloc, and nothing has happened.
  size_t Append(const EventRecord& event, std::atomic<uint64_t>& sequence,
                std::atomic<size_t>& in_flight);

  uint32_t number() const { return number_; }  // of the thread, 0: of none
  // The thread is gone, nobody appends any more.
  void Abandon() { abandoned_.store(true, std::memory_order_release); }
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }

  // What the owning thread keeps from event to event.
  struct Scratch {
    std::vector<uint32_t> touched;  // for its capacity
    CUcontext context = nullptr;    // whose device is `device`, as of this generation
    uint64_t context_generation = 0;
    CUdevice device = 0;
  };
  // NULL for the buffer that many threads share.
  Scratch* scratch() { return number_ == 0 ? nullptr : &scratch_; }

  // The drainer's side, which takes no lock but in TakeAll: what has been taken, event by event.
  void TakeAll();
  // Its sequence number, or kNever where nothing is left.
  uint64_t NextSequence() const;
  // There is one. Its views are valid until Release.
  EventRecord Next();
  // Gives back the memory of what Next has passed. Returns its bytes.
  size_t Release();

 private:
  Segment& SegmentFor(size_t words, std::atomic<size_t>& in_flight);

  const uint32_t number_;
  Scratch scratch_;
  std::atomic<bool> abandoned_{false};
  std::mutex mutex_;
  std::vector<Segment> filling_;
  size_t filling_bytes_ = 0;
  // The drainer's: events that were taken, and the place of the next in them.
  std::vector<Segment> taken_;
  size_t segment_ = 0;
  size_t word_ = 0;
};

// The buffers of one recording. Thread-safe; Drain has one caller at a time.
class EventBuffers {
 public:
  EventBuffers();
  ~EventBuffers();

  // The calling thread's. Falls back to one that is shared when the thread is already exiting:
  // hooks may run after its thread-local objects are gone.
  ThreadBuffer& OfThisThread();

  // Appends to a buffer of this recording. Returns the bytes that it holds.
  size_t Append(ThreadBuffer& buffer, const EventRecord& event) {
    return buffer.Append(event, sequence_, in_flight_);
  }
  // A sequence number for an event that the writer will make itself.
  uint64_t Reserve() { return sequence_.fetch_add(1); }

  // Numbers given so far.
  uint64_t sequence() const { return sequence_.load(std::memory_order_relaxed); }
  // Memory of events that wait to be written or were given by the last Drain. A thread keeps at
  // most 64 KiB of it that it does not use, and 4 KiB while it has little to say.
  size_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }

  // Every event below a common sequence number, in order: with what earlier calls gave, a prefix
  // of the history of the process. An event takes its number under its buffer's lock, so once
  // the number S has been read and every buffer been locked after that, no event below S is
  // still on its way. Events from S on stay for later.
  //
  // At most kMostAtOnce come at a time: true says that this was not all below S yet. The views in
  // `events` are valid until the next call.
  bool Drain(std::vector<EventRecord>& events);
  static constexpr size_t kMostAtOnce = 4096;

 private:
  using Next = std::pair<uint64_t, ThreadBuffer*>;  // its next event's number first

  void TakeFromAll();
  void PushNext(ThreadBuffer* buffer);
  void ForgetFinished();

  const uint64_t serial_;  // tells recordings apart in thread-local storage
  std::atomic<uint64_t> sequence_{0};
  std::atomic<size_t> in_flight_{0};
  std::mutex mutex_;
  std::vector<std::shared_ptr<ThreadBuffer>> buffers_;  // the first is the shared one
  uint32_t next_number_ = 0;
  // Of Drain: the buffers that were taken from, up to which number, and those of them that have
  // something below it: a heap, the earliest on top.
  std::vector<std::shared_ptr<ThreadBuffer>> drained_;
  std::vector<ThreadBuffer*> abandoned_;
  uint64_t limit_ = 0;
  std::vector<Next> merging_;
};

}  // namespace ebt::record

#endif  // EBBTIDE_SRC_RECORD_EVENT_BUFFERS_H_
