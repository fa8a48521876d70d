// What EBBTIDE_COVERAGE wrote, and what a client of front_matrix.h printed.
#ifndef EBBTIDE_TESTS_PRELOAD_FRONT_COUNTS_H_
#define EBBTIDE_TESTS_PRELOAD_FRONT_COUNTS_H_

#include <stdint.h>

#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace ebt::test {

// Calls of each exported symbol by each way: counts["cuMemAlloc_v2"]["dlsym"]; no zeros.
using Counts = std::map<std::string, std::map<std::string, uint64_t>>;

struct CoverageFile {
  Counts counts;
  std::map<std::string, std::vector<std::string>> unseen;  // symbols by library
  int processes = 0;
  bool operator==(const CoverageFile&) const = default;
};
// Every line must be one of those of src/runtime/coverage.h; of all processes together.
CoverageFile ReadCoverage(const std::string& path);

struct Answer {
  std::string request, reached, result, file;
};
struct Answers {
  std::vector<Answer> lines;
  std::map<std::string, uint64_t> totals;  // the driver's own count by export
};
Answers ReadAnswers(const std::string& text);

// What the front is to have counted where a program got `native` answers without it, each called
// once and found by `way`.
Counts ExpectedCounts(const Answers& native, const std::string& way);

// The preloaded program got for each request the function that it got natively, with the front in
// between where that is hooked.
void ExpectSameFunctions(const Answers& native, const Answers& hooked);

}  // namespace ebt::test

#endif  // EBBTIDE_TESTS_PRELOAD_FRONT_COUNTS_H_
