// Allocators that a plan is compared with, played from one recording.
//
// Each is written from its documented behaviour (at the head of its baseline_*.cc) and serves what
// the recorded program took from its framework's allocator, in the order in which it did, set-up
// included. That are the stream-ordered blocks where there are any, else what was taken with
// cuMemAlloc. What other libraries take beside the framework goes straight to the device: it
// counts in `peak_process_bytes` and in nothing else.
#ifndef EBBTIDE_SRC_PLAN_BASELINE_H_
#define EBBTIDE_SRC_PLAN_BASELINE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/profile/types.h"

namespace ebt::plan {

enum class Policy : uint8_t {
  kNative,      // PyTorch's caching allocator
  kExpandable,  // the same with expandable segments
  kPool,        // the driver's stream-ordered pool (cudaMallocAsync)
  kManaged,     // everything in managed memory, moved by page faults
};
inline constexpr std::array<Policy, 4> kPolicies = {Policy::kNative, Policy::kExpandable,
                                                    Policy::kPool, Policy::kManaged};

// "native", "expandable", "pool", "managed".
std::string_view PolicyName(Policy policy);
std::optional<Policy> PolicyNamed(std::string_view name);

struct BaselineOptions {
  // Bytes of device memory that the process may have, its context not counted. 0: what the
  // recorded device had when the program began (metadata), all that is sane where that is unknown.
  uint64_t capacity = 0;
  // Bytes a second at which page faults bring managed memory in or out: measured on an H200.
  double fault_rate = 12e9;
};

struct Baseline {
  Policy policy = Policy::kNative;
  uint64_t allocations = 0;           // that the allocator served
  uint64_t peak_live_bytes = 0;       // in their blocks at once, rounded up to 512 bytes each
  uint64_t peak_allocated_bytes = 0;  // with what the allocator could not split off
  uint64_t peak_reserved_bytes = 0;   // device memory that the allocator held
  uint64_t peak_process_bytes = 0;    // with what libraries had beside it
  uint64_t segments_made = 0;         // pieces of device memory: segments, mapped pages, chunks
  uint64_t segments_freed = 0;
  uint64_t retries = 0;  // memory had run out, and what was cached was given back
  // False: an allocation of `refused_bytes` at event `refused_at` found no memory. The figures are
  // those up to there: the program would have ended.
  bool fits = true;
  uint64_t refused_bytes = 0;
  uint64_t refused_at = 0;
  // kManaged: over the link, and how long that takes.
  uint64_t moved_in_bytes = 0, moved_out_bytes = 0;
  double fault_ms = 0;
};

// Of the device that has most of the framework's bytes. Equal input gives an equal result. Probes
// (huge blocks that nothing ever touches) are left out: they ask how much there is.
// O(events · log blocks); kManaged: and the pages of each named block.
Baseline PlayBaseline(const profile::Profile& profile, Policy policy,
                      const BaselineOptions& options = {});

// Who takes the blocks of a recording.
enum class Taker : uint8_t {
  kFramework,
  kLibrary,    // beside the framework, on the device
  kElsewhere,  // no memory of that device: managed, of another device, empty, or a probe
};
struct Takers {
  std::vector<Taker> of;  // by block
  uint16_t device = 0;
};
Takers FindTakers(const profile::Profile& profile);

// BaselineOptions::capacity for the recorded device.
uint64_t RecordedCapacity(const profile::Profile& profile);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_BASELINE_H_
