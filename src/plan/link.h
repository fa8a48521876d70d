// The link between host and device as the copy engines and kernels share it: one copy at a time
// each way, in the order in which they were asked for, and kernels that use host memory in place.
#ifndef EBBTIDE_SRC_PLAN_LINK_H_
#define EBBTIDE_SRC_PLAN_LINK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "src/plan/device.h"

namespace ebt::plan {

// Time is milliseconds and only goes forward. Copies both ways at once are slower than one alone; a
// copy and a kernel in place that go the same way at the same time have half of their speed each.
class Link {
 public:
  enum class Direction : uint8_t { kIn, kOut };
  using Job = size_t;
  static constexpr Job kNoJob = ~size_t{0};

  explicit Link(const DeviceModel& device) : device_(device) {}

  // Asks for a copy now. It begins when those before it in its direction are through, and `after`
  // is. `managed`: a prefetch, not a copy.
  Job Copy(Direction direction, uint64_t bytes, bool managed, Job after = kNoJob);
  // A copy that need not be made.
  Job Nothing();

  double now() const { return now_; }
  bool Done(Job job) const { return job == kNoJob || jobs_[job].done; }
  void AdvanceTo(double ms);
  // Returns when `job` is through.
  void Await(Job job);
  // A kernel moves so many bytes each way in place; returns when it has.
  void InPlace(uint64_t in, uint64_t out);

 private:
  struct Request {
    double left = 0;             // bytes
    double alone = 0, both = 0;  // bytes a second
    Job after = kNoJob;
    bool done = false;
  };
  static constexpr double kForever = 1e300;

  // The copy that is under way in a direction; kNoJob: none.
  Job Head(Direction direction) const;
  // Goes on for at most `ms`, until something ends.
  void Progress(double ms);
  void Take(Direction direction, Job job, double rate, double ms);
  void TakeInPlace(size_t way, double rate, double ms);

  const DeviceModel& device_;
  double now_ = 0;
  std::array<double, 2> in_place_left_ = {};  // bytes each way
  std::vector<Request> jobs_;
  std::array<std::deque<Job>, 2> queues_;
};

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_LINK_H_
