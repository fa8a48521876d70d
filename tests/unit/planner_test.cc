#include "src/plan/planner.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "src/plan/summary_json.h"
#include "src/plan/validator.h"
#include "tests/unit/training_profile.h"

namespace ebt::plan {
namespace {

using profile::Optimizer;
using profile::ProfileBuilder;
using profile::Training;

constexpr uint64_t kMiB = uint64_t{1} << 20;

PlanResult Planned(const profile::Profile& profile, uint64_t budget = 0) {
  PlanOptions options;
  options.budget = budget;
  auto result = MakePlan(profile, options);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : PlanResult{};
}

// Of `layers` layers with the sizes of TrainingShape. The peak is at the first launch of backward:
// weights 1 and state 2 a layer, batch and activations 2 each, the loss, the first gradient. From
// then on each layer gives back 2 for a gradient of 1.
uint64_t PeakBytes(uint64_t layers) { return (3 * layers + 2 * (layers + 1) + 1) * kMiB + 512; }

TEST(PlannerTest, OptimizerStateGoesColdWithoutABudgetAndNothingElse) {
  Training training({.layers = 4, .steps = 5});
  const PlanResult result = Planned(training.profile);
  uint64_t cold = 0;
  for (const auto* slots : {&result.plan.prologue, &result.plan.step}) {
    for (const Slot& slot : *slots) {
      EXPECT_EQ(slot.tier == Tier::kCold, slot.site == profile::kStateSite);
      if (slot.tier != Tier::kCold) continue;
      EXPECT_EQ(slot.block_class, BlockClass::kOptimizerState);
      EXPECT_TRUE(slot.persistent);
      EXPECT_EQ(slot.use, ColdUse::kInPlace);
      ++cold;
    }
  }
  EXPECT_EQ(cold, 8u);
  EXPECT_EQ(result.plan.cold_bytes, 8 * kMiB);
  EXPECT_EQ(result.summary.tiers[size_t(Tier::kCold)].bytes, 8 * kMiB);
  EXPECT_EQ(result.summary.tiers[size_t(Tier::kCold)].blocks, 8u);
  EXPECT_TRUE(ValidatePlan(training.profile, result.plan).ok())
      << ValidatePlan(training.profile, result.plan);
}

TEST(PlannerTest, FiguresAreThoseOnPaper) {
  Training training({.layers = 4, .steps = 5});
  const PlanResult result = Planned(training.profile);
  EXPECT_EQ(result.summary.max_live_bytes, PeakBytes(4));
  EXPECT_EQ(result.summary.native_peak_bytes, PeakBytes(4));
  // Without state 15 MiB and the loss, in regions of 2 MiB.
  EXPECT_EQ(result.summary.planned_peak_bytes, 16 * kMiB);
  EXPECT_NEAR(result.summary.fragmentation, double(16 * kMiB) / double(15 * kMiB + 512), 1e-9);
  EXPECT_EQ(result.summary.steps, 4u);
  // One millisecond a launch, 14 launches.
  EXPECT_DOUBLE_EQ(result.summary.native_step_ms, 14);
  EXPECT_DOUBLE_EQ(result.summary.bound_step_ms, 14);
  EXPECT_NEAR(result.summary.predicted_step_ms, 14 + 8 * double(kMiB) / 42e9 * 1e3, 1e-9);
  EXPECT_TRUE(result.summary.feasible);
}

TEST(PlannerTest, EveryKindOfTrainingYieldsAValidTightPlan) {
  for (auto optimizer : {Optimizer::kFused, Optimizer::kForeach, Optimizer::kLoop}) {
    for (bool frees : {true, false}) {
      Training training({.layers = 24,
                         .steps = 4,
                         .optimizer = optimizer,
                         .frees_gradients = frees,
                         .weight = 3 * kMiB + 512,
                         .activation = 5 * kMiB + 4096});
      const PlanResult result = Planned(training.profile);
      const auto status = ValidatePlan(training.profile, result.plan);
      EXPECT_TRUE(status.ok()) << int(optimizer) << frees << ": " << status;
      // A slab more than all else, and what two sizes of blocks cost beside one another.
      EXPECT_LE(result.summary.fragmentation, 1.03) << int(optimizer) << frees;
    }
  }
}

// 24 layers of 5 MiB, 10 MiB of state each, touched within 3 launches of the layer's own. Forward
// and backward leave 24 * 10 MiB of activations' room to what moves.
profile::TrainingShape WithRoomForState() {
  return {.layers = 24,
          .steps = 4,
          .optimizer = Optimizer::kLoop,
          .weight = 5 * kMiB,
          .activation = 20 * kMiB};
}

TEST(PlannerTest, StateWithRoomToComeAndGoIsSwappedAtNoCost) {
  Training training(WithRoomForState());
  const PlanResult result = Planned(training.profile);
  const Plan& plan = result.plan;
  // Warm: weights 24 * 5, batch and activations 25 * 20, the first gradient 5: 625 MiB and the
  // loss. A 64th of that is 9.8 MiB: slabs of 8 MiB, 30 for 240 MiB.
  EXPECT_EQ(plan.slab_bytes, 8 * kMiB);
  EXPECT_EQ(plan.slabs.size(), 30u);
  EXPECT_EQ(result.summary.slabs, 30u);
  EXPECT_EQ(result.summary.slab_bytes, 240 * kMiB);
  EXPECT_EQ(plan.cold_bytes, 240 * kMiB);
  EXPECT_EQ(plan.warm_bytes % plan.slab_bytes, 0u);
  EXPECT_LE(plan.warm_bytes, 640 * kMiB);
  EXPECT_DOUBLE_EQ(result.summary.predicted_step_ms, result.summary.native_step_ms);
  EXPECT_GT(result.summary.managed_step_ms, result.summary.native_step_ms);
  EXPECT_TRUE(ValidatePlan(training.profile, plan).ok()) << ValidatePlan(training.profile, plan);
}

TEST(PlannerTest, SlabsHoldTheStateInOrderOfFirstTouchBeforeAllThatIsCold) {
  Training training(WithRoomForState());
  const Plan plan = Planned(training.profile).plan;
  uint64_t expected = plan.warm_bytes;
  for (const Slot& slot : plan.prologue) {
    if (slot.site != profile::kStateSite) continue;
    EXPECT_EQ(slot.tier, Tier::kCold);
    EXPECT_EQ(slot.offset, expected) << slot.ordinal;  // the optimizer goes by the layers, too
    expected += 5 * kMiB;
  }
  EXPECT_EQ(expected, plan.warm_bytes + 240 * kMiB);
}

TEST(PlannerTest, KeptStateStaysOnTheDevice) {
  Training training(WithRoomForState());
  int kept = 0;
  for (auto& block : training.profile.blocks)
    if (block.site == profile::kStateSite && kept < 8) block.kept = ++kept > 0;
  const PlanResult result = Planned(training.profile);
  int warm = 0;
  for (const Slot& slot : result.plan.prologue) {
    if (slot.site != profile::kStateSite) continue;
    EXPECT_EQ(slot.tier == Tier::kCold, slot.ordinal >= 8) << slot.ordinal;
    warm += slot.tier != Tier::kCold;
  }
  EXPECT_EQ(warm, 8);
  // 5 MiB each of 48 blocks.
  EXPECT_EQ(result.plan.cold_bytes, 200 * kMiB);
  EXPECT_TRUE(ValidatePlan(training.profile, result.plan).ok())
      << ValidatePlan(training.profile, result.plan);
}

TEST(PlannerTest, KeptBlocksGoColdLastAndInPlace) {
  Training training({.layers = 4, .steps = 5});
  for (auto& block : training.profile.blocks) block.kept = block.site == profile::kStateSite;
  // 23 MiB and the loss live at most, 8 of them state: all of it has to go, and more.
  const PlanResult result = Planned(training.profile, 12 * kMiB);
  EXPECT_TRUE(result.summary.feasible) << result.summary.infeasible_reason;
  EXPECT_TRUE(result.plan.slabs.empty());
  // 18 MiB are met with weights and activations alone.
  const Plan looser = Planned(training.profile, 18 * kMiB).plan;
  for (const Slot& slot : looser.prologue) {
    if (slot.site == profile::kStateSite) {
      EXPECT_NE(slot.tier, Tier::kCold);
    }
  }
}

TEST(PlannerTest, BudgetIsMetWithTheStaysCounted) {
  Training training(WithRoomForState());
  for (uint64_t budget : {900 * kMiB, 640 * kMiB, 500 * kMiB, 300 * kMiB, 120 * kMiB}) {
    const PlanResult result = Planned(training.profile, budget);
    EXPECT_TRUE(result.summary.feasible) << result.summary.infeasible_reason;
    EXPECT_LE(result.plan.planned_peak_bytes, budget);
    EXPECT_TRUE(ValidatePlan(training.profile, result.plan).ok())
        << budget << ": " << ValidatePlan(training.profile, result.plan);
  }
}

TEST(PlannerTest, AmpleBudgetKeepsEverythingOnTheDevice) {
  Training training({.layers = 4, .steps = 5});
  const PlanResult result = Planned(training.profile, 64 * kMiB);
  EXPECT_TRUE(result.summary.feasible);
  EXPECT_EQ(result.plan.cold_bytes, 0u);
  EXPECT_DOUBLE_EQ(result.summary.predicted_step_ms, 14);
}

TEST(PlannerTest, TightBudgetMovesStateOnlyAsFarAsNeeded) {
  Training training({.layers = 4, .steps = 5});
  // 23 MiB and the loss live at most: more than 5 of the 8 MiB of state have to go for 18.
  const PlanResult result = Planned(training.profile, 18 * kMiB);
  EXPECT_TRUE(result.summary.feasible);
  EXPECT_EQ(result.summary.tiers[size_t(Tier::kCold)].blocks, 6u);
  EXPECT_LE(result.summary.planned_peak_bytes, 18 * kMiB);
  EXPECT_TRUE(ValidatePlan(training.profile, result.plan).ok())
      << ValidatePlan(training.profile, result.plan);
}

TEST(PlannerTest, TighterBudgetMovesWeightsAndActivationsToo) {
  Training training({.layers = 8, .steps = 5});
  // 43 MiB live at most, 16 of it state, 8 weights.
  const PlanResult result = Planned(training.profile, 16 * kMiB);
  EXPECT_TRUE(result.summary.feasible) << result.summary.infeasible_reason;
  EXPECT_GT(result.summary.tiers[size_t(Tier::kCold)].bytes, 26 * kMiB);
  EXPECT_TRUE(ValidatePlan(training.profile, result.plan).ok())
      << ValidatePlan(training.profile, result.plan);
}

TEST(PlannerTest, ImpossibleBudgetSaysByHowMuchAndWhatWouldDo) {
  Training training({.layers = 4, .steps = 5});
  training.profile.metadata["device_used_peak_bytes"] = std::to_string(PeakBytes(4) + 100 * kMiB);
  training.profile.metadata["device_used_base_bytes"] = std::to_string(60 * kMiB);
  const PlanResult result = Planned(training.profile, 80 * kMiB);
  EXPECT_FALSE(result.summary.feasible);
  EXPECT_EQ(result.plan.overhead_bytes, 100 * kMiB);
  EXPECT_EQ(result.summary.native_peak_bytes, PeakBytes(4) + 40 * kMiB);
  const std::string& reason = result.summary.infeasible_reason;
  EXPECT_NE(reason.find("more than the budget of 80"), std::string::npos) << reason;
  // The budget that the reason names is enough.
  const size_t at = reason.find("met is ");
  ASSERT_NE(at, std::string::npos) << reason;
  EXPECT_TRUE(Planned(training.profile, std::stoull(reason.substr(at + 7))).summary.feasible);
}

TEST(PlannerTest, ProbeStaysNativeAndCountsNowhere) {
  Training training({.layers = 4, .steps = 5});
  // The probe comes first, so every index behind it moves by two events and one block.
  ProfileBuilder probe;
  probe.Free(probe.Alloc(uint64_t{64} << 30, 77));
  for (auto& block : training.profile.blocks) {
    block.id += 1, block.alloc_at += 2;
    if (block.free_at != profile::kNever) block.free_at += 2;
  }
  for (auto& event : training.profile.events) {
    if (event.block != profile::kNoBlock) ++event.block;
    for (uint32_t& touched : event.touched) ++touched;
  }
  auto& profile = probe.profile;
  profile.blocks.insert(profile.blocks.end(), training.profile.blocks.begin(),
                        training.profile.blocks.end());
  profile.events.insert(profile.events.end(), training.profile.events.begin(),
                        training.profile.events.end());
  const PlanResult result = Planned(profile);
  EXPECT_EQ(result.plan.prologue[0].tier, Tier::kNative);
  EXPECT_EQ(result.summary.max_live_bytes, PeakBytes(4));
  EXPECT_TRUE(ValidatePlan(profile, result.plan).ok()) << ValidatePlan(profile, result.plan);
}

TEST(PlannerTest, ExportedAndOutlivingBlocksStayNative) {
  ProfileBuilder builder;
  const uint32_t exported = builder.Alloc(kMiB, 1);
  builder.profile.blocks[exported].exported = true;
  for (int step = 0; step < 5; ++step) {
    const uint32_t block = builder.Alloc(kMiB, 2);
    builder.Alloc(512, 3);  // kept for good: one more in every step
    for (uint32_t f = 0; f < 5; ++f) builder.Launch(f, {block, exported});
    builder.Free(block);
    builder.Launch(5, {exported});
  }
  const PlanResult result = Planned(builder.profile);
  ASSERT_FALSE(result.plan.prologue.empty());
  EXPECT_EQ(result.plan.prologue[0].tier, Tier::kNative);
  ASSERT_EQ(result.plan.step.size(), 2u);
  EXPECT_NE(result.plan.step[0].tier, Tier::kNative);
  EXPECT_EQ(result.plan.step[1].tier, Tier::kNative);
  EXPECT_TRUE(ValidatePlan(builder.profile, result.plan).ok())
      << ValidatePlan(builder.profile, result.plan);
}

TEST(PlannerTest, ASiteWhoseMemoryWasSharedInOneStepStaysNativeInAll) {
  for (int sharing = 0; sharing < 5; ++sharing) {
    ProfileBuilder builder;
    for (int step = 0; step < 5; ++step) {
      const uint32_t shared = builder.Alloc(kMiB, 1), other = builder.Alloc(kMiB, 2);
      builder.profile.blocks[shared].exported = step == sharing;
      for (uint32_t f = 0; f < 5; ++f) builder.Launch(f, {shared, other});
      builder.Free(shared);
      builder.Free(other);
      builder.Launch(5, {});
    }
    const PlanResult result = Planned(builder.profile);
    for (const auto& slots : {result.plan.prologue, result.plan.step})
      for (const Slot& slot : slots)
        EXPECT_EQ(slot.tier == Tier::kNative, slot.site == 1) << "shared in step " << sharing;
    EXPECT_EQ(result.plan.step.size(), 2u);
  }
}

TEST(PlannerTest, WithoutAStepTheErrorSaysWhatToDo) {
  Training training({.layers = 4, .steps = 1});
  auto result = MakePlan(training.profile, {});
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("record at least 3 steps"), std::string::npos);
  EXPECT_FALSE(MakePlan({}, {}).ok());
}

TEST(PlannerTest, EqualProfilesGiveEqualPlans) {
  Training training({.layers = 6, .steps = 4, .optimizer = Optimizer::kLoop});
  const PlanResult first = Planned(training.profile, 20 * kMiB);
  const PlanResult second = Planned(training.profile, 20 * kMiB);
  ASSERT_EQ(first.plan.step.size(), second.plan.step.size());
  for (size_t i = 0; i < first.plan.step.size(); ++i) {
    EXPECT_EQ(first.plan.step[i].offset, second.plan.step[i].offset);
  }
}

TEST(PlannerTest, TruncatedRecordingIsPlannedOrRefused) {
  Training training({.layers = 4, .steps = 5});
  const auto whole = training.profile;
  for (size_t events = whole.events.size(); events > 0; events -= 7) {
    profile::Profile cut = whole;
    cut.truncated = true;
    cut.events.resize(events);
    for (auto& block : cut.blocks) {
      if (block.free_at >= events) block.free_at = profile::kNever;
    }
    auto result = MakePlan(cut, {});
    if (result.ok()) {
      EXPECT_TRUE(ValidatePlan(cut, result->plan).ok())
          << events << " events: " << ValidatePlan(cut, result->plan);
    }
    if (events < 7) break;
  }
}

TEST(PlannerTest, DamagedProfilesArePlannedOrRefused) {
  const profile::Profile whole = Training({.layers = 3, .steps = 4}).profile;
  std::mt19937 random(3);
  for (int round = 0; round < 1500; ++round) {
    profile::Profile damaged = whole;
    for (int i = 0; i < 1 + round % 3; ++i) {
      auto& event = damaged.events[random() % damaged.events.size()];
      auto& block = damaged.blocks[random() % damaged.blocks.size()];
      switch (random() % 7) {
        case 0:
          event.kind = profile::EventKind(random() % 9);
          break;
        case 1:
          event.block = random() % (damaged.blocks.size() + 2);
          break;
        case 2:
          std::swap(event, damaged.events[random() % damaged.events.size()]);
          break;
        case 3:
          event.touched.push_back(random() % (2 * damaged.blocks.size()));
          break;
        case 4:
          block.bytes = uint64_t{1} << random() % 64;
          break;
        case 5:
          block.device = random() % 2;
          break;
        default:
          event.gpu_ms = random() % 2 == 0 ? -1e9 : 1e300;
      }
    }
    auto result = MakePlan(damaged, {.budget = round % 2 == 0 ? 0 : 12 * kMiB});
    if (!result.ok()) continue;
    EXPECT_TRUE(CheckPlan(result->plan).ok()) << round << ": " << CheckPlan(result->plan);
  }
}

TEST(PlannerTest, SummaryJsonHasEveryField) {
  Training training({.layers = 4, .steps = 5});
  const auto json = nlohmann::json::parse(SummaryJson(Planned(training.profile).summary));
  for (const char* key : {"events", "sites", "steps", "native_peak_bytes", "max_live_bytes",
                          "planned_peak_bytes", "fragmentation", "slabs", "slab_bytes",
                          "native_step_ms", "predicted_step_ms", "managed_step_ms", "bound_step_ms",
                          "feasible", "infeasible_reason", "plan_seconds", "tiers"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["tiers"]["cold"]["bytes"], 8 * kMiB);
  EXPECT_EQ(json["tiers"]["cold"]["blocks"], 8);
  EXPECT_EQ(json["sites"], 4);
}

}  // namespace
}  // namespace ebt::plan
