// Where a process's snapshots go, and how many: refusals may come in storms.
#ifndef EBBTIDE_SRC_PROFILE_SNAPSHOT_FILES_H_
#define EBBTIDE_SRC_PROFILE_SNAPSHOT_FILES_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "src/profile/snapshot.h"

namespace ebt::profile {

// STEM.oom-N.json of refused allocations and STEM.live-N.json of what was asked for, N from 1,
// never over a file that is there. One line on stderr a file. Not thread-safe.
//
// Of refusals the first has its file at once. The next comes a second later at the earliest, and
// from file to file that time doubles; what is refused in between is kept, the last of it, and
// written when its time has come, or at the end. kMostFiles in all. What may only have been a probe
// (MayBeAProbe) has one of them, and the end's.
class SnapshotFiles {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr int kMostFiles = 8;
  static constexpr auto kFirstGap = std::chrono::seconds(1);
  static constexpr auto kKeepGap = std::chrono::milliseconds(100);

  // program: what the lines call the process.
  SnapshotFiles(std::string stem, std::string program)
      : stem_(std::move(stem)), program_(std::move(program)) {}

  // `bytes` were refused. True: a snapshot is to be made and given to Refused. Most of a storm are
  // not worth the time that it takes.
  bool Note(uint64_t bytes, Time now);
  // Its refusal's counts are set here, when it is written.
  void Refused(Snapshot snapshot, Time now);
  // Writes what was kept, once its time has come.
  void Tick(Time now);
  // The process ends: writes what was kept.
  void Finish();

  void Asked(const Snapshot& snapshot);

 private:
  void WriteKept(Time now);

  const std::string stem_, program_;
  uint64_t refusals_ = 0, largest_bytes_ = 0;
  int files_ = 0;    // of refusals
  int written_ = 0;  // of what was asked for
  bool failure_told_ = false, probe_told_ = false;
  Time next_{}, next_keep_{};
  std::optional<Snapshot> kept_;
};

// The stem beside `file`: without its last suffix; in the present folder, with the process's name
// and number, where that is no regular file. dump: EBBTIDE_DUMP, placeholders filled in: empty, a
// folder (that exists, or with a "/" behind it) for files of the same name, or a stem itself.
std::string SnapshotStem(const std::string& file, const std::string& dump);

// Writes `text` to the first of STEM.WHAT-1.json, STEM.WHAT-2.json ... that is not there. Returns
// its path. Errors name the path and the reason.
absl::StatusOr<std::string> WriteNumbered(const std::string& stem, const std::string& what,
                                          const std::string& text);

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_SNAPSHOT_FILES_H_
