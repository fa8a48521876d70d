// Where the steps of a running program end, as far as that can be told while it runs.
#ifndef EBBTIDE_SRC_RECORD_STEP_CLOCK_H_
#define EBBTIDE_SRC_RECORD_STEP_CLOCK_H_

#include <cstdint>

#include "src/profile/snapshot.h"
#include "src/profile/steps.h"

namespace ebt::record {

// Marks win for good. Without any, a period of the launches that has been found counts on from
// there; one of more than 32768 is not found. Until then a "step" is kSlice launches. Not
// thread-safe. Holds 1 MiB at most, and 2 more while it looks.
class StepClock {
 public:
  static constexpr uint64_t kSlice = 4096;

  // A launch, before which live_bytes are live. True: it is the first of another step.
  bool Launched(uint64_t symbol, uint64_t live_bytes);
  // The same of several, where nobody knows what was launched: no period is looked for.
  bool LaunchedBare(uint64_t launches = 1);
  // A mark. True: it ends a step that has launches, or, the first one, what was no step.
  bool Marked();

  profile::StepsBy by() const { return by_; }
  // Launches of the step so far.
  uint64_t launches() const { return launches_; }

 private:
  void LookForPeriod();

  profile::StepsBy by_ = profile::StepsBy::kLaunches;
  uint64_t length_ = kSlice;
  uint64_t launches_ = 0;
  profile::StepDetector detector_;
  uint64_t next_check_ = 256;
};

}  // namespace ebt::record

#endif  // EBBTIDE_SRC_RECORD_STEP_CLOCK_H_
