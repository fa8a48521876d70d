#include "src/tier/mover.h"

#include <sys/prctl.h>

#include <algorithm>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/own_threads.h"
#include "src/base/units.h"

namespace ebt::tier {
namespace {

// Measured on an H200: pieces of 1 MiB move at 48 GB/s, of 4 MiB at 53.
constexpr uint64_t kCopyPieceBytes = 4 * kMiB;
// A copy engine serves a queue until it is empty, and whatever else needs the engine waits: not
// only copies of the application's but also what its stream does behind one, which may be queued
// much later. So the queue runs empty after so many pieces (300 us), whoever may be waiting.
constexpr size_t kPiecesAtOnce = 4;
// Nobody tells us when it is empty. Soon, where the link costs what is missed; rarely, where the
// pieces wait for their gate.
constexpr auto kPollSoon = std::chrono::microseconds(20),
               kPollRarely = std::chrono::microseconds(100);
constexpr auto kMostPatience = std::chrono::seconds(1);
constexpr auto kSoon = std::chrono::milliseconds(2);

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
  if (ended_) {
    if (copy.issued) copy.issued(CUDA_ERROR_DEINITIALIZED);
    // What a thread that is held up never issued stays so.
    if (lane.jobs.empty()) lane.issued.store(ticket, std::memory_order_release);
    return ticket;
  }
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
  issued_.wait(mutex_, [this, direction, ticket]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return Issued(direction, ticket) || ended_;
  });
}

void Mover::Stop() {
  MutexLock lock(&mutex_);
  for (Lane& lane : lanes_) lane.flush_to = lane.queued;
  stopping_ = true;
  changed_.notify_one();
  // The thread may be held up in the driver for good.
  issued_.wait_for(mutex_, kMostPatience,
                   [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return ended_; });
  ended_ = true;
  issued_.notify_all();
}

void Mover::Run(CUcontext context) {
  *guard_() = 1;
  const OwnThread own;
  // Else every short sleep takes 50 us longer.
  prctl(PR_SET_TIMERSLACK, 1000);
  driver_mutex_.lock();
  const CUresult result = driver_.fn_cuCtxSetCurrent(context);
  // Somebody's capture in global mode must not mind our calls.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  driver_.fn_cuThreadExchangeStreamCaptureMode(&mode);
  driver_mutex_.unlock();
  {
    MutexLock lock(&mutex_);
    started_ = true;
    start_result_ = result;
    issued_.notify_all();
    if (result != CUDA_SUCCESS) return;
  }
  while (true) {
    {
      MutexLock driver(&driver_mutex_);
      LookAround();
    }
    if (Lane* lane = AwaitTurn()) {
      MutexLock driver(&driver_mutex_);
      IssuePiece(*lane);
      continue;
    }
    MutexLock lock(&mutex_);
    if (!ending_ && !ended_ && !(stopping_ && lanes_[0].jobs.empty() && lanes_[1].jobs.empty()))
      continue;
    ended_ = true;
    issued_.notify_all();
    return;
  }
}

Mover::Lane* Mover::AwaitTurn() {
  MutexLock lock(&mutex_);
  if (ending_ || ended_) return nullptr;
  bool throttled = false;
  if (Lane* lane = Choose(&throttled)) return lane;
  if (stopping_) return nullptr;
  if (throttled) {
    const bool soon = std::chrono::steady_clock::now() - progressed_ < kSoon;
    changed_.wait_for(mutex_, soon ? kPollSoon : kPollRarely);
  } else {
    changed_.wait_for(mutex_, kLookForProgram);
    if (ProgramThreadsAreGone()) ended_ = true;
  }
  return nullptr;
}

Mover::Lane* Mover::Choose(bool* throttled) {
  // Somebody waits for what is to be flushed.
  for (Lane& lane : lanes_)
    if (!lane.jobs.empty() && lane.jobs.front().ticket <= lane.flush_to) return &lane;
  for (int turn = 0; turn < 2; ++turn) {
    Lane& lane = lanes_[next_lane_];
    next_lane_ = 1 - next_lane_;
    if (lane.jobs.empty()) continue;
    if (lane.may_go_on) return &lane;
    *throttled = true;
  }
  return nullptr;
}

void Mover::LookAround() {
  for (Lane& lane : lanes_) {
    // A piece counts for as long as the driver says that it is not done; an error is no such
    // word and must not hold the lane up for good.
    while (!lane.in_flight.empty() &&
           driver_.fn_cuEventQuery(lane.in_flight.front()) != CUDA_ERROR_NOT_READY) {
      spare_events_.push_back(lane.in_flight.front());
      lane.in_flight.pop_front();
      progressed_ = std::chrono::steady_clock::now();
    }
    if (lane.in_flight.empty()) lane.at_once = 0;
    lane.may_go_on = lane.at_once < kPiecesAtOnce && !lane.application.Due();
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
  const uint64_t piece = std::min(kCopyPieceBytes, job.copy.bytes - job.at);
  result =
      driver_.fn_cuMemcpyAsync(job.copy.dst + job.at, job.copy.src + job.at, piece, lane.stream);
  if (result != CUDA_SUCCESS) return result;
  job.at += piece;
  lane.bytes.fetch_add(piece, std::memory_order_relaxed);
  MarkPiece(lane);
  return CUDA_SUCCESS;
}

void Mover::MarkPiece(Lane& lane) {
  ++lane.at_once;
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
