// What the events of a recording say about its blocks and launches, checked, and which blocks have
// no place in any plan: the parts that both timelines (timeline.cc, uneven_timeline.cc) begin with.
#ifndef EBBTIDE_SRC_PLAN_RECORDED_LIVES_H_
#define EBBTIDE_SRC_PLAN_RECORDED_LIVES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "src/plan/timeline.h"
#include "src/profile/types.h"

namespace ebt::plan {

// Whether replay may give an allocation of this kind a place.
bool Servable(profile::AllocKind kind);

struct RecordedLives {
  // When a block lives, in event indices, as the events themselves say.
  struct Block {
    uint64_t alloc_at = profile::kNever;
    uint64_t free_at = profile::kNever;
    bool touched = false;  // or alive when a graph was launched, which may name it unseen
  };
  std::vector<Block> blocks;
  std::vector<uint64_t> launches_before;  // of each event, and one behind the last
  std::vector<uint64_t> launch_at;        // event index of each launch

  // Refuses events that contradict each other. Sums of live bytes cannot overflow behind it.
  absl::Status Read(const profile::Profile& profile);
};

// Sets Timeline::device, and Lived::unplanned of every life that no plan may place: on another
// device, of an exporting site, empty, or a probe.
void LeaveOutUnplannable(const profile::Profile& profile, const RecordedLives& recorded,
                         Timeline& timeline);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_RECORDED_LIVES_H_
