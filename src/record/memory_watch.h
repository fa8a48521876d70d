// Says what fills the memory: when an allocation was refused, when somebody asks, at a signal.
#ifndef EBBTIDE_SRC_RECORD_MEMORY_WATCH_H_
#define EBBTIDE_SRC_RECORD_MEMORY_WATCH_H_

#include <map>
#include <string>

#include "src/profile/snapshot_files.h"
#include "src/record/memory_ledger.h"
#include "src/record/recorder_state.h"

namespace ebt::record {

// What a refused allocation's event says beyond the fields that its kind has in a profile: the site
// is in `shape`, the kind in `copy`, the device's free and total bytes in `address` and
// `fingerprint`.
EventRecord RefusalEvent(const ebt_alloc& request, uint16_t stream, uint16_t device, uint64_t site,
                         uint64_t free_bytes, uint64_t total_bytes);

// The writer thread's.
class MemoryWatch {
 public:
  // metadata: of the process, as in its profile.
  MemoryWatch(RecorderState& state, std::map<std::string, std::string> metadata);

  // Events in order.
  void Add(absl::Span<const EventRecord> events);
  void LaunchesBecomeBare() { ledger_.LaunchesBecomeBare(); }
  // Between rounds: answers who asks, writes what waits.
  void Round();
  // The process ends.
  void Finish() { files_.Finish(); }

 private:
  void Refused(const EventRecord& event);
  profile::Snapshot Take(uint16_t device);
  void AskDriver(profile::Snapshot& snapshot);
  void Complete(profile::Snapshot& snapshot);

  RecorderState& state_;
  const std::map<std::string, std::string> metadata_;
  MemoryLedger ledger_;
  profile::SnapshotFiles files_;
};

}  // namespace ebt::record

#endif  // EBBTIDE_SRC_RECORD_MEMORY_WATCH_H_
