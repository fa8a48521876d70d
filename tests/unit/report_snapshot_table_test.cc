#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "src/base/units.h"
#include "src/report/snapshot_table.h"

namespace ebt::report {
namespace {

using profile::Snapshot;
using profile::StepsBy;
using ::testing::HasSubstr;
using ::testing::Not;

Snapshot Refused() {
  Snapshot it;
  it.metadata = {{"program", "train.py"}, {"pid", "12"}, {"gpu", "Some GPU"}};
  it.refusal = {.bytes = 2 * kGiB,
                .kind = profile::AllocKind::kAsync,
                .site = 1,
                .count = 3,
                .largest_bytes = 4 * kGiB};
  it.total_bytes = 80 * kGiB;
  it.free_bytes = kGiB;
  it.live_bytes = 60 * kGiB;
  it.live_blocks = 100;
  it.reserved_bytes = 75 * kGiB;
  it.persistent_bytes = 30 * kGiB;
  it.fragmentation = {15 * kGiB, 3 * kGiB, 9};
  it.sites = {{{1, 40 * kGiB, 4, 30 * kGiB, 0}, {2, 15 * kGiB, 5, 0, 0}}, 3, 5 * kGiB, 91};
  it.steps = {{7, StepsBy::kMarks, 55, true, 50 * kGiB, 12, {{{1, 50 * kGiB, 12, 0, 0}}, 0, 0, 0}},
              {8, StepsBy::kMarks, 5, false, 60 * kGiB, 100, {{{2, kGiB, 1, 0, 0}}, 0, 0, 0}}};
  it.labels = {{1, "torch/optim/adamw.py:128 _init_group"}, {2, "model.py:3 forward"}};
  it.advice = {"One thing.", "Another."};
  return it;
}

std::string Table(const Snapshot& it, size_t sites = 12) {
  return SnapshotTable(it, SiteNames(it.described), sites);
}

size_t Widest(const std::string& text) {
  std::istringstream lines(text);
  size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

TEST(SnapshotTable, SaysWhatWasRefusedAndWhatFillsTheMemory) {
  const std::string table = Table(Refused());
  EXPECT_THAT(table, HasSubstr("Process    train.py, pid 12\n           Some GPU\n"));
  EXPECT_THAT(table, HasSubstr("Refused    2.00 GiB of stream-ordered memory; refusal 3 of the "
                               "process, the largest of 4.00 GiB\n"
                               "           for torch/optim/adamw.py:128 _init_group\n"));
  EXPECT_THAT(table, HasSubstr("Device 0   1.00 GiB of 80.00 GiB free; 4.00 GiB in use beside ("));
  EXPECT_THAT(table, HasSubstr("Live       60.00 GiB in 100 blocks\n"));
  EXPECT_THAT(table, HasSubstr("Reserved   75.00 GiB, 1.250 times what is live\n"));
  EXPECT_THAT(table, HasSubstr("Free       15.00 GiB between live blocks in 9 pieces, 80.0 % of it "
                               "outside of the largest\n"));
  EXPECT_THAT(table, HasSubstr("Persistent 30.00 GiB (50.0 %)"));
  EXPECT_THAT(table, Not(HasSubstr("Idle")));
  EXPECT_THAT(table, HasSubstr("Try        One thing.\n           Another.\n"));
  EXPECT_THAT(table, HasSubstr("66.7 %"));  // 40 of 60 GiB
  EXPECT_THAT(table, HasSubstr("... and 3 more  "));
  EXPECT_THAT(table, HasSubstr("       8         5   60.00 GiB     100  1.00 GiB model.py:3 forward"
                               "  (so far)\n"));
  EXPECT_LE(Widest(table), 100u) << table;
}

TEST(SnapshotTable, FewerSitesAreSummedUpAndTheOptionIsNamed) {
  // 15 and 5 GiB, in 5 and 91 blocks.
  const std::string table = Table(Refused(), 1);
  EXPECT_THAT(table, HasSubstr("... and 4 more (--sites N)"));
  EXPECT_THAT(table, HasSubstr("20.00 GiB  33.3 %      96"));
}

TEST(SnapshotTable, StaysNarrowAndPlainWhateverIsInTheFile) {
  Snapshot it = Refused();
  const std::string hostile = std::string(300, 'x') + "\x1b[31m\n" + std::string(300, 'y');
  for (auto& [key, value] : it.metadata) value = hostile;
  for (auto& [key, value] : it.labels) value = hostile;
  it.advice = {hostile, hostile + " " + hostile};
  it.steps[0].by = it.steps[1].by = StepsBy::kLaunches;
  const std::string table = Table(it);
  EXPECT_LE(Widest(table), 100u) << table;
  EXPECT_EQ(table.find('\x1b'), std::string::npos);
  EXPECT_THAT(table, HasSubstr("(so far, no step known)"));
}

TEST(SnapshotTable, EmptyOneIsSaidInWords) {
  EXPECT_THAT(Table({}), HasSubstr("Live       0 B in 0 blocks"));
}

}  // namespace
}  // namespace ebt::report
