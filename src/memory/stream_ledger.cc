#include "src/memory/stream_ledger.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace ebt::memory {
namespace {

// Never the same twice in a process, so that what a thread remembers of one ledger cannot be
// taken for another's.
uint64_t NextGeneration() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// A number for the calling thread that no other thread ever has.
uint64_t ThreadNumber() {
  static std::atomic<uint64_t> next{1};
  thread_local const uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

// The tags of `pieces` other than `own`, each once.
std::vector<StreamTag> TagsOf(const std::vector<Piece>& pieces, StreamTag own) {
  std::vector<StreamTag> tags;
  for (const Piece& piece : pieces) {
    if (piece.tag == kIdle || piece.tag == own) continue;
    if (std::find(tags.begin(), tags.end(), piece.tag) == tags.end()) tags.push_back(piece.tag);
  }
  return tags;
}

}  // namespace

StreamLedger::StreamLedger(const DriverApi& driver)
    : driver_(driver), generation_(NextGeneration()) {}

StreamTag StreamLedger::TagOf(CUstream stream) {
  // A job allocates on one stream thousands of times in a row.
  thread_local struct {
    uint64_t generation = 0;
    CUstream stream = nullptr;
    StreamTag tag = kIdle;
  } last;
  const uint64_t generation = generation_.load(std::memory_order_acquire);
  if (last.generation == generation && last.stream == stream) return last.tag;
  const bool per_thread = stream == CU_STREAM_PER_THREAD;
  const std::pair<CUstream, uint64_t> key = {stream == CU_STREAM_LEGACY ? nullptr : stream,
                                             per_thread ? ThreadNumber() : 0};
  MutexLock lock(&mutex_);
  auto [at, fresh] = tags_.try_emplace(key, static_cast<StreamTag>(entries_.size()));
  if (fresh) entries_.push_back({key.first, !per_thread});
  last = {generation, stream, at->second};
  return at->second;
}

StreamTag StreamLedger::TagOfEvent(CUevent event, EventWait wait) {
  MutexLock lock(&mutex_);
  entries_.push_back({nullptr, /*nameable=*/false, event, /*lost=*/false, std::move(wait)});
  return static_cast<StreamTag>(entries_.size() - 1);
}

void StreamLedger::EventDone(StreamTag tag) {
  MutexLock lock(&mutex_);
  entries_[tag].event = nullptr;
  entries_[tag].wait = nullptr;
}

StreamLedger::EventWait StreamLedger::WaitOf(StreamTag tag) {
  MutexLock lock(&mutex_);
  return entries_[tag].wait;
}

CUresult StreamLedger::RecordInto(StreamTag tag, CUstream stream) {
  CUevent event = nullptr;
  {
    MutexLock lock(&mutex_);
    event = entries_[tag].event;
  }
  if (!event) {
    const CUresult created = driver_.fn_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (created != CUDA_SUCCESS) return created;
    MutexLock lock(&mutex_);
    entries_[tag].event = event;
  }
  return driver_.fn_cuEventRecord(event, stream);
}

CUresult StreamLedger::Freed(StreamTag tag) {
  {
    MutexLock lock(&mutex_);
    if (tag == kIdle || entries_[tag].nameable) return CUDA_SUCCESS;
  }
  return RecordInto(tag, CU_STREAM_PER_THREAD);
}

bool StreamLedger::Capturing(CUstream stream) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver_.fn_cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUresult StreamLedger::WithEventOf(StreamTag tag, const std::function<CUresult(CUevent)>& use) {
  Entry entry;
  {
    MutexLock lock(&mutex_);
    entry = entries_[tag];
  }
  if (entry.lost) return CUDA_ERROR_INVALID_HANDLE;
  if (!entry.nameable) return entry.event ? use(entry.event) : CUDA_SUCCESS;
  // An event of a capture would draw whoever waits for it into the capture.
  if (Capturing(entry.stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  // What is queued now covers what was queued when the memory was freed. The event may go at
  // once: a wait has taken note of this recording.
  CUevent event = nullptr;
  CUresult result = driver_.fn_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (result != CUDA_SUCCESS) return result;
  result = driver_.fn_cuEventRecord(event, entry.stream);
  if (result == CUDA_SUCCESS) result = use(event);
  driver_.fn_cuEventDestroy_v2(event);
  return result;
}

CUresult StreamLedger::OrderAfter(CUstream stream, const std::vector<Piece>& pieces) {
  for (StreamTag other : TagsOf(pieces, TagOf(stream))) {
    const EventWait wait = WaitOf(other);
    const CUresult result = wait ? wait(stream) : WithEventOf(other, [&](CUevent event) {
      return driver_.fn_cuStreamWaitEvent(stream, event, 0);
    });
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult StreamLedger::WaitFor(const std::vector<Piece>& pieces) {
  for (StreamTag tag : TagsOf(pieces, kIdle)) {
    const CUresult result =
        WithEventOf(tag, [&](CUevent event) { return driver_.fn_cuEventSynchronize(event); });
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

void StreamLedger::StreamDestroyed(CUstream stream) {
  StreamTag tag = kIdle;
  {
    MutexLock lock(&mutex_);
    auto at = tags_.find({stream, 0});
    if (at == tags_.end()) return;
    tag = at->second;
    tags_.erase(at);
    generation_.store(NextGeneration(), std::memory_order_release);
  }
  const CUresult recorded = RecordInto(tag, stream);
  MutexLock lock(&mutex_);
  entries_[tag].nameable = false;
  entries_[tag].lost = recorded != CUDA_SUCCESS;
}

}  // namespace ebt::memory
