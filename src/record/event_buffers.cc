#include "src/record/event_buffers.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <type_traits>
#include <utility>

namespace ebt::record {
namespace {

// The beginning of every buffered event. Behind it come the numbers that its kind has, then touched
// blocks, two a word, or the phase's text: the fewer lines of memory a launch fills, the less it
// waits for those that the writer has read.
struct Stored {
  uint64_t sequence;
  uint32_t id;     // block or function
  uint32_t count;  // touched blocks, or bytes of the phase's name
  uint16_t stream;
  uint16_t device;
  RecordKind kind;
  uint8_t detail;   // AllocKind or CopyKind
  uint8_t numbers;  // words that hold the kind's numbers
};
static_assert(std::is_trivially_copyable_v<Stored> && sizeof(Stored) % sizeof(uint64_t) == 0);
constexpr size_t kStoredWords = sizeof(Stored) / sizeof(uint64_t);
constexpr size_t kMostNumbers = 4;
constexpr size_t kMostText = 63;  // ebbtide_phase's limit
// Most threads say little, those that train say much.
constexpr size_t kFirstSegmentWords = (4 << 10) / sizeof(uint64_t);
constexpr size_t kSegmentWords = (64 << 10) / sizeof(uint64_t);

size_t WordsFor(size_t bytes) { return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t); }

size_t WordsOf(const Stored& stored) {
  const size_t bytes =
      stored.kind == RecordKind::kPhase ? stored.count : stored.count * sizeof(uint32_t);
  return kStoredWords + stored.numbers + WordsFor(bytes);
}

Stored Store(const EventRecord& event, uint64_t (&numbers)[kMostNumbers]) {
  Stored stored{};
  stored.id = event.block;
  stored.count = static_cast<uint32_t>(event.touched.size());
  stored.stream = event.stream;
  stored.device = event.device;
  stored.kind = event.kind;
  const auto keep = [&](uint64_t number) { numbers[stored.numbers++] = number; };
  switch (event.kind) {
    case RecordKind::kAlloc:
      stored.detail = static_cast<uint8_t>(event.alloc);
      keep(event.bytes);
      keep(event.site);
      keep(event.fingerprint);
      keep(event.address);
      break;
    case RecordKind::kLaunch:
      stored.id = event.function;
      keep(event.shape);
      keep(event.bytes);  // how many launches it stands for, behind a recording
      break;
    case RecordKind::kGraph:
      stored.id = event.function;
      break;
    case RecordKind::kCopy:
      stored.detail = static_cast<uint8_t>(event.copy);
      keep(event.bytes);
      break;
    case RecordKind::kFailed:
      stored.detail = static_cast<uint8_t>(event.copy);
      keep(event.bytes);
      keep(event.shape);
      keep(event.fingerprint);
      keep(event.address);
      break;
    case RecordKind::kPhase:
      stored.count = static_cast<uint32_t>(std::min(event.phase.size(), kMostText));
      break;
    default:
      break;
  }
  return stored;
}

// `behind`: what follows it in the buffer.
EventRecord Restore(const Stored& stored, const uint64_t* behind) {
  EventRecord event;
  event.sequence = stored.sequence;
  event.kind = stored.kind;
  event.stream = stored.stream;
  event.device = stored.device;
  const uint64_t* const variable = behind + stored.numbers;
  if (stored.kind == RecordKind::kPhase) {
    event.phase = {reinterpret_cast<const char*>(variable), stored.count};
    return event;
  }
  event.touched = {reinterpret_cast<const uint32_t*>(variable), stored.count};
  switch (stored.kind) {
    case RecordKind::kAlloc:
      event.block = stored.id;
      event.alloc = static_cast<profile::AllocKind>(stored.detail);
      event.bytes = behind[0];
      event.site = behind[1];
      event.fingerprint = behind[2];
      event.address = behind[3];
      break;
    case RecordKind::kLaunch:
      event.function = stored.id;
      event.shape = behind[0];
      event.bytes = behind[1];
      break;
    case RecordKind::kGraph:
      event.function = stored.id;
      break;
    case RecordKind::kCopy:
      event.copy = static_cast<profile::CopyKind>(stored.detail);
      event.bytes = behind[0];
      break;
    case RecordKind::kFailed:
      event.copy = static_cast<profile::CopyKind>(stored.detail);
      event.bytes = behind[0];
      event.shape = behind[1];
      event.fingerprint = behind[2];
      event.address = behind[3];
      break;
    default:
      event.block = stored.id;
      break;
  }
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
  uint64_t numbers[kMostNumbers];
  Stored stored = Store(event, numbers);
  const size_t words = WordsOf(stored);
  std::lock_guard lock(mutex_);
  Segment& segment = SegmentFor(words, in_flight);
  uint64_t* to = &segment.words[segment.used];
  stored.sequence = sequence.fetch_add(1);
  memcpy(to, &stored, sizeof(stored));
  to += kStoredWords;
  memcpy(to, numbers, stored.numbers * sizeof(uint64_t));
  to += stored.numbers;
  if (stored.kind == RecordKind::kPhase) {
    memcpy(to, event.phase.data(), stored.count);
  } else if (stored.count > 0) {
    memcpy(to, event.touched.data(), stored.count * sizeof(uint32_t));
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
  word_ += WordsOf(stored);
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

void EventBuffers::Release() {
  size_t released = 0;
  for (const std::shared_ptr<ThreadBuffer>& buffer : drained_) released += buffer->Release();
  in_flight_.fetch_sub(released, std::memory_order_relaxed);
}

bool EventBuffers::Drain(std::vector<EventRecord>& events) {
  events.clear();
  Release();
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
