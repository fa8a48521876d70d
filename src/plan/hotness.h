// What the blocks of a timeline are and how much a step needs them, judged by behaviour alone.
#ifndef EBBTIDE_SRC_PLAN_HOTNESS_H_
#define EBBTIDE_SRC_PLAN_HOTNESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/plan/plan.h"
#include "src/plan/timeline.h"

namespace ebt::plan {

struct Traits {  // of one Lived, in the order of Timeline::lives
  BlockClass block_class = BlockClass::kOther;
  double heat = 0;
  // What heat is made of: touches before and behind the turn, and coupling. Of a block that only
  // some of the steps touch (uneven routing: an expert) they are the mean of those steps.
  double forward = 0;
  double backward = 0;
  double coupling = 0;
  double frequency = 1;  // part of the steps, 0 to 1, that touch it
  bool hot = false;      // heat above Behaviour::hot_above
  double idle = 1;       // part of the step, 0 to 1, outside the first to the last touch
  uint32_t first = 0;    // launch of the first and of the last touch; 0 without one
  uint32_t last = 0;
  uint32_t module = 0;  // see colocation.h: of persistent blocks
  uint32_t place = 0;
};

struct Window {  // launches [begin, end) of the step
  uint32_t begin = 0;
  uint32_t end = 0;
  bool Contains(uint32_t launch) const { return begin <= launch && launch < end; }
};

struct Behaviour {
  uint32_t turn = 0;  // launch at which most step-local bytes live: forward ends, backward begins
  Window optimizer;   // empty when no persistent block is touched in a short window only
  double heat_mean = 0;       // over all touched blocks
  double heat_deviation = 0;  // standard deviation
  double hot_above = 0;       // mean + threshold * deviation
  std::vector<Traits> traits;
};

// Classes: optimizer state is what lives across steps and is touched within one short window
// only (at most a fifth of the step), the window being the one with most such bytes and what
// adjoins it; parameters live across steps and are touched elsewhere (too); gradients do not
// live across steps, are touched in that window and before; activations are allocated before the
// turn and not touched in it. hot_threshold: deviations above the mean from which a block is hot.
Behaviour Judge(const profile::Profile& profile, const Timeline& timeline,
                const HotnessWeights& weights, double hot_threshold = HotnessRule{}.threshold);

// What suits the hardware that was recorded. On one device backward weighs most, as it is the
// crowded part. Where the process had blocks on several devices, copied between them or is one of
// several ranks, coupling does: what is touched together should be had together, since a device
// that waits makes the others wait.
// several_ranks: the recording is one of several processes that work together.
HotnessWeights DefaultWeights(const profile::Profile& profile, bool several_ranks);

// What to call a site: its innermost Python frame, else its innermost native frame with a
// symbol, as "file:line function" with the last three parts of the path. "site 0x…" without any.
std::string SiteLabel(const callsite::Site& site);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_HOTNESS_H_
