// Records what a process allocates, launches and copies into a profile.
#ifndef EBBTIDE_SRC_RECORD_RECORDER_H_
#define EBBTIDE_SRC_RECORD_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "hooks/core_api.h"
#include "src/callsite/callsite.h"
#include "src/driver/driver_api.h"

namespace ebt::record {

struct RecorderState;

struct RecorderOptions {
  std::string path;  // of the profile; placeholders already filled in
  // Whole steps to see before the profile is closed by itself; 0: record to the end.
  uint64_t stop_after_steps = 0;
  // Added to, and winning over, what the recorder finds out itself.
  std::map<std::string, std::string> metadata;
  // The calling thread's re-entrancy guard; the recorder's own thread sets its to 1 for good.
  int* (*guard)() = nullptr;
  // Memory of events that are not written yet, all threads together. Above it a recording thread
  // waits, and once they have waited a second in all the recorder turns itself off with one line.
  // The writer needs 16 MiB on top, however many events there are, and 16 bytes a launch (up to
  // 80 MiB) while it looks for steps; what is known of live blocks, sites and functions stays.
  size_t max_bytes_in_flight = size_t{64} << 20;
  // EBBTIDE_DUMP, placeholders filled in: where it goes what fills the memory, see
  // snapshot_files.h.
  // kNoDump: nowhere, and allocations are not followed behind a complete recording.
  std::string dump_path;
  // What says where an allocation comes from; tests put their own.
  uint64_t (*site)() noexcept = callsite::Capture;
  uint64_t (*fingerprint)() noexcept = callsite::Fingerprint;
};

// The functions named after hooks are called from inside them: thread-safe, they never throw,
// never fail and hold no lock while the driver is called. Once recording() is false they return
// at once; but where that is because the wanted steps are complete, allocations go on being
// followed, with their sites. What goes wrong (full disk, a writer that cannot keep up, no memory)
// is said in one line and ends the recording; the profile keeps what it had.
//
// A refused allocation leaves a file that says what filled the memory (profile::SnapshotFiles), and
// any process of the user can ask for the same (LiveSocket, DumpSignalCame).
class Recorder {
 public:
  // Opens the profile and starts the writer thread. `driver` is copied. A file that is there
  // already stays: the profile then gets a name beside it and one line says so. Fails when the
  // path cannot be written.
  static absl::StatusOr<std::unique_ptr<Recorder>> Create(const DriverApi& driver,
                                                          RecorderOptions options);
  ~Recorder();  // Close

  void Allocated(const ebt_alloc& request, CUdeviceptr ptr) noexcept;  // after the driver's call
  // After the driver's call. Waits until the file is there, for the program may not live long: a
  // fifth of a second at most, and a quarter in all threads and the whole recording together.
  void Refused(const ebt_alloc& request, CUresult result) noexcept;
  void Freed(CUdeviceptr ptr, CUstream stream, bool ordered) noexcept;  // before it
  void Launched(const ebt_launch& launch) noexcept;                     // before it
  void Copied(const ebt_copy& copy) noexcept;                           // before it
  void Marked(int what, const char* name) noexcept;                     // enum ebt_mark
  void Exported(CUdeviceptr ptr) noexcept;
  // Work that is not told may use what is named: a graph will, or something opaque names it.
  void Kept(CUdeviceptr ptr) noexcept;
  void Kept(const ebt_launch& launch) noexcept;
  void Kept(const ebt_copy& copy) noexcept;
  void CaptureBegun() noexcept;
  void CaptureEnded() noexcept;  // also where none had begun
  // Before the driver's call. stream: NULL where it is not known.
  void GraphLaunched(void* exec, CUstream stream = nullptr) noexcept;
  void StreamDestroyed(CUstream stream) noexcept;  // before the driver's call
  // Before a context goes: its blocks end here. NULL: every context's do. Waits until the writer
  // thread has left the driver.
  void ContextGone(CUcontext context = nullptr) noexcept;
  // Around a call that may end a context, by one thread: the writer's thread is kept off the driver
  // in between. ended: what has ended, NULL: nothing.
  void ContextMayEnd() noexcept;
  void ContextMayHaveEnded(CUcontext ended) noexcept;

  // Ends the recording: what waits is written, then the end of the profile. Returns within two
  // seconds; a writer that takes longer is left behind. May be called twice.
  void Close() noexcept;
  // In the child after a fork: the recorder is off, and lets go of the parent's file.
  void AfterFork() noexcept;

  bool recording() const noexcept;
  // Events handed over so far, whether written yet or not.
  uint64_t events() const noexcept;

 private:
  void LeaveContext(CUcontext context) noexcept;
  void FreeBlocksOf(CUcontext context) noexcept;
  explicit Recorder(std::shared_ptr<RecorderState> state);
  template <typename Body>
  void Take(Body&& body) noexcept;
  template <typename Body>
  void Follow(Body&& body) noexcept;
  template <typename Body>
  void Shielded(Body&& body) noexcept;

  std::shared_ptr<RecorderState> state_;  // the writer thread has it too and may outlive us
  std::unique_ptr<std::thread> thread_;
};

}  // namespace ebt::record

#endif  // EBBTIDE_SRC_RECORD_RECORDER_H_
