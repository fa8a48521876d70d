// What `ebbtide plan --explain` prints.
#ifndef EBBTIDE_SRC_REPORT_EXPLAIN_TABLE_H_
#define EBBTIDE_SRC_REPORT_EXPLAIN_TABLE_H_

#include <string>

#include "src/plan/explain.h"

namespace ebt::report {

// The site's figures, then a paragraph a block: no colours, ends with a newline.
std::string ExplainTable(const plan::Explanation& explanation);

// The same numbers as one JSON object; names are those of the plan file where it has them.
std::string ExplainJson(const plan::Explanation& explanation);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_EXPLAIN_TABLE_H_
