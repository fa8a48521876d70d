// What the hooks' side of a recorder and its writer thread share.
#ifndef EBBTIDE_SRC_RECORD_RECORDER_STATE_H_
#define EBBTIDE_SRC_RECORD_RECORDER_STATE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "src/base/live_socket.h"
#include "src/driver/driver_api.h"
#include "src/driver/function_table.h"
#include "src/profile/steps.h"
#include "src/profile/writer.h"
#include "src/record/device_watch.h"
#include "src/record/event_buffers.h"
#include "src/record/gpu_clock.h"
#include "src/record/live_blocks.h"
#include "src/record/number_table.h"
#include "src/record/recorder.h"

namespace ebt::record {

// What stands for a site where an unwind would be too dear. fingerprint: not 0.
inline uint64_t SiteKey(uint64_t fingerprint, uint64_t bytes) {
  return profile::LaunchSymbol(fingerprint, bytes);
}

struct RecorderState {
  RecorderState(const DriverApi& real, RecorderOptions given, profile::ProfileWriter opened)
      : driver(real), options(std::move(given)), file(std::move(opened)) {}

  // Ends the recording from within; the first reason counts and is logged.
  void TurnOff(const char* reason) noexcept;
  void Wake() noexcept { wake.notify_one(); }

  const DriverApi driver;
  const RecorderOptions options;
  profile::ProfileWriter file;  // the writer thread's, once it runs

  std::atomic<bool> recording{true};
  // The recording is complete; allocations, frees, steps and bare launches still come, for what
  // fills the memory. Set before `recording` falls.
  std::atomic<bool> watching{false};
  std::atomic<bool> closing{false};    // the writer shall finish
  std::atomic<bool> abandoned{false};  // this is the child of a fork
  std::atomic<const char*> stopped_because{nullptr};

  LiveBlocks live;
  FunctionTable functions{driver};
  EventBuffers buffers;
  GpuClock clock{driver, buffers};
  DeviceWatch watch{driver};
  NumberTable streams{1, 0xffff};
  NumberTable graphs{0, 0xffffffff};
  std::atomic<uint32_t> next_block{0};
  std::atomic<int> waits{0};                    // of threads for room in the buffers
  std::atomic<int> captures{0};                 // of streams, begun and not ended
  std::atomic<uint64_t> context_generation{1};  // changes when a context goes
  std::atomic<CUstream> last_launch_stream{nullptr};
  std::atomic<bool> launched{false};

  // In the child of a fork, itself: locks may be held for good there, so it is never destroyed.
  std::shared_ptr<RecorderState> self;

  // The writer holds it while it is in the driver, ContextGone while it drops a context.
  std::mutex driver_mutex;

  // Sites by SiteKey, as far as the recording has always seen the same one; 0: it has not. Written
  // before `recording` falls, and read behind that.
  absl::flat_hash_map<uint64_t, uint64_t> known_sites;
  std::atomic<uint32_t> bare_launches{0};  // that no event has told yet

  LiveSocket live_socket;  // the writer thread's
  std::atomic<uint64_t> refusals{0};
  std::atomic<int64_t> telling_us{0};  // that threads waited for their refusals' files

  std::mutex kept_mutex;
  absl::flat_hash_set<uint32_t> kept;  // blocks that have been told to be

  std::mutex mutex;  // of what follows
  std::condition_variable wake, done, told;
  bool finished = false;
  uint64_t refusals_told = 0;  // by the writer, in files or not
};

}  // namespace ebt::record

#endif  // EBBTIDE_SRC_RECORD_RECORDER_STATE_H_
