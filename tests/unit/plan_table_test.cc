#include "src/report/plan_table.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/unit/training_profile.h"

namespace ebt::report {
namespace {

using profile::Training;

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string TableOf(uint64_t budget, size_t top = 12) {
  Training training({.layers = 4, .steps = 5});
  plan::PlanOptions options;
  options.budget = budget;
  auto result = plan::MakePlan(training.profile, options);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? PlanTable(*result, top) : "";
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(PlanTableTest, SaysWhatIsSavedAndWhatItCosts) {
  const std::string table = TableOf(0);
  EXPECT_TRUE(Has(table, "4 whole steps of 14 launches")) << table;
  EXPECT_TRUE(Has(table, "native 23.00 MiB, planned 16.00 MiB (-30.4 %)")) << table;
  EXPECT_TRUE(Has(table, "native 14.00 ms, predicted 14.20 ms (+1.4 %)")) << table;
  EXPECT_TRUE(Has(table, "8.00 MiB in 8 blocks used in place")) << table;
  EXPECT_TRUE(Has(table, "torch/optim/adamw.py:128 _init_group")) << table;
}

TEST(PlanTableTest, SaysWhatCanBeSwappedAndByWhatLeave) {
  EXPECT_FALSE(Has(TableOf(0), "--cold swap")) << "nothing in it is worth that";
  Training training({.layers = 24,
                     .steps = 4,
                     .optimizer = profile::Optimizer::kLoop,
                     .weight = 5 * kMiB,
                     .activation = 20 * kMiB});
  auto result = plan::MakePlan(training.profile, {});
  ASSERT_TRUE(result.ok()) << result.status();
  const std::string table = PlanTable(*result);
  // 48 blocks of 5 MiB. 145 launches of a millisecond.
  EXPECT_TRUE(Has(table, "240.00 MiB of it in 30 slabs of 8.00 MiB")) << table;
  EXPECT_TRUE(Has(table, "ebbtide verify")) << table;
  EXPECT_TRUE(Has(table, "--cold swap; until then the step takes ")) << table;
  EXPECT_TRUE(Has(table, "native 145.00 ms, predicted 145.00 ms (+0.0 %)")) << table;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(PlanTableTest, FitsAHundredColumns) {
  for (uint64_t budget : {uint64_t{0}, 12 * kMiB, kMiB}) {
    std::istringstream lines(TableOf(budget));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  }
}

TEST(PlanTableTest, BudgetThatIsNotMetIsLoud) {
  EXPECT_TRUE(Has(TableOf(18 * kMiB), ": met"));
  const std::string table = TableOf(kMiB);
  EXPECT_TRUE(Has(table, "NOT MET")) << table;
  EXPECT_TRUE(Has(table, "more than the budget")) << table;
}

TEST(PlanTableTest, SitesBeyondTheTopAreCounted) {
  EXPECT_TRUE(Has(TableOf(0, 2), "... and ")) << TableOf(0, 2);
}

}  // namespace
}  // namespace ebt::report
