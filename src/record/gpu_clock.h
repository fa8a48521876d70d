// The GPU's own time along the recording: a CUDA event every so many launches, read back by the
// writer thread once the GPU has passed it.
#ifndef EBBTIDE_SRC_RECORD_GPU_CLOCK_H_
#define EBBTIDE_SRC_RECORD_GPU_CLOCK_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "src/driver/driver_api.h"
#include "src/driver/relaxed_capture.h"
#include "src/record/event_buffers.h"

namespace ebt::record {

// Thread-safe. After the driver's first error, other than that a stream belongs to another
// context, nothing more is recorded.
class GpuClock {
 public:
  GpuClock(const DriverApi& driver, EventBuffers& buffers);

  // Counts a launch; true at the first and then at every kLaunchesPerMark-th.
  bool Due() { return launches_.fetch_add(1, std::memory_order_relaxed) % kLaunchesPerMark == 0; }
  // Records a mark on `stream`, in the context that is current, unless the stream is capturing.
  // number: the stream's number in the profile.
  void Record(CUstream stream, uint16_t number);

  // Appends the marks that the GPU has passed, as events with the sequence number of where they
  // were recorded. Times are in ms since the first mark of the same context. Changes the calling
  // thread's current context; the caller keeps contexts from going away meanwhile.
  void Poll(std::vector<EventRecord>& marks);

  // Forgets the marks of a context that is about to go, of all when it is NULL.
  void ContextGone(CUcontext context);

  // Marks that the GPU has not reached, or nobody has asked about yet.
  size_t waiting();

 private:
  struct Mark {
    uint64_t sequence = 0;
    CUcontext context = nullptr;
    CUevent event = nullptr;
    uint16_t stream = 0;
  };
  // Times are differences to a base event. A difference is a float of milliseconds, which
  // resolves a microsecond up to ten seconds or so, so the base moves along.
  struct ContextClock {
    CUcontext context = nullptr;
    CUevent base = nullptr;
    double base_ms = 0;
  };
  struct Spare {
    CUcontext context = nullptr;
    CUevent event = nullptr;
  };

  static constexpr uint64_t kLaunchesPerMark = 64;
  static constexpr size_t kMostWaiting = 4096;
  static constexpr float kBaseMs = 10000;

  CUevent SpareEvent(CUcontext context);
  void Stop(const char* call, CUresult result);
  bool Read(const Mark& mark, double& gpu_ms);
  ContextClock& ClockOf(CUcontext context);

  const DriverApi& driver_;
  EventBuffers& buffers_;
  std::atomic<bool> works_;
  std::atomic<uint64_t> launches_{0};
  std::mutex mutex_;  // never held around a call of the driver
  std::vector<Mark> waiting_;
  std::vector<Spare> spare_;
  std::vector<ContextClock> clocks_;  // of Poll and ContextGone, which exclude each other
};

}  // namespace ebt::record

#endif  // EBBTIDE_SRC_RECORD_GPU_CLOCK_H_
