#include "src/profile/snapshot_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/units.h"

namespace ebt::profile {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// 60 of 80 GiB are live and reserved, 2 are the context's; 18 are free.
Snapshot Ordinary() {
  Snapshot it;
  it.metadata["profile"] = "job.ebp";
  it.total_bytes = 80 * kGiB;
  it.free_bytes = 18 * kGiB;
  it.live_bytes = it.reserved_bytes = 60 * kGiB;
  it.sites.largest = {{1, 10 * kGiB, 1, 0, 0}};
  it.refusal = {.bytes = 20 * kGiB};
  return it;
}

TEST(Advice, ThereIsAlwaysSome) {
  EXPECT_THAT(Advice(Ordinary()), ElementsAre(HasSubstr("Nothing stands out")));
  EXPECT_THAT(Advice({}), ElementsAre(HasSubstr("Nothing stands out")));
}

// 80 GiB less 2 of the context's could be free.
TEST(Advice, RequestBeyondWhatTheDeviceCouldGiveIsAllThatIsSaid) {
  Snapshot it = Ordinary();
  it.persistent_bytes = 50 * kGiB;
  it.refusal->bytes = 79 * kGiB;
  EXPECT_THAT(Advice(it), ElementsAre(AllOf(HasSubstr("79.00 GiB at once"),
                                            HasSubstr("held nothing (78.00 GiB)"))));
  it.refusal->bytes = 78 * kGiB;
  EXPECT_THAT(Advice(it), AllOf(Contains(HasSubstr("78.00 GiB at once is most of the device")),
                                Contains(HasSubstr("have lived through whole steps"))));
  it.refusal->bytes = 40 * kGiB;
  EXPECT_THAT(Advice(it), Each(Not(HasSubstr("at once"))));
}

// 80 - 8 - 60 = 12 GiB are exactly 15 % of the device.
TEST(Advice, OthersAreNamedWhereTheyHoldMuch) {
  Snapshot it = Ordinary();
  it.free_bytes = 8 * kGiB;
  EXPECT_THAT(Advice(it), Contains(AllOf(HasSubstr("12.00 GiB of the device's 80.00 GiB"),
                                         HasSubstr("nvidia-smi"))));
  it.free_bytes = 8 * kGiB + 1;
  EXPECT_THAT(Advice(it), Each(Not(HasSubstr("nvidia-smi"))));
}

// 18 GiB are free of the device and 4 in the pool: 20 would fit if it were one piece.
TEST(Advice, ScatteredMemoryIsToBePacked) {
  Snapshot it = Ordinary();
  it.fragmentation = {4 * kGiB, kGiB, 7};
  EXPECT_THAT(Advice(it), Contains(AllOf(HasSubstr("4.00 GiB lie free"), HasSubstr("7 pieces"),
                                         HasSubstr("`ebbtide plan job.ebp --budget SIZE`"))));
  it.fragmentation = {4 * kGiB, 3 * kGiB, 7};
  EXPECT_THAT(Advice(it), Each(Not(HasSubstr("lie free")))) << "most of it is one piece";
}

TEST(Advice, PersistentMemoryIsToBePlannedAndTheStepsOwnToBeMadeSmaller) {
  Snapshot it = Ordinary();
  it.persistent_bytes = 30 * kGiB;
  EXPECT_THAT(Advice(it), Contains(HasSubstr("30.00 GiB (50 %) have lived through whole steps")));
  it.persistent_bytes = 12 * kGiB;
  EXPECT_THAT(Advice(it), Contains(AllOf(HasSubstr("48.00 GiB (80 %) were allocated within"),
                                         HasSubstr("checkpointing"))));
}

TEST(Advice, IdleMemoryCanWaitOnTheHost) {
  Snapshot it = Ordinary();
  it.persistent_bytes = 40 * kGiB;
  it.idle_bytes = 15 * kGiB;
  EXPECT_THAT(Advice(it), Contains(AllOf(HasSubstr("15.00 GiB (25 %)"), HasSubstr("on the host"))));
}

TEST(Advice, OneSiteThatHoldsHalfIsNamed) {
  Snapshot it = Ordinary();
  it.sites.largest = {{1, 30 * kGiB, 4, 0, 0}};
  EXPECT_THAT(Advice(it), Contains(HasSubstr("One site holds 30.00 GiB in 4 blocks (50 %)")));
}

TEST(Advice, PeaksThatGrowFromStepToStepAreSaid) {
  Snapshot it = Ordinary();
  for (uint64_t i = 0; i < 4; ++i)
    it.steps.push_back({.number = i, .by = StepsBy::kMarks, .peak_bytes = (50 + i) * kGiB});
  EXPECT_THAT(Advice(it), Contains(AllOf(HasSubstr("last 4 steps"), HasSubstr("3.00 GiB in all"))));
  it.steps[2].peak_bytes = it.steps[1].peak_bytes;
  EXPECT_THAT(Advice(it), Each(Not(HasSubstr("steps took more"))));
}

TEST(Advice, WhereAPlanIsKeptToItsBudgetIsSaid) {
  Snapshot it = Ordinary();
  it.plan = {.budget = 64 * kGiB, .planned = 50 * kGiB, .dynamic = 10 * kGiB};
  EXPECT_THAT(Advice(it), ElementsAre(AllOf(HasSubstr("10.00 GiB are live beside the plan"),
                                            HasSubstr("Record it again")),
                                      HasSubstr("smaller budget than 64.00 GiB")));
}

}  // namespace
}  // namespace ebt::profile
