// A recording as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing.
#ifndef EBBTIDE_SRC_REPORT_TRACE_H_
#define EBBTIDE_SRC_REPORT_TRACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/profile/kinds.h"
#include "src/profile/steps.h"
#include "src/profile/types.h"
#include "src/report/readable_names.h"

namespace ebt::report {

// What keeps a trace at a size that the viewers open: about 40 MB at most with these.
struct TraceOptions {
  // Smaller blocks are no slices. Nothing: as small as most_blocks allows; the largest are kept,
  // and all of one size or none.
  std::optional<uint64_t> min_block_bytes;
  uint64_t most_blocks = 60'000;
  uint64_t most_works = 80'000;      // launches, graphs and copies; the first are kept
  uint64_t counter_places = 20'000;  // of each memory; see below
};

// Writes to `path`, piece by piece, replacing what is there:
//  - counters of each memory, in bytes: one of each kind and "all". Where a memory changes more
//    often than counter_places, its changes are taken together in as many stretches, and a
//    stretch is told by its largest moment and its end; so the peak is never lost.
//  - blocks as async slices, with site, kind, size and touches.
//  - launches and graphs as slices, a row a stream; copies, refused allocations and
//    ebbtide_phase() as instants; steady steps as slices.
// Times are microseconds since the first event, the GPU's as far as GpuTimes knows them: between
// two marks they are interpolated, so a launch lasts from its event to the next one and says
// little about that kernel. Without marks an event is a microsecond. "otherData" says which, and
// what was left out.
// The error names the file and the reason.
absl::Status WriteTrace(const profile::Profile& profile, const std::optional<profile::Steps>& steps,
                        const std::vector<profile::Kind>& kinds, const ReadableNames& names,
                        const std::string& path, const TraceOptions& options = {});

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_TRACE_H_
