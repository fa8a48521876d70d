// Which moments of a memory tell its course, where there are too many to tell them all.
#ifndef EBBTIDE_SRC_REPORT_TRACE_COUNTERS_H_
#define EBBTIDE_SRC_REPORT_TRACE_COUNTERS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "src/profile/kinds.h"
#include "src/profile/types.h"
#include "src/report/memory_spaces.h"

namespace ebt::report {

class CounterPlaces {
 public:
  struct Place {
    uint64_t event = 0;
    uint64_t all = 0;                               // live bytes right behind it
    std::array<uint64_t, profile::kKinds> bytes{};  // of each kind
    std::array<bool, profile::kKinds> changed{};    // since the place before
  };

  // Of the memory `space`. Its changes are cut into at most `stretches` stretches of equally many.
  CounterPlaces(const profile::Profile& profile, const std::vector<profile::Kind>& kinds,
                const MemorySpaces& memory, uint32_t space, uint64_t stretches);

  // Whether a stretch has more than one change.
  bool thinned() const { return length_ > 1; }

  // In order of events: of each stretch the largest moment (the first of equal ones) and the end,
  // where these are two.
  void ForEach(const std::function<void(const Place&)>& take) const;

 private:
  // What an event does to the memory.
  struct Change {
    uint64_t event = 0;
    size_t kind = 0;
    uint64_t bytes = 0;
    bool adds = false;
  };

  static void Apply(const Change& change, Place& place);

  std::vector<Change> changes_;
  uint64_t length_ = 1;  // changes of a stretch
};

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_TRACE_COUNTERS_H_
