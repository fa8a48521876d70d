#include "src/tier/mover.h"

#include <algorithm>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/units.h"

namespace ebt::tier {
namespace {

// Measured on an H200: pieces of 1 MiB move at 48 GB/s, of 4 MiB at 53.
constexpr uint64_t kPieceBytes = 4 * kMiB;
// 16 MiB take 300 us, in which a new piece is issued well in time.
constexpr size_t kPiecesInFlight = 4;
constexpr auto kPoll = std::chrono::microseconds(75);
constexpr int64_t kGiveWayNs = 2'000'000;

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mover>> Mover::Create(const DriverApi& driver, int* (*guard)()) {
  CUcontext context = nullptr;
  if (driver.fn_cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
    return absl::FailedPreconditionError("no CUDA context is current");
  std::unique_ptr<Mover> mover(new Mover(driver, guard));
  CUresult result = mover->MakeStreams();
  if (result == CUDA_SUCCESS) result = mover->StartThread(context);
  if (result != CUDA_SUCCESS)
    return absl::UnavailableError(
        absl::StrCat("the thread that copies cannot work: ", ErrorName(driver, result)));
  return mover;
}

CUresult Mover::MakeStreams() {
  for (Lane& lane : lanes_) {
    const CUresult result =
        driver_.fn_cuStreamCreateWithPriority(&lane.stream, CU_STREAM_NON_BLOCKING, 0);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult Mover::StartThread(CUcontext context) {
  try {
    thread_ = std::thread([this, context] { Run(context); });
  } catch (const std::system_error&) {
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  MutexLock lock(&mutex_);
  issued_.wait(mutex_, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return started_; });
  return start_result_;
}

Mover::~Mover() {
  {
    MutexLock lock(&mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  for (Lane& lane : lanes_) {
    if (!lane.stream) continue;
    driver_.fn_cuStreamSynchronize(lane.stream);
    driver_.fn_cuStreamDestroy_v2(lane.stream);
    spare_events_.insert(spare_events_.end(), lane.in_flight.begin(), lane.in_flight.end());
  }
  for (CUevent event : spare_events_) driver_.fn_cuEventDestroy_v2(event);
}

uint64_t Mover::Queue(Direction direction, Copy copy) {
  Lane& lane = lanes_[Index(direction)];
  MutexLock lock(&mutex_);
  const uint64_t ticket = ++lane.queued;
  lane.jobs.push_back({std::move(copy), ticket});
  changed_.notify_one();
  return ticket;
}

void Mover::Flush(Direction direction, uint64_t ticket) {
  if (Issued(direction, ticket)) return;
  Lane& lane = lanes_[Index(direction)];
  MutexLock lock(&mutex_);
  lane.flush_to = std::max(lane.flush_to, ticket);
  changed_.notify_one();
  issued_.wait(mutex_, [this, direction, ticket] { return Issued(direction, ticket); });
}

void Mover::ApplicationCopy() { application_copied_.store(Now(), std::memory_order_relaxed); }

size_t Mover::PiecesAllowed() const {
  const int64_t copied = application_copied_.load(std::memory_order_relaxed);
  return copied != 0 && Now() - copied < kGiveWayNs ? 1 : kPiecesInFlight;
}

void Mover::Run(CUcontext context) {
  *guard_() = 1;
  const CUresult result = driver_.fn_cuCtxSetCurrent(context);
  // Somebody's capture in global mode must not mind our calls.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  driver_.fn_cuThreadExchangeStreamCaptureMode(&mode);
  {
    MutexLock lock(&mutex_);
    started_ = true;
    start_result_ = result;
    issued_.notify_all();
    if (result != CUDA_SUCCESS) return;
  }
  while (true) {
    ForgetPiecesThatAreDone();
    if (Lane* lane = AwaitTurn()) {
      IssuePiece(*lane);
      continue;
    }
    MutexLock lock(&mutex_);
    if (ending_) return;
  }
}

Mover::Lane* Mover::AwaitTurn() {
  MutexLock lock(&mutex_);
  if (ending_) return nullptr;
  bool throttled = false;
  if (Lane* lane = Choose(&throttled)) return lane;
  // Nobody tells us when a piece is done, so that has to be asked; without work we just sleep.
  if (throttled) {
    changed_.wait_for(mutex_, kPoll);
  } else {
    changed_.wait(mutex_);
  }
  return nullptr;
}

Mover::Lane* Mover::Choose(bool* throttled) {
  // Somebody waits for what is to be flushed.
  for (Lane& lane : lanes_)
    if (!lane.jobs.empty() && lane.jobs.front().ticket <= lane.flush_to) return &lane;
  const size_t allowed = PiecesAllowed();
  for (int turn = 0; turn < 2; ++turn) {
    Lane& lane = lanes_[next_lane_];
    next_lane_ = 1 - next_lane_;
    if (lane.jobs.empty()) continue;
    if (lane.in_flight.size() < allowed) return &lane;
    *throttled = true;
  }
  return nullptr;
}

void Mover::ForgetPiecesThatAreDone() {
  for (Lane& lane : lanes_) {
    // A piece counts for as long as the driver says that it is not done; an error is no such
    // word and must not hold the lane up for good.
    while (!lane.in_flight.empty() &&
           driver_.fn_cuEventQuery(lane.in_flight.front()) != CUDA_ERROR_NOT_READY) {
      spare_events_.push_back(lane.in_flight.front());
      lane.in_flight.pop_front();
    }
  }
}

void Mover::IssuePiece(Lane& lane) {
  Job* job = nullptr;
  {
    MutexLock lock(&mutex_);
    job = &lane.jobs.front();  // others only add behind it, which leaves it where it is
  }
  CUresult result = CopyPiece(lane, *job);
  if (result == CUDA_SUCCESS && job->at < job->copy.bytes) return;
  if (result == CUDA_SUCCESS) result = driver_.fn_cuEventRecord(job->copy.done, lane.stream);
  if (job->copy.issued) job->copy.issued(result);
  MutexLock lock(&mutex_);
  lane.issued.store(job->ticket, std::memory_order_release);
  lane.jobs.pop_front();
  issued_.notify_all();
}

CUresult Mover::CopyPiece(Lane& lane, Job& job) {
  CUresult result = CUDA_SUCCESS;
  if (job.at == 0) result = driver_.fn_cuStreamWaitEvent(lane.stream, job.copy.gate, 0);
  if (result != CUDA_SUCCESS) return result;
  const uint64_t piece = std::min(kPieceBytes, job.copy.bytes - job.at);
  result =
      driver_.fn_cuMemcpyAsync(job.copy.dst + job.at, job.copy.src + job.at, piece, lane.stream);
  if (result != CUDA_SUCCESS) return result;
  job.at += piece;
  lane.bytes.fetch_add(piece, std::memory_order_relaxed);
  MarkPiece(lane);
  return CUDA_SUCCESS;
}

void Mover::MarkPiece(Lane& lane) {
  CUevent event = nullptr;
  if (!spare_events_.empty()) {
    event = spare_events_.back();
    spare_events_.pop_back();
  } else if (driver_.fn_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
    return;  // the piece goes uncounted, nothing else
  }
  if (driver_.fn_cuEventRecord(event, lane.stream) == CUDA_SUCCESS) {
    lane.in_flight.push_back(event);
  } else {
    spare_events_.push_back(event);
  }
}

}  // namespace ebt::tier
