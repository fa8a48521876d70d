// What a correct application knows about the order of its own work on several streams.
#ifndef EBBTIDE_TESTS_UNIT_CONFORMANCE_ORDER_H_
#define EBBTIDE_TESTS_UNIT_CONFORMANCE_ORDER_H_

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace ebt::test {

inline constexpr size_t kMostStreams = 4;

// The work that a block's next use may have to wait for.
struct Uses {
  size_t writer = 0;
  uint64_t written = 0;                           // the writer's count; 0: never
  std::array<uint64_t, kMostStreams> reads = {};  // each stream's count since then
};

// Vector clocks: for each stream, how much of every stream's work its next work comes behind. So
// an event is spent only where an application has to, and no order is there by accident.
class StreamOrder {
 public:
  explicit StreamOrder(std::vector<CUstream> streams) : streams_(std::move(streams)) {
    Require(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING));
  }
  ~StreamOrder() { cuEventDestroy(event_); }
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  size_t size() const { return streams_.size(); }
  CUstream At(size_t stream) const { return streams_[stream]; }
  // The first error that the driver gave to the application itself.
  CUresult result() const { return result_; }
  void Require(CUresult result) {
    if (result_ == CUDA_SUCCESS) result_ = result;
  }

  // Before and after work of `stream` that reads.
  void BeforeRead(const Uses& uses, size_t stream) { ComeAfter(stream, uses.writer, uses.written); }
  void AfterRead(Uses& uses, size_t stream) { uses.reads[stream] = Advance(stream); }
  // Before and after work of `stream` that writes, or frees.
  void BeforeWrite(const Uses& uses, size_t stream) {
    BeforeRead(uses, stream);
    for (size_t other = 0; other < size(); ++other) ComeAfter(stream, other, uses.reads[other]);
  }
  void AfterWrite(Uses& uses, size_t stream) {
    uses = {.writer = stream, .written = Advance(stream)};
  }

  // `stream` comes behind all that `other` has queued.
  void Join(size_t stream, size_t other) {
    if (stream == other) return;
    Require(cuEventRecord(event_, streams_[other]));
    Require(cuStreamWaitEvent(streams_[stream], event_, 0));
    Merge(stream, clocks_[other]);
  }
  // What any stream is given from now on comes behind what this one has been given.
  void Synchronize(size_t stream) {
    Require(cuStreamSynchronize(streams_[stream]));
    const Clock done = clocks_[stream];
    for (size_t other = 0; other < size(); ++other) Merge(other, done);
  }
  void SynchronizeAll() {
    for (size_t stream = 0; stream < size(); ++stream) Synchronize(stream);
  }
  // A fresh stream takes the place of this one, whose work may still be under way. It comes behind
  // that; the others do so when they have to.
  void Replace(size_t stream) {
    Require(cuEventRecord(event_, streams_[stream]));
    Require(cuStreamDestroy(streams_[stream]));
    Require(cuStreamCreate(&streams_[stream], CU_STREAM_NON_BLOCKING));
    Require(cuStreamWaitEvent(streams_[stream], event_, 0));
  }

 private:
  using Clock = std::array<uint64_t, kMostStreams>;

  uint64_t Advance(size_t stream) { return ++clocks_[stream][stream]; }
  void Merge(size_t stream, const Clock& other) {
    for (size_t i = 0; i < size(); ++i) clocks_[stream][i] = std::max(clocks_[stream][i], other[i]);
  }
  void ComeAfter(size_t stream, size_t other, uint64_t count) {
    if (clocks_[stream][other] < count) Join(stream, other);
  }

  std::vector<CUstream> streams_;
  std::array<Clock, kMostStreams> clocks_ = {};  // [stream]; its own entry: what it was given
  CUevent event_ = nullptr;
  CUresult result_ = CUDA_SUCCESS;
};

}  // namespace ebt::test

#endif  // EBBTIDE_TESTS_UNIT_CONFORMANCE_ORDER_H_
