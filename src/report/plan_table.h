// A plan for people, in a terminal.
#ifndef EBBTIDE_SRC_REPORT_PLAN_TABLE_H_
#define EBBTIDE_SRC_REPORT_PLAN_TABLE_H_

#include <string>

#include "src/plan/planner.h"

namespace ebt::report {

// What the plan saves, what it costs, where blocks go and which sites they come from: at most
// 100 columns wide, no colours, ends with a newline. top_sites: how many sites are listed.
std::string PlanTable(const plan::PlanResult& result, size_t top_sites = 12);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_PLAN_TABLE_H_
