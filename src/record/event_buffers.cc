#include "src/record/event_buffers.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <type_traits>
#include <utility>

namespace ebt::record {
namespace {

// The fixed part of a buffered event; `words` of variable part follow it: touched blocks, two a
// word, or the phase's text.
struct Stored {
  uint64_t sequence;
  uint64_t shape_or_site;
  uint64_t bytes;
  uint64_t address;
  uint64_t fingerprint;
  uint32_t block;
  uint32_t function;
  uint16_t stream;
  uint16_t device;
  RecordKind kind;
  uint8_t detail;    // AllocKind or CopyKind
  uint16_t text;     // bytes of the phase's name
  uint32_t touched;  // blocks
  uint32_t words;
};
static_assert(std::is_trivially_copyable_v<Stored> && sizeof(Stored) % sizeof(uint64_t) == 0);
constexpr size_t kStoredWords = sizeof(Stored) / sizeof(uint64_t);
constexpr size_t kMostText = 63;  // ebbtide_phase's limit
// Most threads say little, those that train say much.
constexpr size_t kFirstSegmentWords = (4 << 10) / sizeof(uint64_t);
constexpr size_t kSegmentWords = (64 << 10) / sizeof(uint64_t);

size_t WordsFor(size_t bytes) { return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t); }

Stored Store(const EventRecord& event) {
  Stored stored{};
  stored.sequence = event.sequence;
  stored.shape_or_site = event.kind == RecordKind::kAlloc ? event.site : event.shape;
  stored.bytes = event.bytes;
  stored.address = event.address;
  stored.fingerprint = event.fingerprint;
  stored.block = event.block;
  stored.function = event.function;
  stored.stream = event.stream;
  stored.device = event.device;
  stored.kind = event.kind;
  stored.detail = event.kind == RecordKind::kAlloc ? static_cast<uint8_t>(event.alloc)
                                                   : static_cast<uint8_t>(event.copy);
  stored.text = static_cast<uint16_t>(std::min(event.phase.size(), kMostText));
  stored.touched = static_cast<uint32_t>(event.touched.size());
  stored.words = static_cast<uint32_t>(event.touched.empty()
                                           ? WordsFor(stored.text)
                                           : WordsFor(event.touched.size() * sizeof(uint32_t)));
  return stored;
}

EventRecord Restore(const Stored& stored, const uint64_t* variable) {
  EventRecord event;
  event.sequence = stored.sequence;
  event.kind = stored.kind;
  event.stream = stored.stream;
  event.device = stored.device;
  event.block = stored.block;
  event.function = stored.function;
  event.bytes = stored.bytes;
  event.address = stored.address;
  event.fingerprint = stored.fingerprint;
  if (stored.kind == RecordKind::kAlloc) {
    event.site = stored.shape_or_site;
    event.alloc = static_cast<profile::AllocKind>(stored.detail);
  } else {
    event.shape = stored.shape_or_site;
    event.copy = static_cast<profile::CopyKind>(stored.detail);
  }
  event.touched = {reinterpret_cast<const uint32_t*>(variable), stored.touched};
  if (stored.touched == 0) event.phase = {reinterpret_cast<const char*>(variable), stored.text};
  return event;
}

std::atomic<uint64_t> next_serial{1};

// Trivial, so that it can be read at any time of a thread's end.
thread_local ThreadBuffer* current = nullptr;
thread_local uint64_t current_serial = 0;
thread_local bool exiting = false;

// Keeps the thread's buffer alive, whichever of the two goes first, and says when the thread
// has gone.
struct Owner {
  std::shared_ptr<ThreadBuffer> buffer;
  void Replace(std::shared_ptr<ThreadBuffer> with) {
    if (buffer != nullptr) buffer->Abandon();
    buffer = std::move(with);
  }
  ~Owner() {
    exiting = true;
    current = nullptr;
    current_serial = 0;
    Replace(nullptr);
  }
};
thread_local Owner owner;

}  // namespace

Segment& ThreadBuffer::SegmentFor(size_t words, std::atomic<size_t>& in_flight) {
  if (!filling_.empty() && filling_.back().capacity - filling_.back().used >= words) {
    return filling_.back();
  }
  const size_t usual = filling_.empty() ? kFirstSegmentWords : kSegmentWords;
  Segment fresh{.capacity = std::max(usual, words)};
  fresh.words = std::make_unique_for_overwrite<uint64_t[]>(fresh.capacity);
  filling_.push_back(std::move(fresh));
  in_flight.fetch_add(filling_.back().capacity * sizeof(uint64_t), std::memory_order_relaxed);
  return filling_.back();
}

size_t ThreadBuffer::Append(const EventRecord& event, std::atomic<uint64_t>& sequence,
                            std::atomic<size_t>& in_flight) {
  Stored stored = Store(event);
  const size_t words = kStoredWords + stored.words;
  std::lock_guard lock(mutex_);
  Segment& segment = SegmentFor(words, in_flight);
  uint64_t* to = &segment.words[segment.used];
  stored.sequence = sequence.fetch_add(1);
  memcpy(to, &stored, sizeof(stored));
  if (stored.touched > 0) {
    memcpy(to + kStoredWords, event.touched.data(), stored.touched * sizeof(uint32_t));
  } else if (stored.text > 0) {
    memcpy(to + kStoredWords, event.phase.data(), stored.text);
  }
  segment.used += words;
  return filling_bytes_ += words * sizeof(uint64_t);
}

void ThreadBuffer::TakeAll() {
  std::lock_guard lock(mutex_);
  taken_.reserve(taken_.size() + filling_.size());
  std::move(filling_.begin(), filling_.end(), std::back_inserter(taken_));
  filling_.clear();
  filling_bytes_ = 0;
}

uint64_t ThreadBuffer::NextSequence() const {
  if (segment_ == taken_.size()) return profile::kNever;
  Stored stored;
  memcpy(&stored, &taken_[segment_].words[word_], sizeof(stored));
  return stored.sequence;
}

EventRecord ThreadBuffer::Next() {
  const Segment& segment = taken_[segment_];
  Stored stored;
  memcpy(&stored, &segment.words[word_], sizeof(stored));
  const EventRecord event = Restore(stored, &segment.words[word_ + kStoredWords]);
  word_ += kStoredWords + stored.words;
  if (word_ == segment.used) {
    ++segment_;
    word_ = 0;
  }
  return event;
}

size_t ThreadBuffer::Release() {
  size_t words = 0;
  for (size_t i = 0; i < segment_; ++i) words += taken_[i].capacity;
  taken_.erase(taken_.begin(), taken_.begin() + static_cast<ptrdiff_t>(segment_));
  segment_ = 0;
  return words * sizeof(uint64_t);
}

EventBuffers::EventBuffers() : serial_(next_serial.fetch_add(1)) {
  buffers_.push_back(std::make_shared<ThreadBuffer>(next_number_++));
}

EventBuffers::~EventBuffers() = default;

ThreadBuffer& EventBuffers::OfThisThread() {
  if (current_serial == serial_) return *current;
  std::lock_guard lock(mutex_);
  if (exiting) return *buffers_.front();
  auto buffer = std::make_shared<ThreadBuffer>(next_number_++);
  buffers_.push_back(buffer);
  current = buffer.get();
  current_serial = serial_;
  owner.Replace(std::move(buffer));
  return *current;
}

void EventBuffers::TakeFromAll() {
  limit_ = sequence_.load();
  {
    std::lock_guard lock(mutex_);
    drained_ = buffers_;
  }
  abandoned_.clear();
  for (size_t i = 0; i < drained_.size(); ++i) {
    // Asked before taking: what an abandoned buffer holds then is the last that it will.
    if (i > 0 && drained_[i]->abandoned()) abandoned_.push_back(drained_[i].get());
    drained_[i]->TakeAll();
    PushNext(drained_[i].get());
  }
}

void EventBuffers::PushNext(ThreadBuffer* buffer) {
  const uint64_t next = buffer->NextSequence();
  if (next >= limit_) return;
  merging_.emplace_back(next, buffer);
  std::push_heap(merging_.begin(), merging_.end(), std::greater<>());
}

bool EventBuffers::Drain(std::vector<EventRecord>& events) {
  events.clear();
  size_t released = 0;
  for (const std::shared_ptr<ThreadBuffer>& buffer : drained_) released += buffer->Release();
  in_flight_.fetch_sub(released, std::memory_order_relaxed);
  if (merging_.empty()) TakeFromAll();
  while (!merging_.empty() && events.size() < kMostAtOnce) {
    std::pop_heap(merging_.begin(), merging_.end(), std::greater<>());
    ThreadBuffer* const buffer = merging_.back().second;
    merging_.pop_back();
    events.push_back(buffer->Next());
    PushNext(buffer);
  }
  if (merging_.empty()) ForgetFinished();
  return !merging_.empty();
}

// Those of threads that are gone, once nothing is left in them. `drained_` holds them for as long
// as the views of their events are valid.
void EventBuffers::ForgetFinished() {
  std::erase_if(abandoned_, [](const ThreadBuffer* buffer) {
    return buffer->NextSequence() != profile::kNever;
  });
  if (abandoned_.empty()) return;
  std::lock_guard lock(mutex_);
  std::erase_if(buffers_, [&](const std::shared_ptr<ThreadBuffer>& buffer) {
    return std::find(abandoned_.begin(), abandoned_.end(), buffer.get()) != abandoned_.end();
  });
}

}  // namespace ebt::record
