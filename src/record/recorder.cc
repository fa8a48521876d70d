#include "src/record/recorder.h"

#include <signal.h>
#include <time.h>

#include <array>
#include <chrono>
#include <system_error>
#include <utility>

#include "src/base/log.h"
#include "src/driver/current_context.h"
#include "src/record/following.h"
#include "src/record/launch_scan.h"
#include "src/record/memory_watch.h"
#include "src/record/recorder_state.h"
#include "src/record/writer_thread.h"

namespace ebt::record {
namespace {

using std::chrono::milliseconds;

constexpr size_t kWakeBytes = 256 << 10;  // a buffer this full does not wait for the next round
constexpr int kMostWaits = 1000;  // of a millisecond, all threads and the whole recording together
constexpr auto kLongestClose = milliseconds(2000);
constexpr size_t kMostKept = 1 << 16;  // blocks that are remembered as told

uint16_t StreamNumber(RecorderState& state, const ThreadBuffer& buffer, CUstream stream) {
  if (stream == nullptr || stream == CU_STREAM_LEGACY) return 0;
  auto handle = reinterpret_cast<uint64_t>(stream);
  // One handle, but a stream of its own in each thread. Real handles are aligned pointers, so no
  // other one is equal to this.
  if (stream == CU_STREAM_PER_THREAD) handle |= uint64_t{buffer.number()} << 8;
  return static_cast<uint16_t>(state.streams.Find(handle));
}

// Waits until there is room again. The lock of no buffer is held here.
void WaitForRoom(RecorderState& state) {
  while (Following(state) && state.buffers.in_flight() > state.options.max_bytes_in_flight) {
    if (state.waits.fetch_add(1, std::memory_order_relaxed) >= kMostWaits) {
      return state.TurnOff("the profile's disk cannot keep up with the events");
    }
    state.Wake();
    const timespec millisecond{.tv_sec = 0, .tv_nsec = 1000000};
    nanosleep(&millisecond, nullptr);
  }
}

void Push(RecorderState& state, ThreadBuffer& buffer, const EventRecord& event) {
  if (state.buffers.Append(buffer, event) > kWakeBytes) state.Wake();
  if (state.buffers.in_flight() > state.options.max_bytes_in_flight) WaitForRoom(state);
}

struct Place {
  CUcontext context = nullptr;
  CUdevice device = 0;
};

// The device of the current context, asked once a thread and context.
Place CurrentPlace(RecorderState& state, ThreadBuffer& buffer) {
  Place place;
  const DriverApi& driver = state.driver;
  if (driver.fn_cuCtxGetCurrent == nullptr ||
      driver.fn_cuCtxGetCurrent(&place.context) != CUDA_SUCCESS || place.context == nullptr) {
    return {};
  }
  ThreadBuffer::Scratch* scratch = buffer.scratch();
  const uint64_t generation = state.context_generation.load(std::memory_order_relaxed);
  if (scratch != nullptr && scratch->context == place.context &&
      scratch->context_generation == generation) {
    place.device = scratch->device;
    return place;
  }
  if (driver.fn_cuCtxGetDevice == nullptr ||
      driver.fn_cuCtxGetDevice(&place.device) != CUDA_SUCCESS) {
    return {};
  }
  if (scratch != nullptr) {
    scratch->context = place.context;
    scratch->context_generation = generation;
    scratch->device = place.device;
  }
  return place;
}

void PushFrees(RecorderState& state, ThreadBuffer& buffer, const std::vector<uint32_t>& blocks) {
  for (const uint32_t block : blocks) {
    Push(state, buffer, {.kind = RecordKind::kFree, .block = block});
  }
}

// Says of each block that it is kept, and hardly ever twice.
void PushKept(RecorderState& state, ThreadBuffer& buffer, const std::vector<uint32_t>& blocks) {
  for (const uint32_t block : blocks) {
    {
      std::lock_guard lock(state.kept_mutex);
      if (state.kept.size() >= kMostKept) state.kept.clear();
      if (!state.kept.insert(block).second) continue;
    }
    Push(state, buffer, {.kind = RecordKind::kKept, .block = block});
  }
}

// Whoever makes a node may be in no context, where a function tells nothing of its parameters.
const FunctionLayout* FindAnywhere(RecorderState& state, void* function) {
  const DriverApi& driver = state.driver;
  CUcontext current = nullptr;
  if (driver.fn_cuCtxSetCurrent == nullptr || driver.fn_cuCtxGetCurrent == nullptr ||
      driver.fn_cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != nullptr) {
    return state.functions.Find(function);
  }
  const CurrentContext before(driver, state.watch.context());
  return state.functions.Find(function);
}

// Work on the stream goes into a graph.
bool Captured(RecorderState& state, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return state.captures.load(std::memory_order_relaxed) > 0 &&
         state.driver.fn_cuStreamIsCapturing != nullptr &&
         state.driver.fn_cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

void FindNamed(const RecorderState& state, const ebt_copy& copy, std::vector<uint32_t>& touched) {
  std::array<uint64_t, 2> words;
  size_t count = 0;
  // A copy of no bytes touches nothing, wherever it points.
  if (copy.dst_span > 0 && state.live.MayContain(copy.dst)) words[count++] = copy.dst;
  if (copy.src_span > 0 && state.live.MayContain(copy.src)) words[count++] = copy.src;
  touched.clear();
  state.live.Find({words.data(), count}, touched);
  if (touched.size() == 2 && touched[0] == touched[1]) touched.pop_back();
}

// Threads launch side by side: a line that all of them read is written where something changes.
void NoteLaunchOn(RecorderState& state, CUstream stream) {
  if (state.last_launch_stream.load(std::memory_order_relaxed) != stream)
    state.last_launch_stream.store(stream, std::memory_order_relaxed);
  if (!state.launched.load(std::memory_order_relaxed))
    state.launched.store(true, std::memory_order_relaxed);
}

// Of launches that nobody looked at.
void PushBareLaunches(RecorderState& state, ThreadBuffer& buffer, uint32_t launches) {
  if (launches > 0) Push(state, buffer, {.kind = RecordKind::kLaunch, .bytes = launches});
}

void RecordMark(RecorderState& state, ThreadBuffer& buffer, CUstream stream) {
  state.clock.Record(stream, StreamNumber(state, buffer, stream));
}

}  // namespace

void RecorderState::TurnOff(const char* reason) noexcept {
  const bool recorded = recording.exchange(false);
  if (!watching.exchange(false) && !recorded) return;
  closing = true;
  if (recorded) {
    stopped_because = reason;
    Log(LogLevel::kWarning, "recording stopped: {}; {} keeps what came before", reason,
        file.path());
  } else {
    Log(LogLevel::kWarning, "refused allocations are no longer looked at: {}", reason);
  }
  Wake();
}

Recorder::Recorder(std::shared_ptr<RecorderState> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<Recorder>> Recorder::Create(const DriverApi& driver,
                                                           RecorderOptions options) {
  absl::StatusOr<profile::ProfileWriter> file = profile::ProfileWriter::OpenBeside(options.path);
  if (!file.ok()) return file.status();
  if (file->path() != options.path) {
    Log(LogLevel::kWarning, "{} is there already and stays: this process's profile is {}",
        options.path, file->path());
  }
  auto state = std::make_shared<RecorderState>(driver, std::move(options), *std::move(file));
  std::unique_ptr<Recorder> recorder(new Recorder(state));
  // The application's signals are for the application's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status status;
  try {
    recorder->thread_ = std::make_unique<std::thread>([state] { WriterThread(*state).Run(); });
  } catch (const std::system_error& error) {
    state->recording = false;
    status = absl::ResourceExhaustedError(state->options.path +
                                          ": no thread can be started to write the profile (" +
                                          error.what() + "): raise the limit on threads");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!status.ok()) return status;
  return recorder;
}

Recorder::~Recorder() { Close(); }

// While recording.
template <typename Body>
void Recorder::Take(Body&& body) noexcept {
  if (Recording(*state_)) Shielded(body);
}

// Also when allocations alone are followed.
template <typename Body>
void Recorder::Follow(Body&& body) noexcept {
  if (Following(*state_)) Shielded(body);
}

template <typename Body>
void Recorder::Shielded(Body&& body) noexcept {
  try {
    body(*state_, state_->buffers.OfThisThread());
  } catch (...) {
    state_->TurnOff("no memory for the next event");
  }
}

void Recorder::Allocated(const ebt_alloc& request, CUdeviceptr ptr) noexcept {
  Follow([&](RecorderState& state, ThreadBuffer& buffer) {
    const Place place = CurrentPlace(state, buffer);
    state.watch.Allocated(request, place.context, place.device);
    const uint32_t block = state.next_block.fetch_add(1, std::memory_order_relaxed);
    std::vector<uint32_t> stale;
    if (request.kind == EBT_ALLOC_VMM) {
      state.live.AddHandle(ptr, block, place.context, stale);
    } else {
      state.live.Add(ptr, request.bytes, block, place.context, stale);
    }
    PushFrees(state, buffer, stale);
    const Origin origin = OriginOf(state, request.bytes);
    Push(state, buffer,
         {.kind = RecordKind::kAlloc,
          .alloc = static_cast<profile::AllocKind>(request.kind),
          .device = static_cast<uint16_t>(place.device),
          .stream = StreamNumber(state, buffer, request.stream),
          .block = block,
          .bytes = request.bytes,
          .site = origin.site,
          .fingerprint = origin.fingerprint,
          .address = ptr});
  });
}

void Recorder::Refused(const ebt_alloc& request, CUresult result) noexcept {
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return;
  Follow([&](RecorderState& state, ThreadBuffer& buffer) {
    const Place place = CurrentPlace(state, buffer);
    if (!Recording(state)) PushBareLaunches(state, buffer, TakeBareLaunches(state));
    Push(state, buffer,
         RefusalEvent(state, request, StreamNumber(state, buffer, request.stream), place.device));
    AwaitTold(state);
  });
}

void Recorder::Freed(CUdeviceptr ptr, CUstream stream, bool ordered) noexcept {
  Follow([&](RecorderState& state, ThreadBuffer& buffer) {
    uint32_t block = 0;
    if (!state.live.Remove(ptr, block)) return;
    const uint16_t number = ordered ? StreamNumber(state, buffer, stream) : uint16_t{0};
    Push(state, buffer, {.kind = RecordKind::kFree, .stream = number, .block = block});
  });
}

void Recorder::Launched(const ebt_launch& launch) noexcept {
  Follow([&](RecorderState& state, ThreadBuffer& buffer) {
    if (!Recording(state)) return PushBareLaunches(state, buffer, CountBareLaunch(state));
    const FunctionLayout* layout = state.functions.Find(launch.function);
    if (layout == nullptr) return;
    std::vector<uint32_t> own;
    ThreadBuffer::Scratch* scratch = buffer.scratch();
    std::vector<uint32_t>& touched = scratch != nullptr ? scratch->touched : own;
    ScanLaunch(launch, *layout, state.live, touched);
    if (Captured(state, launch.stream)) PushKept(state, buffer, touched);
    if (state.clock.Due()) RecordMark(state, buffer, launch.stream);
    NoteLaunchOn(state, launch.stream);
    Push(state, buffer,
         {.kind = RecordKind::kLaunch,
          .stream = StreamNumber(state, buffer, launch.stream),
          .function = layout->id,
          .shape = LaunchShape(launch),
          .touched = touched});
  });
}

void Recorder::Copied(const ebt_copy& copy) noexcept {
  Take([&](RecorderState& state, ThreadBuffer& buffer) {
    std::vector<uint32_t> own;
    ThreadBuffer::Scratch* scratch = buffer.scratch();
    std::vector<uint32_t>& touched = scratch != nullptr ? scratch->touched : own;
    FindNamed(state, copy, touched);
    if (Captured(state, copy.stream)) PushKept(state, buffer, touched);
    Push(state, buffer,
         {.kind = RecordKind::kCopy,
          .copy = static_cast<profile::CopyKind>(copy.kind),
          .stream = StreamNumber(state, buffer, copy.stream),
          .bytes = copy.bytes,
          .touched = touched});
  });
}

void Recorder::Marked(int what, const char* name) noexcept {
  Follow([&](RecorderState& state, ThreadBuffer& buffer) {
    const bool recording = Recording(state);
    if (what == EBT_MARK_PHASE) {
      if (name != nullptr && recording)
        Push(state, buffer, {.kind = RecordKind::kPhase, .phase = name});
      return;
    }
    if (!recording) PushBareLaunches(state, buffer, TakeBareLaunches(state));
    if (recording && state.launched.load(std::memory_order_relaxed)) {
      RecordMark(state, buffer, state.last_launch_stream.load(std::memory_order_relaxed));
    }
    Push(state, buffer, {.kind = RecordKind::kStep});
  });
}

void Recorder::Exported(CUdeviceptr ptr) noexcept {
  Take([&](RecorderState& state, ThreadBuffer& buffer) {
    std::vector<uint32_t> blocks;
    const uint64_t word = ptr;
    state.live.Find({&word, 1}, blocks);
    for (const uint32_t block : blocks) {
      Push(state, buffer, {.kind = RecordKind::kExported, .block = block});
    }
  });
}

void Recorder::Kept(CUdeviceptr ptr) noexcept {
  Take([&](RecorderState& state, ThreadBuffer& buffer) {
    std::vector<uint32_t> blocks;
    const uint64_t word = ptr;
    if (state.live.MayContain(word)) state.live.Find({&word, 1}, blocks);
    PushKept(state, buffer, blocks);
  });
}

void Recorder::Kept(const ebt_launch& launch) noexcept {
  Take([&](RecorderState& state, ThreadBuffer& buffer) {
    const FunctionLayout* layout = FindAnywhere(state, launch.function);
    if (layout == nullptr) return;
    std::vector<uint32_t> blocks;
    ScanLaunch(launch, *layout, state.live, blocks);
    PushKept(state, buffer, blocks);
  });
}

void Recorder::Kept(const ebt_copy& copy) noexcept {
  Take([&](RecorderState& state, ThreadBuffer& buffer) {
    std::vector<uint32_t> blocks;
    FindNamed(state, copy, blocks);
    PushKept(state, buffer, blocks);
  });
}

void Recorder::CaptureBegun() noexcept { state_->captures.fetch_add(1, std::memory_order_relaxed); }

void Recorder::CaptureEnded() noexcept {
  int captures = state_->captures.load(std::memory_order_relaxed);
  while (captures > 0 && !state_->captures.compare_exchange_weak(captures, captures - 1)) {
  }
}

void Recorder::GraphLaunched(void* exec, CUstream stream) noexcept {
  Follow([&](RecorderState& state, ThreadBuffer& buffer) {
    if (!Recording(state)) return PushBareLaunches(state, buffer, CountBareLaunch(state));
    if (stream != nullptr && state.clock.Due()) RecordMark(state, buffer, stream);
    Push(state, buffer,
         {.kind = RecordKind::kGraph,
          .stream = StreamNumber(state, buffer, stream),
          .function = state.graphs.Find(reinterpret_cast<uint64_t>(exec))});
  });
}

void Recorder::StreamDestroyed(CUstream stream) noexcept {
  Follow([&](RecorderState& state, ThreadBuffer&) {
    state.streams.Forget(reinterpret_cast<uint64_t>(stream));
    // A step is marked on the last launch's stream. Falling back to the legacy one would make
    // streams wait for each other that did not before.
    if (state.last_launch_stream.load(std::memory_order_relaxed) == stream) {
      state.launched.store(false, std::memory_order_relaxed);
    }
  });
}

void Recorder::ContextGone(CUcontext context) noexcept {
  ContextMayEnd();
  LeaveContext(context);
  ContextMayHaveEnded(nullptr);
  FreeBlocksOf(context);
}

void Recorder::ContextMayEnd() noexcept {
  if (!state_->abandoned.load(std::memory_order_relaxed)) state_->driver_mutex.lock();
}

void Recorder::ContextMayHaveEnded(CUcontext ended) noexcept {
  if (state_->abandoned.load(std::memory_order_relaxed)) return;
  if (ended != nullptr) LeaveContext(ended);
  state_->driver_mutex.unlock();
  if (ended != nullptr) FreeBlocksOf(ended);
}

void Recorder::LeaveContext(CUcontext context) noexcept {
  if (state_->abandoned.load(std::memory_order_relaxed)) return;
  state_->clock.ContextGone(context);
  state_->watch.ContextGone(context);
  state_->context_generation.fetch_add(1, std::memory_order_relaxed);
  state_->launched.store(false, std::memory_order_relaxed);
}

// Not while the writer is held: events may have to wait for it.
void Recorder::FreeBlocksOf(CUcontext context) noexcept {
  if (state_->abandoned.load(std::memory_order_relaxed)) return;
  Follow([&](RecorderState& state, ThreadBuffer& buffer) {
    std::vector<uint32_t> gone;
    state.live.RemoveContext(context, gone);
    PushFrees(state, buffer, gone);
  });
}

void Recorder::Close() noexcept {
  if (state_->abandoned.load(std::memory_order_relaxed) || thread_ == nullptr ||
      !thread_->joinable()) {
    return;
  }
  state_->recording = false;
  state_->watching = false;
  state_->closing = true;
  bool finished = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->Wake();
    finished = state_->done.wait_until(lock, std::chrono::system_clock::now() + kLongestClose,
                                       [&] { return state_->finished; });
  }
  // The writer itself may be who ends the process, as its last thread.
  if (finished && thread_->get_id() != std::this_thread::get_id()) return thread_->join();
  if (finished) return thread_->detach();
  Log(LogLevel::kWarning, "{} could not be finished in time: it reads up to its last flush",
      state_->file.path());
  thread_->detach();
}

void Recorder::AfterFork() noexcept {
  state_->recording = false;
  state_->watching = false;
  state_->abandoned = true;
  state_->live_socket.Close();
  state_->file.AbandonAfterFork();
  // The thread exists in the parent alone: its handle can be neither joined nor detached here.
  static_cast<void>(thread_.release());
  state_->self = state_;
}

bool Recorder::recording() const noexcept {
  return state_->recording.load(std::memory_order_relaxed);
}

uint64_t Recorder::events() const noexcept { return state_->buffers.sequence(); }

}  // namespace ebt::record
