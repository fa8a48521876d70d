// How the ranks of a job differ from the one that is planned, for people.
#ifndef EBBTIDE_SRC_REPORT_RANK_TABLE_H_
#define EBBTIDE_SRC_REPORT_RANK_TABLE_H_

#include <string>

#include "src/plan/ranks.h"

namespace ebt::report {

// One line for a rank that is alike, else a line for each difference and, of what the plan does not
// know, the largest sites. At most 100 columns wide, no colours, ends with a newline. What could
// not be read is counted only. top_sites: how many sites are listed at each place.
std::string RankTable(const plan::RankSurvey& survey, size_t top_sites = 4);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_RANK_TABLE_H_
