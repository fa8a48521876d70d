#include "src/record/event_buffers.h"

#include <algorithm>
#include <cstring>
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
constexpr size_t kMostText = 63;                             // ebbtide_phase's limit
constexpr size_t kKeptWords = (1 << 20) / sizeof(uint64_t);  // a burst's memory is given back

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

size_t ThreadBuffer::Append(const EventRecord& event, std::atomic<uint64_t>& sequence,
                            std::atomic<size_t>& in_flight) {
  Stored stored = Store(event);
  const size_t words = kStoredWords + stored.words;
  std::lock_guard lock(mutex_);
  const size_t at = words_.size();
  words_.resize(at + words);
  stored.sequence = sequence.fetch_add(1);
  memcpy(&words_[at], &stored, sizeof(stored));
  if (stored.touched > 0) {
    memcpy(&words_[at + kStoredWords], event.touched.data(), stored.touched * sizeof(uint32_t));
  } else if (stored.text > 0) {
    memcpy(&words_[at + kStoredWords], event.phase.data(), stored.text);
  }
  in_flight.fetch_add(words * sizeof(uint64_t), std::memory_order_relaxed);
  return words_.size() * sizeof(uint64_t);
}

void ThreadBuffer::TakeAll(std::vector<uint64_t>& out) {
  std::lock_guard lock(mutex_);
  words_.swap(out);
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

void EventBuffers::Drain(std::vector<EventRecord>& events) {
  events.clear();
  const uint64_t limit = sequence_.load();
  std::vector<std::shared_ptr<ThreadBuffer>> buffers;
  {
    std::lock_guard lock(mutex_);
    buffers = buffers_;
  }
  if (taken_.size() < buffers.size()) taken_.resize(buffers.size());
  previous_left_over_.swap(left_over_);
  left_over_.clear();
  std::vector<ThreadBuffer*> finished;
  for (size_t i = 0; i < buffers.size(); ++i) {
    // Asked before taking: what an abandoned buffer holds then is the last that it will.
    if (i > 0 && buffers[i]->abandoned()) finished.push_back(buffers[i].get());
    taken_[i].clear();
    if (taken_[i].capacity() > kKeptWords) taken_[i].shrink_to_fit();
    buffers[i]->TakeAll(taken_[i]);
  }
  Collect(previous_left_over_, limit, events);
  for (size_t i = 0; i < buffers.size(); ++i) Collect(taken_[i], limit, events);
  std::sort(events.begin(), events.end(),
            [](const EventRecord& a, const EventRecord& b) { return a.sequence < b.sequence; });
  if (finished.empty()) return;
  std::lock_guard lock(mutex_);
  std::erase_if(buffers_, [&](const std::shared_ptr<ThreadBuffer>& buffer) {
    return std::find(finished.begin(), finished.end(), buffer.get()) != finished.end();
  });
}

void EventBuffers::Collect(std::vector<uint64_t>& storage, uint64_t limit,
                           std::vector<EventRecord>& events) {
  size_t written = 0;
  for (size_t at = 0; at < storage.size();) {
    Stored stored;
    memcpy(&stored, &storage[at], sizeof(stored));
    const size_t words = kStoredWords + stored.words;
    if (stored.sequence < limit) {
      events.push_back(Restore(stored, storage.data() + at + kStoredWords));
      written += words;
    } else {
      left_over_.insert(left_over_.end(), &storage[at], &storage[at] + words);
    }
    at += words;
  }
  in_flight_.fetch_sub(written * sizeof(uint64_t), std::memory_order_relaxed);
}

}  // namespace ebt::record
