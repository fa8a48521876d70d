// The step of a plan: which of its blocks are cold, how they are used, and how long it takes.
#ifndef EBBTIDE_SRC_PLAN_COLD_STEP_H_
#define EBBTIDE_SRC_PLAN_COLD_STEP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/plan/hotness.h"
#include "src/plan/layout.h"
#include "src/plan/predictor.h"
#include "src/plan/slab_section.h"
#include "src/plan/step_play.h"

namespace ebt::plan {

struct ColdStep {
  std::vector<uint32_t> lives;    // of the steady step, indices into Timeline::lives
  std::vector<ColdBlock> blocks;  // the same, with how and when they are used
};

// Blocks that live across steps and that nothing of the optimizer's window names: parameters that
// are frozen, and what the model alone uses. Of each Lived.
std::vector<bool> Unchanging(const Timeline& timeline, const Behaviour& behaviour);

// Plays the step with the blocks of `swapped` in their slabs and the others managed. Of a touch in
// place nobody can say whether it reads or writes: the first one of a block that the step makes
// writes, those behind it and those of unchanging blocks read, others do both. With a layout it is
// known who gets a slab's place next, and that one waits for the copy out; without (null), the
// launch does from which on somebody may.
Prediction PredictStep(const profile::Profile& profile, const Timeline& timeline,
                       const StepClock& clock, const DeviceModel& device, const ColdStep& cold,
                       const std::vector<Tier>& tiers, const SlabSection& swapped,
                       const Layout* layout, const std::vector<bool>& unchanging);

// Why a step takes longer than it must, largest cause first, for people; empty where it does not
// take `tolerance` longer than `bound_ms`.
std::string WhySlower(const profile::Profile& profile, const Timeline& timeline,
                      const ColdStep& cold, const SlabSection& swapped,
                      const Prediction& prediction, double bound_ms, double tolerance);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_COLD_STEP_H_
