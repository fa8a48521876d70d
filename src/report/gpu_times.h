// The GPU's time along a whole recording, for pictures of it.
#ifndef EBBTIDE_SRC_REPORT_GPU_TIMES_H_
#define EBBTIDE_SRC_REPORT_GPU_TIMES_H_

#include <cstdint>
#include <vector>

#include "src/profile/types.h"

namespace ebt::report {

// A time is known where the recorder put a mark, every 64 launches or so. Between two marks it is
// interpolated, every event taking equally long; before the first and behind the last one events
// take as long as they do on average. So a time inside a stretch is an estimate.
class GpuTimes {
 public:
  struct Point {
    uint64_t event = 0;
    double ms = 0;
  };

  // O(events).
  explicit GpuTimes(const profile::Profile& profile);

  // Whether the recording has two marks with time between them; without, a millisecond is an event.
  bool known() const { return known_; }
  // Of an event index up to and with the number of events. Never falls. O(log marks).
  double At(uint64_t event) const;
  // The line that At follows: at least two points, the first at event 0, the last behind all
  // events.
  const std::vector<Point>& points() const { return points_; }

 private:
  bool known_ = false;
  std::vector<Point> points_;
};

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_GPU_TIMES_H_
