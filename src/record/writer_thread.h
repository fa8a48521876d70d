// The thread that takes events off the others' hands and writes them.
#ifndef EBBTIDE_SRC_RECORD_WRITER_THREAD_H_
#define EBBTIDE_SRC_RECORD_WRITER_THREAD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "src/profile/steps.h"
#include "src/record/memory_watch.h"
#include "src/record/recorder_state.h"

namespace ebt::record {

// Counts steps along the events, to know when enough has been seen.
class StepWatch {
 public:
  // Whole steps to see; 0: never enough.
  explicit StepWatch(uint64_t wanted) : wanted_(wanted) {}

  // Events in order.
  void Add(const EventRecord& event);
  // Explicit marks win over the detector: `wanted` + 1 of them enclose as many steps. The
  // detector has to see one repetition more, since it cannot tell where the first began.
  bool Enough() const { return enough_; }

 private:
  void Launched(uint64_t symbol);

  const uint64_t wanted_;
  bool enough_ = false;
  uint64_t marks_ = 0;
  uint64_t live_bytes_ = 0;
  absl::flat_hash_map<uint32_t, uint64_t> sizes_;
  profile::StepDetector detector_;
  // Checking is linear in what was seen, so the next check waits for a quarter more.
  uint64_t next_check_ = 1024;
};

class WriterThread {
 public:
  explicit WriterThread(RecorderState& state);

  // The body of the thread: returns once the profile is closed or cannot be written any more.
  void Run() noexcept;

 private:
  void Loop();
  bool WaitForWork();  // false: finish
  bool Wait();         // for a round; false: the recorder is closed
  // The recording is complete: follows the memory until the recorder is closed.
  void Watch();
  void StopRecording();
  void LearnSite(const EventRecord& event);
  absl::Span<const EventRecord> Recorded() const;  // of events_, what belongs to the recording
  absl::Status Round();
  absl::Status WriteTables();
  absl::Status WriteEvents();  // of events_
  absl::Status Finish();
  void AskDriver(std::map<std::string, std::string>& metadata, std::vector<EventRecord>& marks);
  std::map<std::string, std::string> FirstMetadata() const;

  RecorderState& state_;
  StepWatch steps_;
  std::vector<EventRecord> events_;
  std::vector<EventRecord> marks_;
  size_t sites_written_ = 0;
  uint32_t functions_written_ = 0;
  bool complete_ = false;  // the wanted steps have been seen
  // The first event behind the recording.
  uint64_t end_ = profile::kNever;
  absl::flat_hash_map<uint64_t, uint64_t> known_sites_;  // RecorderState's in the making
  std::optional<MemoryWatch> memory_;                    // while the thread runs
};

}  // namespace ebt::record

#endif  // EBBTIDE_SRC_RECORD_WRITER_THREAD_H_
