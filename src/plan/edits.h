// What people change about a plan: sites pinned to a tier or excluded, and how that outlives the
// next planning.
#ifndef EBBTIDE_SRC_PLAN_EDITS_H_
#define EBBTIDE_SRC_PLAN_EDITS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/plan/plan.h"
#include "src/plan/planner.h"
#include "src/profile/types.h"

namespace ebt::plan {

// The sites that allocated something in the recording, with their labels; most bytes first.
std::vector<Site> RecordedSites(const profile::Profile& profile);

// The site that `name` means: its number ("0x1f"), its whole label, or a part of one label alone.
// The error of what is not there or ambiguous says which sites it could be.
absl::StatusOr<Site> FindSite(const std::vector<Site>& sites, std::string_view name);

// --pin SITE=TIER: hot, warm or cold; "none" lifts an edit of an older plan.
absl::Status AddPin(const std::vector<Site>& sites, std::string_view pin, PlanOptions* options);
// --exclude SITE.
absl::Status AddExclusion(const std::vector<Site>& sites, std::string_view name,
                          PlanOptions* options);

// Writes pins and exclusions into the plan's list of sites, which gets those that it lacks.
void MarkEdits(const PlanOptions& options, Plan& plan);

// What an older plan handed on.
struct Update {
  uint64_t budget = 0;   // 0: it had none, or another was given
  bool weights = false;  // and the threshold and the shares
  uint64_t pins = 0;
  uint64_t exclusions = 0;
  uint64_t cleared = 0;  // sites, counted once in each clearance
  std::vector<std::string>
      dropped;  // each with its reason: "the pin of 0x1f (not in the recording)"
};

// Fills `options` with the budget, the rule of hotness and the edits of `old`; call it before
// anything that is given anew. Edits of sites that the recording lacks are dropped.
Update TakeOver(const Plan& old, const std::vector<Site>& recorded, PlanOptions* options);

// Counts what `options` still have of `old`, once everything that is given anew is in them.
void CountKept(const Plan& old, const PlanOptions& options, Update* update);

// Copies the clearances of `old` into `plan` as far as their sites still have blocks in its slabs.
void KeepClearances(const Plan& old, Plan* plan, Update* update);

// In one line: "kept of a.plan.json: the budget of 24.0 GiB, 2 pins; no longer applies: …".
std::string UpdateText(const Update& update, const std::string& old_file);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_EDITS_H_
