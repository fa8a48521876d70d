// Says what fills the memory: when an allocation was refused, when somebody asks, at a signal.
#ifndef EBBTIDE_SRC_RECORD_MEMORY_WATCH_H_
#define EBBTIDE_SRC_RECORD_MEMORY_WATCH_H_

#include <map>
#include <string>

#include "src/profile/snapshot_files.h"
#include "src/record/memory_ledger.h"
#include "src/record/recorder_state.h"

namespace ebt::record {

// The event of an allocation that the driver has just refused the calling thread. Beyond the fields
// that its kind has in a profile it holds the site in `shape`, the kind in `copy`, and the device's
// free and total bytes, which it asks for, in `address` and `fingerprint`; 0: they are not known.
EventRecord RefusalEvent(const RecorderState& state, const ebt_alloc& request, uint16_t stream,
                         CUdevice device);

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
