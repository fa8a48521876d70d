// What filled the memory of a running process at one moment: why it was asked, the blocks that are
// live by the site that made them, and the last steps' peaks. profiles/SNAPSHOT.md names the keys
// of the file.
//
// Bytes are those that blocks take on `device`: rounded up to kBlockAlignment. Managed memory is
// told apart: it takes none of the device's for certain.
#ifndef EBBTIDE_SRC_PROFILE_SNAPSHOT_H_
#define EBBTIDE_SRC_PROFILE_SNAPSHOT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/callsite/callsite.h"
#include "src/profile/types.h"

namespace ebt::profile {

// What is live of one site.
struct SnapshotSite {
  uint64_t site = 0;  // callsite::Site::id, 0: unknown
  uint64_t bytes = 0;
  uint64_t blocks = 0;
  // Of bytes: of blocks that have lived through a whole step, and of those that nothing has touched
  // for more than half a step's launches. 0 where that is not known.
  uint64_t persistent_bytes = 0;
  uint64_t idle_bytes = 0;
};

// Most bytes first, then by number; the rest summed up.
struct SnapshotSites {
  std::vector<SnapshotSite> largest;
  uint64_t other_sites = 0, other_bytes = 0, other_blocks = 0;
};

// How the end of a step was known.
enum class StepsBy : uint8_t {
  kLaunches,  // no step is known: equal numbers of launches
  kPeriod,    // the launches repeat: windows of one period, which begin anywhere within a step
  kMarks,     // ebbtide_step(), or a plan that is kept to
};

// A step at the moment when most bytes were live within it.
struct SnapshotStep {
  uint64_t number = 0;  // of the process, from 0
  StepsBy by = StepsBy::kLaunches;
  uint64_t launches = 0;
  bool whole = true;  // false: the one that has not ended
  uint64_t peak_bytes = 0, peak_blocks = 0;
  SnapshotSites sites;
};

// The allocation that was refused.
struct SnapshotRefusal {
  uint64_t bytes = 0;
  AllocKind kind = AllocKind::kLinear;
  uint64_t site = 0;
  uint64_t count = 1;          // of refusals in this process, by the time of the file
  uint64_t largest_bytes = 0;  // of these
};

// Free memory between live blocks, in address ranges where a stream-ordered block has been.
struct SnapshotFragmentation {
  uint64_t free_bytes = 0, largest_free_bytes = 0, pieces = 0;
  // Share of the free memory that is not in the largest piece; 0 when nothing is free.
  double Share() const {
    return free_bytes == 0 ? 0 : 1 - double(largest_free_bytes) / double(free_bytes);
  }
};

// What a process knows that keeps to a plan. All in bytes.
struct SnapshotPlan {
  uint64_t budget = 0;           // 0: none
  uint64_t planned = 0;          // live blocks at planned addresses on the device
  uint64_t dynamic = 0;          // live blocks beside the plan
  uint64_t cold = 0;             // live blocks whose home is the host
  uint64_t device_reserved = 0;  // what the arenas hold of the device
};

struct Snapshot {
  // "program", "pid", "rank", "gpu", "time", "ebbtide", "mode" (record, replay), and "profile" or
  // "plan" with its path. Unknown keys are kept.
  std::map<std::string, std::string> metadata;
  std::optional<SnapshotRefusal> refusal;  // nothing: somebody asked
  uint16_t device = 0;
  // Of the device, by the driver, when the allocation was refused; 0: not known.
  uint64_t total_bytes = 0, free_bytes = 0;

  uint64_t live_bytes = 0, live_blocks = 0;
  uint64_t managed_bytes = 0;  // live beside them
  // What the process holds of the device for its blocks: pools by their own word, else live_bytes.
  uint64_t reserved_bytes = 0;
  std::optional<uint64_t> persistent_bytes, idle_bytes;  // nothing: not known, see SnapshotSite
  std::optional<SnapshotFragmentation> fragmentation;
  std::optional<SnapshotPlan> plan;

  SnapshotSites sites;
  std::vector<SnapshotStep> steps;  // in order, at most kSnapshotSteps whole ones and the last
  std::vector<callsite::Site> described;   // the sites that are named above
  std::map<uint64_t, std::string> labels;  // what sites are called already: a plan's
  std::vector<std::string> advice;         // sentences, the weightiest first

  // What is in use of the device and not the blocks' of this process: its context and kernels, and
  // other processes. 0 where it is not known.
  uint64_t OthersBytes() const {
    const uint64_t used = total_bytes > free_bytes ? total_bytes - free_bytes : 0;
    return used > reserved_bytes ? used - reserved_bytes : 0;
  }
};

// Whether so much was asked for at once that a library may only have wanted to know how much it can
// have: most of the device.
bool MayBeAProbe(const Snapshot& snapshot);

inline constexpr size_t kSnapshotSteps = 10;
inline constexpr size_t kSnapshotSites = 20;
// Innermost frames of each sort that the file keeps of a site.
inline constexpr size_t kSnapshotFrames = 16;

// "stream-ordered", "cudaMalloc" ...: what people call it.
std::string_view AllocKindName(AllocKind kind);
std::string_view StepsByName(StepsBy by);  // "launches", "period", "marks"

// The largest of `sites`, in order, and the rest summed up.
SnapshotSites LargestSites(std::vector<SnapshotSite> sites, size_t most = kSnapshotSites);

// The sites that `snapshot` names, each once, without 0.
std::vector<uint64_t> NamedSites(const Snapshot& snapshot);

// One JSON object over many lines, with a newline behind it. Text that is no UTF-8 is mended.
std::string SnapshotJson(const Snapshot& snapshot);

// Whether text that begins so may be a snapshot: what tells it from other JSON files of ours.
bool LooksLikeSnapshot(std::string_view beginning);

// Untrusted input. file: for messages. What is missing reads as nothing; what has another type than
// it must, is of a later version or too large is refused in one line.
absl::StatusOr<Snapshot> ParseSnapshot(std::string_view text, const std::string& file);

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_SNAPSHOT_H_
