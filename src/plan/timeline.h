// A profile's blocks on the time axis of a plan: the prologue once, then one step that stands
// for all that follow.
#ifndef EBBTIDE_SRC_PLAN_TIMELINE_H_
#define EBBTIDE_SRC_PLAN_TIMELINE_H_

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "src/plan/packer.h"
#include "src/profile/steps.h"
#include "src/profile/types.h"

namespace ebt::plan {

inline constexpr uint32_t kNoTwin = std::numeric_limits<uint32_t>::max();
inline constexpr uint32_t kNoRoom = std::numeric_limits<uint32_t>::max();

enum class Span : uint8_t {
  kPrologue,    // allocated and freed before the first steady step
  kCrossing,    // allocated before it, freed within it: a step block of the last warm-up step
  kPersistent,  // allocated before it, freed in no step
  kStep,        // allocated and freed in one step
  kCyclic,      // allocated in a step, freed in the next
  kUnplanned,   // no fixed place is safe or useful: see Lived::unplanned
};

enum class Unplanned : uint8_t {
  kNo,
  kProbe,      // huge and never touched: asked for to learn how much there is
  kExported,   // another process may hold it
  kOutlives,   // a step's block that still lives when the next step makes it anew
  kElsewhere,  // on another device than the one that is planned for
  kEmpty,      // of zero bytes
  kLoose,      // of steps that differ: it has no place of its own, but takes device memory
};

struct Touch {
  uint32_t launch = 0;  // of the step, 0-based; a copy counts with the launch behind it
  bool copy = false;
};

// One allocation at its place in the prologue or in the step.
struct Lived {
  uint32_t block = 0;    // index into Profile::blocks
  bool in_step = false;  // which of the two sequences
  uint32_t launch = 0;   // launches of the sequence before it
  uint32_t ordinal = 0;  // among those of its site in its sequence
  Span span = Span::kPrologue;
  Unplanned unplanned = Unplanned::kNo;
  // Of a kCrossing block: the kCyclic block (index into Timeline::lives) that is the same thing
  // in every later step. The two share one place.
  uint32_t twin = kNoTwin;
  std::array<Interval, 2> live;  // in timeline time
  std::vector<Touch> touches;    // in a steady step, in order; empty for kPrologue, kCrossing
  // Where steps differ: the largest block that was ever recorded here (0: `block` stands for all),
  // whether others may be smaller, and the room that it shares (index into Timeline::rooms).
  uint64_t place_bytes = 0;
  bool variable = false;
  uint32_t room = kNoRoom;
};

// Memory that several blocks of the step share, each of them at the lowest free place in it.
struct SharedRoom {
  uint64_t bytes = 0;
  Interval live;  // in timeline time
};

struct Timeline {
  profile::Steps steps;
  uint64_t representative = 0;  // the recorded step that stands for all
  uint64_t prologue_end = 0;    // time at which the step begins; a unit is an event
  uint64_t end = 0;             // time at which the step ends
  uint32_t step_launches = 0;
  std::vector<uint64_t> launch_times;  // of each launch of the step, in timeline time
  uint16_t device = 0;                 // ordinal of the device planned for
  // Steps differ: launch numbers are those of the representative, and nothing may rely on them.
  bool uneven = false;
  std::vector<SharedRoom> rooms;
  // Uneven: most bytes live at once in the recording, of all blocks and of those with a place.
  uint64_t recorded_live = 0, recorded_planned_live = 0;
  std::vector<Lived> lives;  // the prologue's, then the step's, each in order of allocation

  bool Planned(const Lived& life) const { return life.unplanned == Unplanned::kNo; }
  // What a life's place takes.
  uint64_t PlaceBytes(const profile::Profile& profile, const Lived& life) const {
    return life.place_bytes > 0 ? life.place_bytes : profile.blocks[life.block].bytes;
  }
};

// Places every allocation of kind kLinear, kAsync and kPool of the prologue and of one steady
// step (that whose allocations agree with most other steps'). Where no step repeats but steps are
// found all the same (profile::FindStepSpans) the timeline is uneven (uneven_timeline.h). The error
// of a profile without steps says what to do.
absl::StatusOr<Timeline> BuildTimeline(const profile::Profile& profile);

// Takes the blocks of an uneven step their places: where sizes go up and down against each other
// what is free serves better than places as large as everything ever was.
void Loosen(Timeline& timeline);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_TIMELINE_H_
