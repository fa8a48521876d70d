#include "src/record/memory_ledger.h"

#include <gtest/gtest.h>

#include <vector>

#include "src/base/units.h"

namespace ebt::record {
namespace {

using profile::AllocKind;
using profile::EventRecord;
using profile::RecordKind;
using profile::Snapshot;
using profile::SnapshotSite;
using profile::StepsBy;

constexpr uint64_t kA = 0xa, kB = 0xb, kC = 0xc;  // sites

class MemoryLedgerTest : public testing::Test {
 protected:
  // Returns the block. It lies at a place of its own.
  uint32_t Alloc(uint64_t site, uint64_t bytes, AllocKind kind = AllocKind::kLinear,
                 uint64_t address = 0, uint16_t device = 0) {
    ledger_.Add({.kind = RecordKind::kAlloc,
                 .alloc = kind,
                 .device = device,
                 .block = next_,
                 .bytes = bytes,
                 .site = site,
                 .address = address > 0 ? address : next_ * kGiB});
    return next_++;
  }
  void Free(uint32_t block) { ledger_.Add({.kind = RecordKind::kFree, .block = block}); }
  void Launch(const std::vector<uint32_t>& touched = {}, uint32_t function = 0) {
    ledger_.Add({.kind = RecordKind::kLaunch, .function = function, .touched = touched});
  }
  void Mark() { ledger_.Add({.kind = RecordKind::kStep}); }
  Snapshot Fill(uint16_t device = 0) const {
    Snapshot snapshot;
    ledger_.Fill(device, snapshot);
    return snapshot;
  }
  static SnapshotSite Of(const profile::SnapshotSites& sites, uint64_t site) {
    for (const SnapshotSite& one : sites.largest)
      if (one.site == site) return one;
    return {};
  }

  MemoryLedger ledger_;
  uint32_t next_ = 1;
};

TEST_F(MemoryLedgerTest, LiveBytesAreRoundedAndSummedBySite) {
  Alloc(kA, 1000);  // takes 1024
  const uint32_t gone = Alloc(kA, 512);
  Alloc(kB, 4096);
  Free(gone);
  Free(gone);  // twice is once
  const Snapshot it = Fill();
  EXPECT_EQ(it.live_bytes, 5120u);
  EXPECT_EQ(it.live_blocks, 2u);
  EXPECT_EQ(it.reserved_bytes, 5120u);
  ASSERT_EQ(it.sites.largest.size(), 2u);
  EXPECT_EQ(it.sites.largest[0].site, kB);
  EXPECT_EQ(it.sites.largest[1].bytes, 1024u);
  EXPECT_FALSE(it.persistent_bytes) << "there has been no step";
  EXPECT_FALSE(it.idle_bytes);
  EXPECT_FALSE(it.fragmentation);
}

TEST_F(MemoryLedgerTest, ManagedMemoryIsToldApart) {
  Alloc(kA, 512);
  const uint32_t managed = Alloc(kA, 2048, AllocKind::kManaged);
  EXPECT_EQ(Fill().live_bytes, 512u);
  EXPECT_EQ(Fill().managed_bytes, 2048u);
  Free(managed);
  EXPECT_EQ(Fill().managed_bytes, 0u);
}

TEST_F(MemoryLedgerTest, DevicesAreToldApart) {
  Alloc(kA, 512);
  Alloc(kB, 1024, AllocKind::kLinear, 0, 3);
  EXPECT_EQ(Fill(0).live_bytes, 512u);
  EXPECT_EQ(Fill(3).live_bytes, 1024u);
  EXPECT_EQ(Fill(1).live_bytes, 0u);
  EXPECT_EQ(ledger_.FullestDevice(), 3);
}

// The step's peak is A 1024 + B 2048; at its end A 1024 + C 512 are left.
TEST_F(MemoryLedgerTest, StepIsToldAtItsPeak) {
  Free(Alloc(kA, 4096));  // set-up
  Mark();
  Alloc(kA, 1024);
  const uint32_t b = Alloc(kB, 2048);
  Launch();
  Free(b);
  Alloc(kC, 512);
  Launch();
  Mark();
  const Snapshot it = Fill();
  ASSERT_EQ(it.steps.size(), 3u);  // before the first mark, the step, what follows
  EXPECT_EQ(it.steps[0].by, StepsBy::kLaunches);
  EXPECT_EQ(it.steps[0].peak_bytes, 4096u);
  const profile::SnapshotStep& step = it.steps[1];
  EXPECT_EQ(step.by, StepsBy::kMarks);
  EXPECT_TRUE(step.whole);
  EXPECT_EQ(step.launches, 2u);
  EXPECT_EQ(step.peak_bytes, 3072u);
  EXPECT_EQ(step.peak_blocks, 2u);
  EXPECT_EQ(step.sites.largest.size(), 2u);
  EXPECT_EQ(Of(step.sites, kA).bytes, 1024u);
  EXPECT_EQ(Of(step.sites, kB).bytes, 2048u);
  EXPECT_FALSE(it.steps[2].whole);
  EXPECT_EQ(it.steps[2].peak_bytes, 1536u);
  EXPECT_EQ(Of(it.steps[2].sites, kC).bytes, 512u);
}

// A site that frees and allocates behind the peak, down to nothing and up again, has in it what it
// had then: 1024, and 512 of the other.
TEST_F(MemoryLedgerTest, WhatComesBehindAPeakDoesNotChangeIt) {
  Mark();
  Alloc(kB, 512);
  const uint32_t first = Alloc(kA, 1024);
  Launch();
  Free(first);
  Free(Alloc(kA, 512));
  Alloc(kA, 512);
  Launch();
  Mark();
  const profile::SnapshotStep step = Fill().steps[0];
  EXPECT_EQ(step.peak_bytes, 1536u);
  EXPECT_EQ(Of(step.sites, kA).bytes, 1024u);
  EXPECT_EQ(Of(step.sites, kA).blocks, 1u);
  EXPECT_EQ(Of(step.sites, kB).bytes, 512u);
}

TEST_F(MemoryLedgerTest, TenWholeStepsAreKeptAndTheOneThatRuns) {
  for (int step = 0; step < 15; ++step) {
    Mark();
    Alloc(kA, 512);
    Launch();
  }
  const Snapshot it = Fill();
  ASSERT_EQ(it.steps.size(), 11u);
  // 14 marks have ended a step, after the time before the first one: numbers 1 to 14.
  EXPECT_EQ(it.steps.front().number, 5u);
  EXPECT_EQ(it.steps.front().peak_bytes, 5 * 512u);
  EXPECT_EQ(it.steps[9].number, 14u);
  EXPECT_EQ(it.steps[10].number, 15u);
  EXPECT_EQ(it.steps[10].peak_bytes, 15 * 512u);
}

TEST_F(MemoryLedgerTest, BlockIsPersistentWhenItHasLivedThroughAWholeStep) {
  Mark();
  Alloc(kA, 1024);  // within step 1
  Launch();
  Mark();
  Alloc(kB, 512);  // within step 2
  Launch();
  EXPECT_EQ(Fill().persistent_bytes, 0u);
  Mark();
  EXPECT_EQ(Fill().persistent_bytes, 1024u) << "A has lived through step 2";
  EXPECT_EQ(Of(Fill().sites, kA).persistent_bytes, 1024u);
  EXPECT_EQ(Of(Fill().sites, kB).persistent_bytes, 0u);
}

// Steps of 8 launches: what more than 4 launches in a row have not touched is idle.
TEST_F(MemoryLedgerTest, BlockIsIdleWhenHalfAStepHasNotTouchedIt) {
  const uint32_t a = Alloc(kA, 512), b = Alloc(kB, 1024), c = Alloc(kC, 2048);
  for (int step = 0; step < 2; ++step) {
    Mark();
    for (int i = 0; i < 8; ++i) Launch({a, b, c});
  }
  Mark();
  ledger_.Add({.kind = RecordKind::kKept, .block = c});
  for (int i = 0; i < 4; ++i) Launch({a});
  EXPECT_EQ(Fill().idle_bytes, 0u);
  Launch({a});
  EXPECT_EQ(Fill().idle_bytes, 1024u) << "B; C is kept, a graph may use it";
  ledger_.LaunchesBecomeBare();
  EXPECT_FALSE(Fill().idle_bytes) << "nobody knows any more";
  EXPECT_TRUE(Fill().persistent_bytes);
}

// Three kernels and a fourth, over and over, with a block that comes and goes: a period of 4.
TEST_F(MemoryLedgerTest, PeriodOfTheLaunchesIsFoundWithoutMarks) {
  for (int step = 0; step < 200; ++step) {
    const uint32_t block = Alloc(kA, kMiB);
    for (uint32_t function = 1; function <= 4; ++function) {
      if (function == 3) Free(block);
      Launch({}, function);
    }
  }
  const Snapshot it = Fill();
  ASSERT_EQ(it.steps.size(), 11u);
  for (const profile::SnapshotStep& step : it.steps) {
    EXPECT_EQ(step.by, StepsBy::kPeriod);
    if (!step.whole) continue;
    EXPECT_EQ(step.peak_bytes, kMiB);
    EXPECT_EQ(step.launches, 4u);
  }
  // Steps go on where nobody says what is launched.
  ledger_.LaunchesBecomeBare();
  for (int i = 0; i < 40; ++i) Launch();
  EXPECT_EQ(Fill().steps.front().number, it.steps.front().number + 10);
}

TEST_F(MemoryLedgerTest, WithoutStepsEqualNumbersOfLaunchesAreTold) {
  Alloc(kA, 512);
  for (uint32_t i = 0; i < StepClock::kSlice + 1; ++i) Launch({}, i);
  const Snapshot it = Fill();
  ASSERT_EQ(it.steps.size(), 2u);
  EXPECT_EQ(it.steps[0].by, StepsBy::kLaunches);
  EXPECT_EQ(it.steps[0].launches, StepClock::kSlice);
  EXPECT_EQ(it.steps[1].launches, 1u);
  EXPECT_FALSE(it.persistent_bytes);
}

// A pool has been in [1 MiB, 4 MiB); the block in its middle is gone, and linear memory counts only
// where it lies in between.
TEST_F(MemoryLedgerTest, FreePiecesLieWhereAPoolHasBeen) {
  Alloc(kA, kMiB, AllocKind::kAsync, 1 * kMiB);
  const uint32_t middle = Alloc(kA, kMiB, AllocKind::kAsync, 2 * kMiB);
  Alloc(kA, kMiB, AllocKind::kPool, 3 * kMiB);
  Alloc(kB, kMiB, AllocKind::kLinear, 9 * kMiB);
  EXPECT_EQ(ledger_.PoolBytes(0), 3 * kMiB);
  EXPECT_EQ(Fill().fragmentation->free_bytes, 0u);
  Free(middle);
  EXPECT_EQ(Fill().fragmentation->free_bytes, kMiB);
  EXPECT_EQ(Fill().fragmentation->pieces, 1u);
  EXPECT_EQ(ledger_.PoolBytes(0), 2 * kMiB);
}

TEST_F(MemoryLedgerTest, TwentySitesAreNamedAndTheRestSummedUp) {
  for (uint64_t site = 1; site <= 25; ++site) Alloc(site, site * 512);
  const Snapshot it = Fill();
  ASSERT_EQ(it.sites.largest.size(), 20u);
  EXPECT_EQ(it.sites.largest.back().site, 6u);
  EXPECT_EQ(it.sites.other_sites, 5u);
  EXPECT_EQ(it.sites.other_blocks, 5u);
  EXPECT_EQ(it.sites.other_bytes, (1 + 2 + 3 + 4 + 5) * 512u);
}

}  // namespace
}  // namespace ebt::record
