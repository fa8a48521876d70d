// What the blocks of a timeline are and how much a step needs them, judged by behaviour alone.
#ifndef EBBTIDE_SRC_PLAN_HOTNESS_H_
#define EBBTIDE_SRC_PLAN_HOTNESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/plan/plan.h"
#include "src/plan/timeline.h"

namespace ebt::plan {

// H = forward * touches before the turn + backward * touches behind it + coupling * the mean
// share of hot blocks among those touched by the same launches. The defaults are for one device,
// where backward is the crowded part; several devices want a larger coupling.
struct HotnessWeights {
  double forward = 1;
  double backward = 2;
  double coupling = 1;
};

struct Traits {  // of one Lived, in the order of Timeline::lives
  BlockClass block_class = BlockClass::kOther;
  double heat = 0;
  bool hot = false;    // heat above mean + 0.5 standard deviations of all touched blocks
  double idle = 1;     // part of the step, 0 to 1, outside the first to the last touch
  uint32_t first = 0;  // launch of the first and of the last touch; 0 without one
  uint32_t last = 0;
};

struct Window {  // launches [begin, end) of the step
  uint32_t begin = 0;
  uint32_t end = 0;
  bool Contains(uint32_t launch) const { return begin <= launch && launch < end; }
};

struct Behaviour {
  uint32_t turn = 0;  // launch at which most step-local bytes live: forward ends, backward begins
  Window optimizer;   // empty when no persistent block is touched in a short window only
  std::vector<Traits> traits;
};

// Classes: optimizer state is what lives across steps and is touched within one short window
// only (at most a fifth of the step), the window being the one with most such bytes and what
// adjoins it; parameters live across steps and are touched elsewhere (too); gradients do not
// live across steps, are touched in that window and before; activations are allocated before the
// turn and not touched in it.
Behaviour Judge(const profile::Profile& profile, const Timeline& timeline,
                const HotnessWeights& weights);

// What to call a site: its innermost Python frame, else its innermost native frame with a
// symbol, as "file:line function" with the last three parts of the path. "site 0x…" without any.
std::string SiteLabel(const callsite::Site& site);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_HOTNESS_H_
