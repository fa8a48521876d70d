// Every step of a recording, also where no two are alike: sequences of other lengths, evaluations
// in between, an optimizer that skips.
//
// FindSteps looks for what repeats; here the anchor is what happens once a step: the window in
// which an optimizer goes through its parameters (usage.h). Micro-steps of gradient accumulation
// have no window of their own. Of several optimizers that take turns, with or without the same
// frequency, the rarest one ends the step, of equally frequent ones the last.
#ifndef EBBTIDE_SRC_PROFILE_STEP_SPANS_H_
#define EBBTIDE_SRC_PROFILE_STEP_SPANS_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/profile/phases.h"
#include "src/profile/steps.h"
#include "src/profile/types.h"
#include "src/profile/usage.h"

namespace ebt::profile {

enum class StepKind : uint8_t {
  kTraining,
  kSkipped,     // forward and backward whose gradients no optimizer has used
  kEvaluation,  // the model's work without backward, one span however many batches; no step
  kPlain,       // repeats, but no optimizer was seen
};
// "training", "skipped" ...
std::string_view StepKindName(StepKind kind);

struct StepSpan {
  uint64_t begin = 0, end = 0;  // events [begin, end); begins right behind a launch
  uint64_t launches = 0;
  StepKind kind = StepKind::kTraining;
};

// All steps in order, apart from each other; set-up, evaluation and an unfinished last step lie
// outside the steps. ebbtide_step() marks win: then a step reaches from one mark to the next, the
// last one to its optimizer's window or, where no optimizer is seen, to the end. Without marks and
// without an optimizer the spans are those of FindSteps, or reach from one launch of a CUDA graph
// to the next. O(launches * log + events).
std::vector<StepSpan> FindStepSpans(const Profile& profile);

// The steady part of a recording: FindSteps, or steps of FindStepSpans that follow each other and
// are equal launch by launch, at least half of all: short ones behind a long set-up are too few
// launches for the former. Nothing where steps differ; *spans, not null, has them then.
std::optional<Steps> FindSteadySteps(const Profile& profile, std::vector<StepSpan>* spans);

// The same for callers that have the parts already.
std::vector<StepSpan> FindStepSpans(const Profile& profile, const BlockTouches& touches,
                                    const Usage& usage, const std::vector<Cycle>& cycles);

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_STEP_SPANS_H_
