#include "src/report/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/unit/training_profile.h"

namespace ebt::report {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMiB = uint64_t{1} << 20, kGiB = uint64_t{1} << 30;

simulate::Baseline Figures() {
  return {.policy = simulate::Policy::kNative,
          .allocations = 3,
          .peak_live_bytes = 2 * kGiB,
          .peak_allocated_bytes = 2 * kGiB + 512,
          .peak_reserved_bytes = 3 * kGiB,
          .peak_process_bytes = 4 * kGiB,
          .segments_made = 7,
          .segments_freed = 1,
          .retries = 1};
}

Simulation::Played PlayedFigures() {
  Simulation::Played played;
  played.source = "job.plan.json";
  played.planned_peak_bytes = 5 * kMiB;
  played.native_step_ms = 10;
  played.predicted_step_ms = 11;
  played.figures = {.planned_bytes = 6 * kMiB,
                    .dynamic_bytes = 2 * kMiB,
                    .peak_bytes = 9 * kMiB,
                    .live_bytes = 6 * kMiB,
                    .planned = 40,
                    .occupied = 2,
                    .unknown = 1,
                    .native = 1};
  return played;
}

TEST(SimulationTest, ARecordingIsDescribedByItsEvents) {
  profile::ProfileBuilder program;
  program.Free(program.Alloc(3 * kMiB + 1, 1));
  program.Alloc(kMiB, 2, profile::AllocKind::kLinear);
  program.Alloc(kMiB, 2, profile::AllocKind::kManaged);
  program.Alloc(2 * kMiB + 1024, 1);
  program.profile.metadata["total_bytes"] = std::to_string(kGiB);
  const Simulation given = DescribeRecording(program.profile, "job.ebp", 5 * kMiB);
  EXPECT_EQ(given.events, 5u);
  // 3 MiB and a byte, rounded up, is more than 1 and 2 MiB and a KiB.
  EXPECT_EQ(given.max_live_bytes, 3 * kMiB + 1024);
  EXPECT_EQ(given.budget_bytes, 5 * kMiB);
  EXPECT_EQ(given.capacity_bytes, 5 * kMiB);
  EXPECT_EQ(DescribeRecording(program.profile, "job.ebp", 0).capacity_bytes, kGiB);
}

TEST(SimulationTest, AnotherDeviceHasItsOwnMemoryLessWhatWasInUse) {
  profile::Profile profile;
  profile.metadata["device_used_base_bytes"] = std::to_string(kGiB);
  plan::DeviceDescription device;
  device.name = "small";
  device.device_bytes = 8 * kGiB;
  Simulation simulation = DescribeRecording(profile, "job.ebp", 0);
  SetDevice(profile, device, &simulation);
  EXPECT_EQ(simulation.capacity_bytes, 7 * kGiB);
  simulation.budget_bytes = 2 * kGiB;
  SetDevice(profile, device, &simulation);
  EXPECT_EQ(simulation.capacity_bytes, 2 * kGiB);
}

TEST(SimulationTest, TheTableHasARowAPolicyAndSaysWhatDidNotFit) {
  Simulation simulation;
  simulation.source = "job\x1b.ebp";
  simulation.capacity_bytes = 4 * kGiB;
  simulation.policies = {Figures()};
  EXPECT_THAT(SimulationTable(simulation),
              HasSubstr("native          3.00 GiB    1.500      4.00 GiB         7       1        "
                        "1\n"));
  EXPECT_THAT(SimulationTable(simulation), Not(HasSubstr("out of memory")));
  EXPECT_THAT(SimulationTable(simulation), Not(HasSubstr("\x1b")));
  simulation.policies[0].fits = false;
  simulation.policies[0].refused_bytes = kGiB;
  simulation.policies[0].refused_at = 17;
  EXPECT_THAT(SimulationTable(simulation), HasSubstr("out of memory: 1.00 GiB at event 17"));
  simulation.plan = PlayedFigures();
  EXPECT_THAT(SimulationTable(simulation), HasSubstr("40 allocations at their place, 2 found"));
  std::istringstream lines(SimulationTable(simulation));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(SimulationTest, TheObjectHasPlansKeysAndNullWhereNothingWasPlayed) {
  Simulation simulation;
  simulation.policies = {Figures()};
  const json alone = json::parse(SimulationJson(simulation));
  EXPECT_TRUE(alone["planned_peak_bytes"].is_null());
  EXPECT_TRUE(alone["plan"].is_null());
  EXPECT_TRUE(alone["budget_bytes"].is_null());
  EXPECT_TRUE(alone["feasible"].get<bool>());
  EXPECT_EQ(alone["policies"][0]["fragmentation"], 1.5);
  EXPECT_FALSE(alone["policies"][0].contains("fault_ms"));
  simulation.plan = PlayedFigures();
  const json played = json::parse(SimulationJson(simulation));
  EXPECT_EQ(played["planned_peak_bytes"], 5 * kMiB);
  EXPECT_EQ(played["fragmentation"], 1.5);
  EXPECT_EQ(played["predicted_step_ms"], 11);
  EXPECT_EQ(played["plan"]["peak_bytes"], 9 * kMiB);
  EXPECT_EQ(played["plan"]["occupied_allocations"], 2);
}

TEST(SimulationTest, WhatDoesNotFitHasItsReason) {
  Simulation simulation;
  simulation.capacity_bytes = 8 * kMiB;
  simulation.policies = {Figures()};
  simulation.policies[0].fits = false;
  simulation.policies[0].refused_bytes = kMiB;
  const json policy = json::parse(SimulationJson(simulation));
  EXPECT_FALSE(policy["feasible"].get<bool>());
  EXPECT_EQ(policy["infeasible_reason"], "native: no memory for 1.00 MiB at event 0");
  simulation.plan = PlayedFigures();
  simulation.plan->fits = false;
  const json plan = json::parse(SimulationJson(simulation));
  EXPECT_EQ(plan["infeasible_reason"], "the plan takes 9.00 MiB of 8.00 MiB");
}

}  // namespace
}  // namespace ebt::report
