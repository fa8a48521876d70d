#include "src/record/step_clock.h"

#include <algorithm>

namespace ebt::record {
namespace {

using profile::StepsBy;

// A look at the history costs time in proportion to it.
constexpr uint64_t kMostHistory = uint64_t{1} << 16;

}  // namespace

bool StepClock::Launched(uint64_t symbol, uint64_t live_bytes) {
  bool ended = false;
  if (by_ == StepsBy::kLaunches) {
    detector_.Add(symbol, live_bytes);
    if (detector_.launches() >= next_check_) LookForPeriod();
    ended = by_ == StepsBy::kPeriod;  // what came before is no step
    if (ended) launches_ = 0;
  }
  return LaunchedBare() || ended;
}

bool StepClock::LaunchedBare(uint64_t launches) {
  const bool ended = by_ != StepsBy::kMarks && launches_ >= length_;
  if (ended) launches_ = 0;
  launches_ += launches;
  return ended;
}

bool StepClock::Marked() {
  const bool ended = launches_ > 0 || by_ != StepsBy::kMarks;
  if (by_ != StepsBy::kMarks) detector_ = {};
  by_ = StepsBy::kMarks;
  launches_ = 0;
  return ended;
}

void StepClock::LookForPeriod() {
  if (const auto found = detector_.Check(); found.has_value()) {
    by_ = StepsBy::kPeriod;
    length_ = found->period;
  } else if (detector_.launches() < kMostHistory) {
    next_check_ = detector_.launches() + std::max<uint64_t>(256, detector_.launches() / 4);
    return;
  }
  detector_ = {};
  next_check_ = 256;
}

}  // namespace ebt::record
