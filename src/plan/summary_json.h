// What a plan promises, for programs.
#ifndef EBBTIDE_SRC_PLAN_SUMMARY_JSON_H_
#define EBBTIDE_SRC_PLAN_SUMMARY_JSON_H_

#include <string>

#include "src/plan/planner.h"
#include "src/plan/ranks.h"

namespace ebt::plan {

// One JSON object, as `ebbtide plan --json` prints it: the summary, and in "ranks" an object for
// each recording that was compared with the planned one, whose own figures are in "planned" then.
// survey: null where there was one recording only.
std::string SummaryJson(const PlanSummary& summary, const RankSurvey* survey = nullptr);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_SUMMARY_JSON_H_
