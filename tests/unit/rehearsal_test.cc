#include "src/plan/rehearsal.h"

#include <gtest/gtest.h>

#include "tests/unit/training_profile.h"

namespace ebt::plan {
namespace {

using profile::ProfileBuilder;

Slot At(uint64_t site, uint64_t bytes, uint64_t offset, uint64_t room = 0) {
  Slot slot{.site = site, .fingerprint = site * 16, .bytes = bytes, .offset = offset};
  slot.room_bytes = room;
  return slot;
}

Plan Uneven(std::vector<Slot> step) {
  Plan plan;
  plan.uneven = true;
  plan.warm_bytes = 2 << 20;
  plan.step = std::move(step);
  return plan;
}

TEST(RehearsalTest, BlocksOfARoomLieOneBehindTheOther) {
  const Plan plan = Uneven({At(1, 1024, 0, 2048), At(2, 1024, 0, 2048)});
  ProfileBuilder run;
  for (uint64_t bytes : {512, 1536, 1024}) {
    const uint32_t a = run.Alloc(bytes, 1), b = run.Alloc(2048 - bytes, 2);
    run.Launch(1, {a, b});
    run.Free(a);
    run.Free(b);
  }
  const Rehearsal rehearsal = Rehearse(run.profile, plan);
  EXPECT_EQ(rehearsal.placed, 6u);
  EXPECT_EQ(rehearsal.displaced, 0u);
  EXPECT_EQ(rehearsal.dynamic_bytes, 0u);
}

TEST(RehearsalTest, WhatHasNoPlaceTakesTheHolesOfTheWarmRegionFirst) {
  const Plan plan = Uneven({At(1, 1024, 0)});
  ProfileBuilder run;
  const uint32_t a = run.Alloc(1024, 1), b = run.Alloc((2 << 20) - 1024, 7);
  EXPECT_EQ(Rehearse(run.profile, plan).dynamic_bytes, 0u);
  run.Alloc(4096, 7);
  const Rehearsal rehearsal = Rehearse(run.profile, plan);
  EXPECT_EQ(rehearsal.dynamic_bytes, 4096u);
  EXPECT_EQ(rehearsal.unknown, 2u);
  run.Free(b);
  run.Free(a);
}

TEST(RehearsalTest, WhereStepsAreEqualTheDynamicPartIsApart) {
  Plan plan = Uneven({At(1, 1024, 0)});
  plan.uneven = false;
  ProfileBuilder run;
  run.Free(run.Alloc(1024, 7));
  run.Alloc(1024, 1);
  run.Alloc(1024, 1);  // its place is taken
  const Rehearsal rehearsal = Rehearse(run.profile, plan);
  EXPECT_EQ(rehearsal.placed, 1u);
  EXPECT_EQ(rehearsal.displaced, 1u);
  EXPECT_EQ(rehearsal.unknown, 1u);
  EXPECT_EQ(rehearsal.dynamic_bytes, 1024u);
}

TEST(RehearsalTest, LinearMemoryThatNoPlanKnowsIsTheDrivers) {
  const Plan plan = Uneven({At(1, 1024, 0)});
  ProfileBuilder run;
  run.Alloc(1000, 7, profile::AllocKind::kLinear);
  const Rehearsal rehearsal = Rehearse(run.profile, plan);
  EXPECT_EQ(rehearsal.native_bytes, 1024u);
  EXPECT_EQ(rehearsal.dynamic_bytes, 0u);
}

}  // namespace
}  // namespace ebt::plan
