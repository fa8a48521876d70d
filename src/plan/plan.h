// A plan: a home for every recorded block, as plain data. Read and written by plan_file.h,
// made by planner.h, checked by validator.h, kept to by src/replay.
//
// One offset space ("the layout"): [0, warm_bytes) is device memory, [warm_bytes,
// warm_bytes + cold_bytes) holds the cold blocks: device memory too with EBBTIDE_COLD=off,
// host-backed otherwise. Blocks without a slot take the dynamic part behind it at run time.
//
// The run is a `prologue` (everything before the steady step: set-up, warm-up steps) followed
// by `step` over and over. A slot is one allocation at its place in that sequence. A plan
// without slots is one too: replay serves nothing by it and forwards everything.
#ifndef EBBTIDE_SRC_PLAN_PLAN_H_
#define EBBTIDE_SRC_PLAN_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ebt::plan {

// What device memory comes in where steps differ: smaller than elsewhere, since the part that grows
// ends anywhere.
inline constexpr uint64_t kUnevenChunkBytes = uint64_t{8} << 20;

inline constexpr int kSchemaVersion = 3;

enum class Tier : uint8_t { kHot, kWarm, kCold, kNative };
// How a cold block serves its touches: read and written in place over the link, or brought to
// the device for its window and sent back after it.
enum class ColdUse : uint8_t { kInPlace, kPrefetch };
enum class BlockClass : uint8_t { kOther, kOptimizerState, kParameter, kGradient, kActivation };

struct Slot {
  uint64_t site = 0;
  uint64_t fingerprint = 0;
  uint32_t ordinal = 0;  // among the slots of this site in this sequence, from 0
  uint64_t bytes = 0;    // as requested
  uint16_t stream = 0;   // recorded stream number
  uint32_t launch = 0;   // launches of the sequence that came before this allocation
  Tier tier = Tier::kWarm;
  uint64_t offset = 0;      // in the layout; meaningless for kNative
  bool persistent = false;  // lives across steps
  BlockClass block_class = BlockClass::kOther;
  ColdUse use = ColdUse::kInPlace;
  // kPrefetch: the launches of the step (0-based) before which to start fetching and after
  // which to send back. -1: never.
  int64_t fetch_launch = -1;
  int64_t evict_launch = -1;
  // Recorded numbers of the streams whose earlier blocks at this place must be through first, in
  // the prologue or in any step: ascending. What the slot's own stream has freed needs no event.
  std::vector<uint16_t> after;
  // Not 0: steps differ here, and the block, of any size up to this, takes the lowest free place in
  // [offset, offset + room_bytes). Several slots may share a room. `bytes` is the largest recorded.
  uint64_t room_bytes = 0;
  // Steps differ here, and no place of its own pays: the block, of any size, takes the smallest
  // free run of the warm region and the dynamic part. There is no offset then.
  bool dynamic = false;
  bool variable() const { return room_bytes > 0 || dynamic; }
};

// The cold part's unit of moving: slab i is [i * slab_bytes, (i + 1) * slab_bytes) of it. On the
// device it lies at stay_offset, from before launch `fetch_launch` of a step until the copy out
// that begins behind launch `evict_launch` is through, which is planned to be so before launch
// `gone_launch`; the device bytes belong to others from there on until the next `fetch_launch`.
// Launches are 0-based in the step and go round at its end: a slab that is fetched in backward,
// used by the optimizer and copied out during the next step's forward has fetch_launch <=
// evict_launch and gone_launch < fetch_launch.
struct Slab {
  uint64_t stay_offset = 0;  // in [0, warm_bytes), a multiple of slab_bytes
  uint32_t fetch_launch = 0;
  uint32_t evict_launch = 0;
  uint32_t gone_launch = 0;
};

// One run of `ebbtide verify`: what it found, and for what that holds.
struct Clearance {
  std::vector<uint64_t> sites;  // touched only through pointers that a launch or a copy names
  std::string command;          // CMD and its arguments: other inputs are other touches
  std::string gpu;
  int driver_version = 0;  // 1000 * major + 10 * minor
  std::string ebbtide;     // version that looked
  uint32_t steps = 0;      // steps that were watched
};

struct Site {
  uint64_t id = 0;
  std::string label;  // innermost telling frame, for people: "torch/optim/adamw.py:128 _init_group"
  // Edits by hand, which the planner honours and `ebbtide plan --update` keeps.
  std::optional<Tier> pin;  // hot, warm or cold: where every block of the site lies
  bool exclude = false;     // its blocks are left to the driver
};

// H = forward * touches before the turn + backward * touches behind it + coupling * the mean
// share of hot blocks among those touched by the same launches, all of it times the part of the
// steps in which the block is touched at all. The defaults are for one device, where backward is
// the crowded part.
struct HotnessWeights {
  double forward = 1;
  double backward = 2;
  double coupling = 1;
  bool operator==(const HotnessWeights&) const = default;
};

// What the heat of blocks was made of, and how much of the budget each tier may have.
struct HotnessRule {
  HotnessWeights weights;
  double threshold = 0.5;  // standard deviations above the mean heat from which a block is hot
  double hot_share = 0.15;
  std::optional<double> warm_share;  // nothing: the budget alone decides
  bool operator==(const HotnessRule&) const = default;
};

struct Plan {
  int schema = kSchemaVersion;
  std::string program;  // ProgramIdentity of the recorded process
  std::string gpu;
  std::string ebbtide;          // version that made the plan
  std::string source;           // the profile it was made from
  uint64_t budget = 0;          // bytes of device memory, everything included; 0: none was given
  uint64_t overhead_bytes = 0;  // context, kernels, and what else of the process is not planned
  uint64_t warm_bytes = 0;      // multiple of 2 MiB
  uint64_t cold_bytes = 0;      // multiple of 2 MiB
  uint32_t step_launches = 0;
  // Steps differ: launches and step_launches are those of one recorded step, and nothing moves at
  // them.
  bool uneven = false;
  // Device memory behind the warm region, for blocks without a place: what playing the recording by
  // this plan took.
  uint64_t dynamic_bytes = 0;
  std::vector<Slot> prologue;
  std::vector<Slot> step;
  std::vector<Site> sites;
  // What can be swapped: the first slabs.size() * slab_bytes bytes of the cold part, in which
  // only persistent blocks lie. slab_bytes: a power of two from 2 to 32 MiB; 0: no slabs.
  uint64_t slab_bytes = 0;
  std::vector<Slab> slabs;
  std::vector<Clearance> cleared;
  std::optional<HotnessRule> hotness;  // for `ebbtide plan --update`; replay does not read it
  // Figures of the planner, for people; replay does not read them.
  double native_step_ms = 0, predicted_step_ms = 0;
  uint64_t max_live_bytes = 0;  // most bytes live at once, all tiers, 512-byte rounding included
  uint64_t planned_peak_bytes = 0;  // device bytes: warm_bytes + prefetch windows
};

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_PLAN_H_
