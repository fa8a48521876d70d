#include "src/record/writer_thread.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/base/config.h"
#include "src/base/log.h"
#include "src/base/own_threads.h"
#include "src/callsite/callsite.h"

namespace ebt::record {
namespace {

using std::chrono::milliseconds;

constexpr auto kRound = milliseconds(50);
// Rounds between two looks at whether the program has gone and left us behind.
constexpr uint64_t kRoundsAlone = 5;
// How long the end waits for the GPU to reach the last marks.
constexpr size_t kMostKnownSites = size_t{1} << 16;
constexpr int kMarkRounds = 20;
constexpr long kMarkRoundNs = 5000000;

std::string CommandLine() {
  std::string text(4096, '\0');
  const int fd = ::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd < 0 ? 0 : ::read(fd, text.data(), text.size());
  if (fd >= 0) ::close(fd);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

}  // namespace

void StepWatch::Add(const EventRecord& event) {
  if (wanted_ == 0 || enough_) return;
  switch (event.kind) {
    case RecordKind::kAlloc:
      sizes_[event.block] = event.bytes;
      live_bytes_ += event.bytes;
      return;
    case RecordKind::kFree:
      if (const auto it = sizes_.find(event.block); it != sizes_.end()) {
        live_bytes_ -= it->second;
        sizes_.erase(it);
      }
      return;
    case RecordKind::kLaunch:
      return Launched(profile::LaunchSymbol(event.function, event.shape));
    case RecordKind::kGraph:
      // Beyond the numbers of functions.
      return Launched(profile::LaunchSymbol(event.function | uint64_t{1} << 32, 0));
    case RecordKind::kStep:
      if (++marks_ > wanted_) enough_ = true;
      return;
    default:
      return;
  }
}

void StepWatch::Launched(uint64_t symbol) {
  if (marks_ > 0) return;
  detector_.Add(symbol, live_bytes_);
  if (detector_.launches() < next_check_) return;
  next_check_ += std::max<uint64_t>(1024, next_check_ / 4);
  const auto found = detector_.Check();
  if (found.has_value() && found->steps > wanted_) enough_ = true;
}

WriterThread::WriterThread(RecorderState& state)
    : state_(state), steps_(state.options.stop_after_steps) {}

void WriterThread::Run() noexcept {
  if (state_.options.guard != nullptr) *state_.options.guard() = 1;
  pthread_setname_np(pthread_self(), "ebbtide-record");
  const OwnThread own;
  try {
    Loop();
  } catch (...) {
    state_.TurnOff("no memory to write the profile");
  }
  state_.recording = false;
  state_.watching = false;
  state_.live_socket.Close();  // who asks from now on hears that nobody answers
  std::lock_guard lock(state_.mutex);
  state_.finished = true;
  state_.done.notify_all();
  state_.told.notify_all();
}

void WriterThread::Loop() {
  const RelaxedCapture relaxed(state_.driver);
  const std::map<std::string, std::string> metadata = FirstMetadata();
  memory_.emplace(state_, metadata);
  absl::Status status = state_.file.AddMetadata(metadata);
  for (uint64_t round = 1; status.ok() && WaitForWork(); ++round) {
    status = Round();
    if (round % kRoundsAlone == 0 && ProgramThreadsAreGone()) break;
  }
  if (status.ok()) status = Finish();
  if (status.ok() && state_.watching) Watch();
  memory_->Finish();
  if (status.ok()) return;
  const bool was_recording = state_.recording.exchange(false);
  Log(LogLevel::kWarning, "{}{}", was_recording ? "recording stopped: " : "",
      std::string(status.message()));
}

bool WriterThread::WaitForWork() { return !complete_ && Wait(); }

bool WriterThread::Wait() {
  std::unique_lock lock(state_.mutex);
  if (!state_.closing) {
    state_.wake.wait_until(lock, std::chrono::system_clock::now() + kRound);
  }
  return !state_.closing;
}

std::map<std::string, std::string> WriterThread::FirstMetadata() const {
  std::map<std::string, std::string> metadata = state_.options.metadata;
  // emplace keeps what the options say.
  metadata.emplace("program", ProgramIdentity());
  metadata.emplace("argv", CommandLine());
  metadata.emplace("pid", std::to_string(getpid()));
  metadata.emplace("rank", FillPath("{rank}"));
  metadata.emplace("ebbtide", EBBTIDE_VERSION);
  metadata.emplace("time", UtcNow());
  int version = 0;
  if (state_.driver.fn_cuDriverGetVersion != nullptr &&
      state_.driver.fn_cuDriverGetVersion(&version) == CUDA_SUCCESS) {
    metadata.emplace("driver_version", std::to_string(version));
  }
  return metadata;
}

void WriterThread::AskDriver(std::map<std::string, std::string>& metadata,
                             std::vector<EventRecord>& marks) {
  std::lock_guard lock(state_.driver_mutex);
  state_.watch.Sample();
  state_.watch.Metadata(metadata);
  state_.clock.Poll(marks);
  // A context that stays current here would outlive its owner's destroying it.
  if (state_.driver.fn_cuCtxSetCurrent != nullptr) state_.driver.fn_cuCtxSetCurrent(nullptr);
  for (const auto& [key, value] : state_.options.metadata) {
    if (const auto it = metadata.find(key); it != metadata.end()) it->second = value;
  }
}

absl::Status WriterThread::WriteTables() {
  std::vector<std::string> names;
  state_.functions.NamesSince(functions_written_, names);
  if (absl::Status status = state_.file.AddFunctions(names); !status.ok()) return status;
  std::vector<callsite::Site> sites;
  for (const uint64_t id : callsite::InternedSince(sites_written_)) {
    sites.push_back(callsite::Lookup(id));
  }
  return state_.file.AddSites(sites);
}

absl::Status WriterThread::Round() {
  bool more = state_.buffers.Drain(events_);
  // After the drain: what an event names has been entered before the event was handed over.
  if (absl::Status status = WriteTables(); !status.ok()) return status;
  std::map<std::string, std::string> metadata;
  marks_.clear();
  AskDriver(metadata, marks_);
  if (absl::Status status = state_.file.AddMetadata(metadata); !status.ok()) return status;
  if (absl::Status status = state_.file.AppendEvents(marks_); !status.ok()) return status;
  if (absl::Status status = WriteEvents(); !status.ok()) return status;
  while (more) {
    more = state_.buffers.Drain(events_);
    if (absl::Status status = WriteEvents(); !status.ok()) return status;
  }
  if (absl::Status status = state_.file.Flush(); !status.ok()) return status;
  complete_ = steps_.Enough();
  memory_->Round();
  return absl::OkStatus();
}

absl::Status WriterThread::WriteEvents() {
  const absl::Span<const EventRecord> events = Recorded();
  memory_->Add(events);
  for (const EventRecord& event : events) {
    steps_.Add(event);
    if (event.kind == RecordKind::kAlloc) LearnSite(event);
  }
  if (events.size() < events_.size()) {
    memory_->LaunchesBecomeBare();
    memory_->Add(absl::MakeConstSpan(events_).subspan(events.size()));
  }
  absl::Status status = state_.file.AppendEvents(events);
  events_.clear();
  state_.buffers.Release();
  return status;
}

// For what comes behind a complete recording.
void WriterThread::LearnSite(const EventRecord& event) {
  if (state_.options.stop_after_steps == 0 || event.fingerprint == 0 ||
      known_sites_.size() >= kMostKnownSites) {
    return;
  }
  const auto [known, fresh] =
      known_sites_.try_emplace(SiteKey(event.fingerprint, event.bytes), event.site);
  if (!fresh && known->second != event.site) known->second = 0;
}

absl::Span<const EventRecord> WriterThread::Recorded() const {
  const auto end =
      std::partition_point(events_.begin(), events_.end(),
                           [this](const EventRecord& event) { return event.sequence < end_; });
  return {events_.data(), static_cast<size_t>(end - events_.begin())};
}

// Every thread that finds the recording ended gives its events numbers from `end_` on.
void WriterThread::StopRecording() {
  if (complete_ && !state_.closing && state_.options.dump_path != kNoDump) {
    state_.known_sites = std::move(known_sites_);
    state_.watching = true;
    end_ = state_.buffers.sequence();
  }
  state_.recording = false;
}

void WriterThread::Watch() {
  memory_->LaunchesBecomeBare();
  bool open = true;
  for (uint64_t round = 1; open; ++round) {
    open = Wait() && (round % kRoundsAlone != 0 || !ProgramThreadsAreGone());
    bool more = true;
    while (more) {
      more = state_.buffers.Drain(events_);
      memory_->Add(events_);
      events_.clear();
      state_.buffers.Release();
    }
    memory_->Round();
  }
}

absl::Status WriterThread::Finish() {
  StopRecording();
  if (absl::Status status = Round(); !status.ok()) return status;
  for (int i = 0; i < kMarkRounds && state_.clock.waiting() > 0; ++i) {
    const timespec pause{.tv_sec = 0, .tv_nsec = kMarkRoundNs};
    nanosleep(&pause, nullptr);
    if (absl::Status status = Round(); !status.ok()) return status;
  }
  if (const char* reason = state_.stopped_because) {
    if (absl::Status s = state_.file.AddMetadata({{"stopped", reason}}); !s.ok()) return s;
  }
  if (absl::Status status = state_.file.Close(); !status.ok()) return status;
  Log(LogLevel::kInfo, "{}{} events are in {}",
      complete_ ? fmt::format("{} steps recorded: ", state_.options.stop_after_steps) : "",
      state_.file.events(), state_.file.path());
  return absl::OkStatus();
}

}  // namespace ebt::record
