// Which sites of many make trial runs fail, in few runs. The runs themselves are the caller's.
#ifndef EBBTIDE_SRC_CLI_BISECT_H_
#define EBBTIDE_SRC_CLI_BISECT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/cli/trial_watch.h"

namespace ebt::cli {

struct TrialResult {
  enum class Verdict {
    kPassed,
    kFailed,     // `fault` says how
    kUnwatched,  // it ended well, before a step in which everything had been named was over
  };
  Verdict verdict = Verdict::kPassed;
  TrialFault fault;
  uint64_t steps = 0;               // watched
  std::vector<uint64_t> untouched;  // sites that nobody named
};

struct Refusal {
  uint64_t site = 0;
  bool untouched = false;  // never named, so that nothing can be said; else `fault`
  TrialFault fault;
};

struct Findings {
  std::vector<uint64_t> cleared;  // all of them were on trial together in one run that passed
  std::vector<Refusal> refused;
  uint64_t steps = 0;  // watched in that run
};

using Trials = std::function<absl::StatusOr<TrialResult>(const std::vector<uint64_t>& sites)>;

// Puts all sites on trial; where that fails halves, each together with what has been cleared so
// far, down to single sites. After the first failure one run with no site on trial tells whether
// the job fails by itself, which is an error, as is a run that says nothing.
absl::StatusOr<Findings> FindHiddenAccesses(const std::vector<uint64_t>& sites,
                                            const Trials& trials);

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_BISECT_H_
