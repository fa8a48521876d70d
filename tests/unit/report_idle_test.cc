// Steps of ten launches, each naming what the test says.
#include <gtest/gtest.h>

#include <functional>

#include "src/report/idle.h"
#include "tests/unit/training_profile.h"

namespace ebt::report {
namespace {

using namespace ebt::profile;

constexpr uint64_t kLaunches = 10;

class TenLaunches : public ProfileBuilder {
 public:
  // names(step, launch): what that launch names.
  void Run(int count, const std::function<std::vector<uint32_t>(int, uint64_t)>& names) {
    steps.period = kLaunches;
    steps.first_launch = launches;
    for (int step = 0; step < count; ++step) {
      steps.start_events.push_back(profile.events.size());
      for (uint64_t i = 0; i < kLaunches; ++i) Launch(uint32_t(i), names(step, i));
    }
    steps.start_events.push_back(profile.events.size());
    steps.steps = uint64_t(count);
  }

  bool Idle(uint32_t block, uint64_t step) {
    return FindIdle(profile, steps, steps.start_events[step] + 5, {block})[0];
  }

  Steps steps;
};

std::vector<uint32_t> If(bool named) {
  return named ? std::vector<uint32_t>{0} : std::vector<uint32_t>{};
}

TEST(Idle, HalfAStepUntouchedIsNotMoreThanHalf) {
  for (const auto& [second, idle] :
       {std::pair{5, false}, std::pair{6, false}, std::pair{7, true}}) {
    TenLaunches job;
    job.Alloc(512, 1);
    // Untouched between launch 0 and the second: 4, 5, 6; behind that up to the next step: less.
    job.Run(5, [second = second](int, uint64_t i) { return If(i == 0 || i == uint64_t(second)); });
    EXPECT_EQ(job.Idle(0, 2), idle) << second;
  }
}

TEST(Idle, AStretchRunsOverTheEndOfAStep) {
  TenLaunches job;
  job.Alloc(512, 1);
  // Launches 5 to 9 and 0 to 1: seven.
  job.Run(5, [](int, uint64_t i) { return If(i >= 2 && i <= 4); });
  EXPECT_TRUE(job.Idle(0, 2));
}

TEST(Idle, WhatNothingTouchesIsIdle) {
  TenLaunches job;
  job.Alloc(512, 1);
  job.Run(5, [](int, uint64_t) { return If(false); });
  EXPECT_TRUE(job.Idle(0, 2));
}

TEST(Idle, ABlockIsNotIdleForLongerThanItLives) {
  TenLaunches job;
  const uint32_t block = job.Alloc(512, 1);
  job.Run(1, [](int, uint64_t i) { return If(i == 4); });
  // Freed behind the fifth launch behind its last touch.
  job.profile.blocks[block].alloc_at = 0;
  job.profile.blocks[block].free_at = job.steps.start_events[0] + kLaunches;
  EXPECT_FALSE(job.Idle(block, 0));
}

TEST(Idle, ACopyIsATouchAsWell) {
  TenLaunches job;
  const uint32_t block = job.Alloc(512, 1);
  job.steps = {.first_launch = 0, .period = kLaunches, .steps = 4};
  for (int step = 0; step < 4; ++step) {
    job.steps.start_events.push_back(job.profile.events.size());
    for (uint64_t i = 0; i < kLaunches; ++i) {
      if (i == 5) job.Copy(block);
      job.Launch(uint32_t(i), If(i == 0));
    }
  }
  job.steps.start_events.push_back(job.profile.events.size());
  // Untouched: launches 1 to 4 before the copy, 5 to 9 behind it.
  EXPECT_FALSE(job.Idle(block, 1));
}

TEST(Idle, AWordThatNamesABlockOnceIsNoTouch) {
  TenLaunches job;
  job.Alloc(512, 1);
  job.Run(5, [](int step, uint64_t i) { return If(i == 0 || (step == 2 && i == 5)); });
  EXPECT_TRUE(job.Idle(0, 2));
}

TEST(Idle, WhatMostStepsTouchIsTouchedThere) {
  TenLaunches job;
  job.Alloc(512, 1);
  job.Run(5, [](int step, uint64_t i) { return If(i == 0 || (step >= 2 && i == 5)); });
  EXPECT_FALSE(job.Idle(0, 3));
}

TEST(Idle, WithTwoStepsEveryTouchCounts) {
  TenLaunches job;
  job.Alloc(512, 1);
  job.Run(2, [](int step, uint64_t i) { return If(i == 0 || i == 9 || (step == 0 && i == 5)); });
  EXPECT_FALSE(FindIdle(job.profile, job.steps, job.steps.start_events[0] + 1, {0})[0]);
}

TEST(Idle, WhatAGraphMayUseUnseenIsNeverIdle) {
  TenLaunches job;
  const uint32_t block = job.Alloc(512, 1);
  job.profile.blocks[block].kept = true;
  job.Run(5, [](int, uint64_t) { return If(false); });
  EXPECT_FALSE(job.Idle(block, 2));
}

TEST(Idle, EachBlockIsJudgedByItself) {
  TenLaunches job;
  const uint32_t busy = job.Alloc(512, 1), idle = job.Alloc(512, 1);
  job.Run(5, [&](int, uint64_t) { return std::vector<uint32_t>{busy}; });
  EXPECT_EQ(FindIdle(job.profile, job.steps, job.steps.start_events[2], {idle, busy}),
            (std::vector<bool>{true, false}));
}

}  // namespace
}  // namespace ebt::report
