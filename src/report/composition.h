// What fills the memory of a recorded process: its peak, by what blocks are for and by who
// allocated them. Data in, data out; every number is explained here, and the terminal table,
// `--json` and whatever else reports memory are made from it.
//
// Bytes are those that blocks take: rounded up to kBlockAlignment. Blocks of managed memory take
// none of the device's for certain and are told apart; every other kind of allocation counts.
#ifndef EBBTIDE_SRC_REPORT_COMPOSITION_H_
#define EBBTIDE_SRC_REPORT_COMPOSITION_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/profile/kinds.h"
#include "src/profile/steps.h"
#include "src/profile/types.h"
#include "src/report/fragmentation.h"

namespace ebt::report {

struct Sum {
  uint64_t bytes = 0;
  uint64_t blocks = 0;
  friend bool operator==(const Sum&, const Sum&) = default;
};

// A place in the recording.
struct Moment {
  uint64_t event = 0;            // index into Profile::events
  uint64_t launch = 0;           // launches of the recording before it
  std::optional<uint64_t> step;  // of the steady steps, 0-based; nothing outside of them
  uint64_t step_launch = 0;      // launches of that step before it
  std::string phase;             // the last ebbtide_phase() before it; empty: none
  std::optional<double> gpu_ms;  // the GPU's time, where there are marks around it
};

// The blocks of one kind that one site made, as far as they are live at the peak.
struct SiteUse {
  uint64_t site = 0;  // 0: unknown
  profile::Kind kind = profile::Kind::kUnknown;
  Sum at_peak;
  uint64_t idle_bytes = 0;
};

struct KindUse {
  Sum at_peak;
  uint64_t idle_bytes = 0;  // of those at the peak: see idle.h
  Sum before_steps;         // live when the first steady step starts
  // Over all steady steps: the most, the mean over launches, the mean over the GPU's time of the
  // steps that lie between marks (0 when none does).
  uint64_t step_max_bytes = 0;
  double step_mean_bytes = 0;
  double step_time_mean_bytes = 0;
};

struct StepSummary {
  uint64_t steps = 0;
  uint64_t launches = 0;      // of each step
  uint64_t first_launch = 0;  // launches before the first of these steps
  bool marked = false;        // found by ebbtide_step()
  std::vector<double> ms;     // of each step that lies between marks, in order
  double median_ms = 0;       // as `ebbtide plan` gives it; 0: the recording has no GPU time
  // Of each step that tells, from its start to the end of its backward: see backward_end.h.
  std::vector<double> backward_end_ms;
  double median_backward_end_ms = 0;  // 0: no step tells
};

struct DevicePeak {
  uint16_t device = 0;
  uint64_t peak_bytes = 0;
};

struct Composition {
  uint64_t events = 0, launches = 0, allocations = 0, sites = 0;
  bool truncated = false;

  std::optional<StepSummary> steps;

  // The device that this is about: that with the highest peak. The others': highest first.
  uint16_t device = 0;
  std::vector<DevicePeak> other_devices;

  // What the driver saw the process take, as `ebbtide plan` gives it; where that was not recorded,
  // peak_bytes.
  uint64_t native_peak_bytes = 0;
  bool native_peak_measured = false;

  // The most bytes of blocks that were live at once, and when: right behind the event `peak`.
  // Where a steady step reaches it that is preferred.
  uint64_t peak_bytes = 0;
  uint64_t peak_blocks = 0;
  uint64_t peak_requested_bytes = 0;  // without the rounding
  uint64_t peak_managed_bytes = 0;    // managed memory live then, beside peak_bytes
  Moment peak;
  // The first launch behind the peak: what the memory was wanted for. Empty: none came.
  std::string peak_function;

  std::array<KindUse, profile::kKinds> kinds;  // by Kind; they add up to the peak
  std::vector<SiteUse> site_uses;              // most bytes first; they add up to the peak
  std::optional<uint64_t> idle_bytes;          // nothing: no step is known to measure by
  Sum before_steps;                            // 0 where there are no steps
  std::optional<Fragmentation> fragmentation;  // at the peak; nothing: no addresses are known
  bool caching_segments = false;               // see LooksLikeSegments

  // native_peak_bytes / peak_bytes. Nothing where it was not measured, or missed some of the peak.
  std::optional<double> ReservedPerLive() const {
    if (!native_peak_measured || peak_bytes == 0 || native_peak_bytes < peak_bytes) return {};
    return double(native_peak_bytes) / double(peak_bytes);
  }

  uint64_t failures = 0;  // allocations that the driver refused
  uint64_t largest_failure_bytes = 0;
  std::optional<Moment> first_failure;
};

// `profile` is what the reader promises. `steps` and `kinds`: FindSteps and FindKinds of it.
// Error: the blocks are larger than any device (a damaged or hostile recording).
// O(events + blocks · log blocks).
absl::StatusOr<Composition> Compose(const profile::Profile& profile,
                                    const std::optional<profile::Steps>& steps,
                                    const std::vector<profile::Kind>& kinds);

// Whether the driver was asked for segments that a caching allocator cuts up itself, so that
// blocks are not what the program allocated: nine tenths of the peak's bytes lie in whole
// multiples of 2 MiB that came from plain cudaMalloc or were mapped by the program, and there is
// an allocation for no more than every tenth launch.
bool LooksLikeSegments(const profile::Profile& profile, const std::vector<uint32_t>& at_peak,
                       uint64_t launches);

// Bytes that a block takes.
uint64_t TakenBytes(const profile::Block& block);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_COMPOSITION_H_
