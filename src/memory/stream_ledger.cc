#include "src/memory/stream_ledger.h"

#include <atomic>

namespace ebt::memory {
namespace {

// A number for the calling thread that no other thread ever has.
uint64_t ThreadNumber() {
  static std::atomic<uint64_t> next{1};
  thread_local const uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace

StreamTag StreamLedger::TagOf(CUstream stream) {
  const bool per_thread = stream == CU_STREAM_PER_THREAD;
  const std::pair<CUstream, uint64_t> key = {stream == CU_STREAM_LEGACY ? nullptr : stream,
                                             per_thread ? ThreadNumber() : 0};
  absl::MutexLock lock(&mutex_);
  auto [at, fresh] = tags_.try_emplace(key, static_cast<StreamTag>(entries_.size()));
  if (fresh) entries_.push_back({key.first, !per_thread, nullptr});
  return at->second;
}

CUresult StreamLedger::RecordInto(StreamTag tag, CUstream stream) {
  CUevent event = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    event = entries_[tag].event;
  }
  if (!event) {
    const CUresult created = driver_.fn_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (created != CUDA_SUCCESS) return created;
    absl::MutexLock lock(&mutex_);
    entries_[tag].event = event;
  }
  return driver_.fn_cuEventRecord(event, stream);
}

CUresult StreamLedger::Freed(StreamTag tag) {
  {
    absl::MutexLock lock(&mutex_);
    if (tag == kIdle || entries_[tag].nameable) return CUDA_SUCCESS;
  }
  return RecordInto(tag, CU_STREAM_PER_THREAD);
}

CUresult StreamLedger::OrderAfter(CUstream stream, const std::vector<Piece>& pieces) {
  const StreamTag own = TagOf(stream);
  std::vector<StreamTag> others;
  for (const Piece& piece : pieces) {
    if (piece.tag == kIdle || piece.tag == own) continue;
    bool known = false;
    for (StreamTag other : others) known |= other == piece.tag;
    if (!known) others.push_back(piece.tag);
  }
  for (StreamTag other : others) {
    Entry entry;
    {
      absl::MutexLock lock(&mutex_);
      entry = entries_[other];
    }
    CUresult result = CUDA_SUCCESS;
    CUevent event = entry.event;
    if (entry.nameable) {
      // What is queued now covers what was queued when the memory was freed. The event may go
      // at once: the wait has taken note of this recording.
      result = driver_.fn_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
      if (result == CUDA_SUCCESS) result = driver_.fn_cuEventRecord(event, entry.stream);
    }
    if (result == CUDA_SUCCESS && event) result = driver_.fn_cuStreamWaitEvent(stream, event, 0);
    if (entry.nameable && event) driver_.fn_cuEventDestroy_v2(event);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

void StreamLedger::StreamDestroyed(CUstream stream) {
  StreamTag tag = kIdle;
  {
    absl::MutexLock lock(&mutex_);
    auto at = tags_.find({stream, 0});
    if (at == tags_.end()) return;
    tag = at->second;
    tags_.erase(at);
  }
  RecordInto(tag, stream);
  absl::MutexLock lock(&mutex_);
  entries_[tag].nameable = false;
}

}  // namespace ebt::memory
