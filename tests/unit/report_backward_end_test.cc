#include <gtest/gtest.h>

#include "src/base/units.h"
#include "src/report/backward_end.h"
#include "tests/unit/training_profile.h"

namespace ebt::report {
namespace {

using namespace ebt::profile;

// One launch a millisecond, and a mark behind each, so that the clock is exact.
class Job : public ProfileBuilder {
 public:
  void Run(uint32_t function) {
    Launch(function, {});
    Mark();
  }
  uint32_t Make(uint64_t bytes, Kind kind) {
    kinds.push_back(kind);
    return Alloc(bytes, 1);
  }
  void BeginStep() {
    Step();
    steps.start_events.push_back(profile.events.size() - 1);
  }
  void End() {
    BeginStep();
    Run(0);
    steps.steps = steps.start_events.size() - 1;
  }
  std::vector<double> Ends() const {
    return BackwardEnds(profile, steps, kinds, plan::GpuClock(profile));
  }

  Steps steps;
  std::vector<Kind> kinds;
};

// Two layers forward, the loss, two backward, then `tail` launches of the optimizer.
void Train(Job& job, int tail) {
  job.BeginStep();
  job.Mark();
  const uint32_t a = job.Make(4 * kMiB, Kind::kActivation);
  job.Run(0);
  const uint32_t b = job.Make(4 * kMiB, Kind::kActivation);
  job.Run(1);
  const uint32_t loss = job.Make(512, Kind::kActivation);
  job.Run(2);
  job.Run(3);
  job.Free(b);
  job.Run(4);
  job.Free(a);
  for (int i = 0; i < tail; ++i) job.Run(5);
  job.Free(loss);
}

TEST(BackwardEnd, IsTheLaunchBehindWhichTheLastActivationGoes) {
  Job job;
  job.Mark();
  for (int i = 0; i < 3; ++i) Train(job, 2);
  job.End();
  // A hundredth of 8 MiB is more than the loss, which lives on.
  EXPECT_EQ(job.Ends(), (std::vector<double>{5, 5, 5}));
}

TEST(BackwardEnd, IsThatOfTheLastMicroStep) {
  Job job;
  job.Mark();
  job.BeginStep();
  job.Mark();
  for (int micro = 0; micro < 3; ++micro) {
    const uint32_t a = job.Make(kMiB, Kind::kActivation);
    job.Run(0);
    job.Run(1);
    job.Free(a);
  }
  job.Run(2);
  job.End();
  EXPECT_EQ(job.Ends(), (std::vector<double>{6}));
}

TEST(BackwardEnd, IsUnknownWithoutActivations) {
  Job job;
  job.Mark();
  job.BeginStep();
  job.Mark();
  job.Run(0);
  job.Free(job.Make(kMiB, Kind::kGradient));
  job.Run(1);
  job.End();
  EXPECT_TRUE(job.Ends().empty());
}

TEST(BackwardEnd, IsUnknownWithoutGpuTime) {
  Job job;
  Train(job, 2);
  job.End();
  std::erase_if(job.profile.events, [](const Event& e) { return e.kind == EventKind::kMark; });
  job.steps.start_events = {0, job.profile.events.size() - 2};
  EXPECT_TRUE(job.Ends().empty());
}

}  // namespace
}  // namespace ebt::report
