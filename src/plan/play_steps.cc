// Recordings cut at their steps.
#include <algorithm>
#include <vector>

#include "src/plan/play.h"
#include "src/profile/step_spans.h"

namespace ebt::plan {
namespace {

std::vector<profile::StepSpan> Steps(const profile::Profile& profile) {
  std::vector<profile::StepSpan> spans = profile::FindStepSpans(profile);
  std::erase_if(spans, [](const profile::StepSpan& span) {
    return span.kind == profile::StepKind::kEvaluation;
  });
  return spans;
}

}  // namespace

uint64_t CountSteps(const profile::Profile& profile) { return Steps(profile).size(); }

uint64_t StepBegin(const profile::Profile& profile, uint64_t step) {
  const std::vector<profile::StepSpan> spans = Steps(profile);
  return step < spans.size() ? spans[step].begin : profile.events.size();
}

profile::Profile FirstSteps(const profile::Profile& profile, uint64_t steps) {
  const uint64_t end = StepBegin(profile, steps);
  profile::Profile cut = profile;
  cut.events.resize(std::min<uint64_t>(end, cut.events.size()));
  std::erase_if(cut.blocks, [end](const profile::Block& block) { return block.alloc_at >= end; });
  for (profile::Block& block : cut.blocks) {
    if (block.free_at >= end) block.free_at = profile::kNever;
  }
  return cut;
}

}  // namespace ebt::plan
