// Whether one rank's plan suits the other ranks of its job: their recordings side by side.
//
// A rank's allocations are what its plan would place: those of one steady step, and the persistent
// ones made before it. An allocation has a match in another recording when its site, its ordinal
// among that site's allocations (of the step; of the persistent ones) and its size are the same.
// Steps are laid over each other by their launches, since two recordings of one loop may put
// the beginning of a step at different places of it.
#ifndef EBBTIDE_SRC_PLAN_RANKS_H_
#define EBBTIDE_SRC_PLAN_RANKS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/profile/types.h"

namespace ebt::plan {

struct Amount {
  uint64_t blocks = 0;
  uint64_t bytes = 0;  // as requested

  bool operator==(const Amount&) const = default;
};

// What is compared number by number.
struct RankFigures {
  std::string program;    // ProgramIdentity of the recorded process
  uint64_t steps = 0;     // whole steps found
  uint64_t launches = 0;  // of a step
  uint64_t native_peak_bytes = 0;
  uint64_t total_bytes = 0;  // of the device; 0: unknown
  Amount step;
  Amount persistent;

  bool operator==(const RankFigures&) const = default;
};

struct Rank {
  std::string source;  // the profile's name, for people
  std::optional<uint64_t> number;
  bool truncated = false;  // the recording ends early
  RankFigures figures;
};

// Enough of a recording for a comparison, without its events.
struct RankRecording {
  struct Allocation {
    uint64_t site = 0;
    uint64_t bytes = 0;
    uint32_t launch = 0;  // of the step, 0-based: the one that it comes before
  };
  Rank rank;
  std::vector<Allocation> step;            // in order
  std::vector<Allocation> persistent;      // in order
  std::vector<uint64_t> launches;          // of a step: equal numbers, equal kernels and dimensions
  std::map<uint64_t, std::string> labels;  // of sites
};

// Allocations of one recording that have no match in another, the site with most bytes first.
struct Unmatched {
  struct Site {
    uint64_t id = 0;
    std::string label;
    Amount amount;
  };
  Amount amount;
  std::vector<Site> sites;
};

struct RankComparison {
  Rank rank;
  Unmatched step;                // made here, not by the planned rank
  Unmatched step_missing;        // the other way round
  Unmatched persistent;          // likewise
  Unmatched persistent_missing;  // likewise
  bool alike = true;             // no number differs, and everything has a match
};

// What is known of a job's ranks once one of them is planned.
struct RankSurvey {
  struct Unread {
    std::string source;
    std::string reason;  // one line, names the source
  };
  Rank planned;
  std::vector<RankComparison> others;  // by rank
  std::vector<Unread> unread;          // recordings without a comparison
};

// `source`: the profile's name. Errors: those of BuildTimeline.
absl::StatusOr<RankRecording> SummarizeRank(const profile::Profile& profile,
                                            const std::string& source);

// Whether `a` is to be planned rather than `b`, which was given later: the lower rank is, the one
// given first of equal ones, and one of an unknown rank only where no other is known.
bool PlannedBefore(const Rank& a, const Rank& b);

RankComparison CompareRanks(const RankRecording& planned, const RankRecording& other);

// Of recordings in the order in which they were given, at least one: the one to be planned, and all
// others by rank.
RankSurvey SurveyRanks(std::vector<RankRecording> recordings);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_RANKS_H_
