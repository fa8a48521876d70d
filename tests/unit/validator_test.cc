#include "src/plan/validator.h"

#include <gtest/gtest.h>

#include "src/plan/planner.h"
#include "src/profile/steps.h"
#include "tests/unit/training_profile.h"
#include "tests/unit/valid_plan.h"

namespace ebt::plan {
namespace {

using profile::Training;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A valid plan of two layers to break in one place.
class ValidatorTest : public testing::Test {
 protected:
  ValidatorTest() : training_({.layers = 2, .steps = 5}) {
    plan_ = ValidPlan(training_.profile, {}).plan;
  }

  Slot& SlotOf(std::vector<Slot>& slots, uint64_t site, uint32_t ordinal = 0) {
    for (Slot& slot : slots) {
      if (slot.site == site && slot.ordinal == ordinal) return slot;
    }
    ADD_FAILURE() << "no slot of site " << site;
    return slots[0];
  }

  void ExpectBroken(const std::string& rule, const std::string& also = "") {
    const std::string message(ValidatePlan(training_.profile, plan_).message());
    EXPECT_NE(message.find("rule \"" + rule + "\""), std::string::npos) << message;
    EXPECT_NE(message.find(also), std::string::npos) << message;
  }

  Training training_;
  Plan plan_;
};

TEST_F(ValidatorTest, PlannersPlanIsValid) {
  EXPECT_TRUE(ValidatePlan(training_.profile, plan_).ok())
      << ValidatePlan(training_.profile, plan_);
}

TEST_F(ValidatorTest, OverlapNamesBothSlots) {
  SlotOf(plan_.step, profile::kActivationSite, 1).offset =
      SlotOf(plan_.step, profile::kActivationSite, 0).offset;
  ExpectBroken("overlap", "site 0x3, ordinal 0");
  ExpectBroken("overlap", "site 0x3, ordinal 1");
}

TEST_F(ValidatorTest, OverlapOfAPersistentAndAStepsBlockIsFound) {
  SlotOf(plan_.step, profile::kScratchSite).offset =
      SlotOf(plan_.prologue, profile::kWeightSite).offset;
  ExpectBroken("overlap", "prologue[");
}

TEST_F(ValidatorTest, OverlapAcrossTheStepsBorderIsFound) {
  // The loss lives into the next step's begin, where it meets the new batch only at allocation;
  // a gradient lives through the whole optimizer and the border as the loss does.
  SlotOf(plan_.step, profile::kGradientSite).offset = SlotOf(plan_.step, profile::kLossSite).offset;
  ExpectBroken("overlap");
}

TEST_F(ValidatorTest, WarmUpsEditionOfACyclicBlockCounts) {
  // In the first steady step the warm-up's gradient is still there when the batch is not yet.
  Slot& gradient = SlotOf(plan_.prologue, profile::kGradientSite);
  gradient.offset = SlotOf(plan_.prologue, profile::kWeightSite).offset;
  ExpectBroken("overlap", "prologue[");
}

TEST_F(ValidatorTest, OddOffsetBreaksAlignment) {
  plan_.step[0].offset += 8;
  ExpectBroken("alignment", "step[0]");
}

TEST_F(ValidatorTest, WarmBlockInTheColdRegionBreaksBounds) {
  plan_.step[0].offset = plan_.warm_bytes;
  ExpectBroken("bounds", "step[0]");
}

TEST_F(ValidatorTest, OffsetNearTheEndOfTheNumbersBreaksBounds) {
  plan_.step[0].offset = ~uint64_t{511};
  ExpectBroken("bounds");
  plan_.step[0].offset = 0;
  plan_.step[0].bytes = ~uint64_t{0};
  ExpectBroken("size");
}

TEST_F(ValidatorTest, OddRegionIsBroken) {
  plan_.warm_bytes += 512;
  ExpectBroken("region", "warm_bytes");
}

TEST_F(ValidatorTest, HugeRegionIsBroken) {
  plan_.cold_bytes = uint64_t{1} << 60;
  ExpectBroken("region", "cold_bytes");
}

TEST_F(ValidatorTest, TwoSlotsOfOneOrdinalAreDuplicates) {
  SlotOf(plan_.step, profile::kActivationSite, 1).ordinal = 0;
  ExpectBroken("duplicate");
}

TEST_F(ValidatorTest, LaunchBeyondTheStepIsBroken) {
  plan_.step.back().launch = plan_.step_launches;
  ExpectBroken("launch");
}

TEST_F(ValidatorTest, SlotsOutOfOrderAreBroken) {
  std::swap(plan_.step.front(), plan_.step.back());
  ExpectBroken("order");
}

TEST_F(ValidatorTest, MissingSlotIsNotTheRecordedSequence) {
  plan_.step.pop_back();
  ExpectBroken("sequence");
}

TEST_F(ValidatorTest, OtherSizeIsNotTheRecordedSequence) {
  SlotOf(plan_.step, profile::kScratchSite).bytes -= 512;
  ExpectBroken("sequence", "site 0x2");
}

TEST_F(ValidatorTest, PersistenceIsWhatWasRecorded) {
  SlotOf(plan_.prologue, profile::kWeightSite).persistent = false;
  ExpectBroken("persistent", "lives across steps");
  SlotOf(plan_.prologue, profile::kWeightSite).persistent = true;
  SlotOf(plan_.prologue, profile::kActivationSite).persistent = true;
  ExpectBroken("persistent", "does not live across");
  plan_.step[0].persistent = true;
  ExpectBroken("persistent");
}

TEST_F(ValidatorTest, FetchBehindTheFirstTouchIsBroken) {
  // Adam, the last of eight launches, touches the state.
  ASSERT_EQ(plan_.step_launches, 8u);
  Slot& state = SlotOf(plan_.prologue, profile::kStateSite);
  state.use = ColdUse::kPrefetch;
  state.fetch_launch = 5;
  state.evict_launch = 7;
  plan_.planned_peak_bytes += kMiB;
  EXPECT_TRUE(ValidatePlan(training_.profile, plan_).ok())
      << ValidatePlan(training_.profile, plan_);
  state.evict_launch = 6;
  ExpectBroken("touch", "launch 7");
  state.fetch_launch = -1;
  ExpectBroken("prefetch");
}

TEST_F(ValidatorTest, WindowCountsAgainstPeakAndBudget) {
  Slot& state = SlotOf(plan_.prologue, profile::kStateSite);
  state.use = ColdUse::kPrefetch;
  state.fetch_launch = 5;
  state.evict_launch = 7;
  ExpectBroken("budget", "planned peak");
  plan_.planned_peak_bytes += kMiB;
  plan_.overhead_bytes = 7 * kMiB;
  plan_.budget = plan_.warm_bytes + 8 * kMiB;
  EXPECT_TRUE(ValidatePlan(training_.profile, plan_).ok());
  plan_.budget -= 1;
  ExpectBroken("budget", "launch 5");
}

TEST_F(ValidatorTest, WarmBlockThatIsFetchedIsBroken) {
  plan_.step[0].fetch_launch = 1;
  ExpectBroken("prefetch", "step[0]");
}

TEST_F(ValidatorTest, BlockThatOutlivesTheNextStepHasNoPlace) {
  // The same recording, except that the loss of each steady step is never freed.
  const auto steps = profile::FindSteps(training_.profile);
  ASSERT_TRUE(steps.has_value());
  for (auto& event : training_.profile.events) {
    if (event.kind != profile::EventKind::kFree) continue;
    auto& block = training_.profile.blocks[event.block];
    if (block.site != profile::kLossSite || block.alloc_at < steps->start_events[0]) continue;
    event.kind = profile::EventKind::kPhase;
    block.free_at = profile::kNever;
  }
  ExpectBroken("lifetime", "site 0x7");
}

TEST_F(ValidatorTest, ReuseByAnotherStreamBelongsBehindIt) {
  // All activations are freed on stream 1 and made on stream 0.
  for (auto& block : training_.profile.blocks) {
    if (block.site == profile::kActivationSite) block.free_stream = 1;
  }
  plan_ = ValidPlan(training_.profile, {}).plan;
  int named = 0;
  for (Slot& slot : plan_.step) {
    if (slot.after.empty()) continue;
    EXPECT_EQ(slot.after, std::vector<uint16_t>{1});
    ++named;
    slot.after.clear();
    ExpectBroken("stream", "that stream 1 freed");
    slot.after = {1, 1};
    ExpectBroken("stream", "out of order");
    slot.after = {0, 1};  // more than it must
    EXPECT_TRUE(ValidatePlan(training_.profile, plan_).ok());
    slot.after = {1};
  }
  EXPECT_GT(named, 0);
}

TEST_F(ValidatorTest, OtherStreamOrdinalOrFingerprintIsNotTheRecordedSequence) {
  plan_.step[1].stream = 7;
  ExpectBroken("sequence", "step[1]");
  plan_.step[1].stream = 0;
  plan_.step[1].fingerprint ^= 1;
  ExpectBroken("sequence", "step[1]");
  plan_.step[1].fingerprint ^= 1;
  SlotOf(plan_.step, profile::kActivationSite, 1).ordinal = 7;
  ExpectBroken("sequence", "ordinal 7");
}

TEST_F(ValidatorTest, DriversBlocksCountAgainstTheBudget) {
  // Two activations of 2 MiB live at once with the loss's launch, all of them left to the driver.
  PlanOptions options;
  options.excluded = {profile::kActivationSite};
  plan_ = ValidPlan(training_.profile, options).plan;
  plan_.budget = plan_.planned_peak_bytes + 4 * kMiB;
  EXPECT_TRUE(ValidatePlan(training_.profile, plan_).ok())
      << ValidatePlan(training_.profile, plan_);
  plan_.budget -= 1;
  ExpectBroken("budget", "4194304 of the driver's");
}

TEST_F(ValidatorTest, EditThatTheSlotsDoNotKeepToIsBroken) {
  plan_.sites.push_back({profile::kBatchSite, "batch", Tier::kHot});
  ExpectBroken("edit", "site 0x6");
  plan_.sites.back().pin.reset();
  plan_.sites.back().exclude = true;
  ExpectBroken("edit", "site 0x6");
  plan_.sites.back().pin = Tier::kHot;
  ExpectBroken("edit", "both");
}

TEST_F(ValidatorTest, OtherStepLengthIsNotTheRecordedSequence) {
  plan_.step_launches += 1;
  ExpectBroken("sequence", "8 launches");
}

// A plan with slabs to break in one place. Of each layer an Adam launch of its own (two behind its
// scratch) touches the 10 MiB of state; there is room for some more.
class SlabValidatorTest : public testing::Test {
 protected:
  SlabValidatorTest()
      : training_({.layers = 6,
                   .steps = 5,
                   .optimizer = profile::Optimizer::kLoop,
                   .weight = 5 * kMiB,
                   .activation = 20 * kMiB}) {
    plan_ = ValidPlan(training_.profile, {}).plan;
    EXPECT_GE(plan_.slabs.size(), 2u);
  }

  void ExpectBroken(const std::string& rule, const std::string& also) {
    const std::string message(ValidatePlan(training_.profile, plan_).message());
    EXPECT_NE(message.find("rule \"" + rule + "\""), std::string::npos) << message;
    EXPECT_NE(message.find(also), std::string::npos) << message;
  }

  Training training_;
  Plan plan_;
};

TEST_F(SlabValidatorTest, PlannersPlanIsValid) {
  EXPECT_TRUE(ValidatePlan(training_.profile, plan_).ok())
      << ValidatePlan(training_.profile, plan_);
}

TEST_F(SlabValidatorTest, StayInTheWeightsPlaceOverlapsThem) {
  plan_.slabs[1].stay_offset = 0;  // persistent blocks lie at the low end
  ExpectBroken("overlap", "slabs[1] (");
  ExpectBroken("overlap", "prologue[");
}

TEST_F(SlabValidatorTest, TwoStaysOfOnePlaceAtOneTimeOverlap) {
  plan_.slabs[1] = plan_.slabs[0];
  plan_.slabs[1].evict_launch = plan_.step_launches - 1;
  plan_.slabs[1].gone_launch = 0;
  plan_.slabs[0].gone_launch = (plan_.slabs[0].evict_launch + 1) % plan_.step_launches;
  ExpectBroken("overlap", "slabs[0]");
  ExpectBroken("overlap", "slabs[1]");
}

TEST_F(SlabValidatorTest, StayThatLastsIntoTheNextForwardMeetsItsBlocks) {
  // The whole step but one launch: forward's blocks fill the device.
  Slab& slab = plan_.slabs.back();
  slab.gone_launch = (slab.fetch_launch + plan_.step_launches - 1) % plan_.step_launches;
  ExpectBroken("overlap", "slabs[");
}

TEST_F(SlabValidatorTest, TouchBeforeTheFetchOrBehindTheEvictIsBroken) {
  const Slab whole = plan_.slabs[0];
  plan_.slabs[0].fetch_launch = whole.evict_launch;
  ExpectBroken("touch", "slabs[0]");
  plan_.slabs[0] = whole;
  plan_.slabs[0].evict_launch = whole.fetch_launch;
  ExpectBroken("touch", "slabs[0]");
}

TEST_F(SlabValidatorTest, WordThatSomeStepsHaveAloneIsNoTouch) {
  // Forward's first launch of the last step seems to name a state.
  const auto steps = profile::FindSteps(training_.profile);
  ASSERT_TRUE(steps.has_value());
  uint32_t state = 0;
  for (const auto& block : training_.profile.blocks) {
    if (block.site == profile::kStateSite) state = block.id;
  }
  auto& events = training_.profile.events;
  for (size_t at = steps->start_events[steps->steps - 1]; at < events.size(); ++at) {
    if (events[at].kind != profile::EventKind::kLaunch) continue;
    events[at].touched.push_back(state);
    break;
  }
  EXPECT_TRUE(ValidatePlan(training_.profile, plan_).ok())
      << ValidatePlan(training_.profile, plan_);
}

TEST_F(SlabValidatorTest, StaysAreWithinTheBudgetOfTheWarmRegion) {
  plan_.budget = plan_.warm_bytes - 1;
  ExpectBroken("budget", "");
}

TEST_F(SlabValidatorTest, BadSlabsAreRefused) {
  const Plan whole = plan_;
  auto broken = [&](const std::string& rule, const std::string& also, auto damage) {
    plan_ = whole;
    damage(plan_);
    const std::string message(CheckPlan(plan_).message());
    EXPECT_NE(message.find("rule \"" + rule + "\""), std::string::npos) << message;
    EXPECT_NE(message.find(also), std::string::npos) << message;
  };
  const uint32_t launches = whole.step_launches;
  broken("slabs", "power of two", [](Plan& p) { p.slab_bytes = 3 * kMiB; });
  broken("slabs", "power of two", [](Plan& p) { p.slab_bytes = kMiB; });
  broken("slabs", "power of two", [](Plan& p) { p.slab_bytes = 64 * kMiB; });
  broken("slabs", "power of two", [](Plan& p) { p.slab_bytes = 0; });
  broken("slabs", "no slabs", [](Plan& p) { p.slabs.clear(); });
  broken("slabs", "more than cold_bytes",
         [](Plan& p) { p.slabs.resize(p.cold_bytes / p.slab_bytes + 1, p.slabs[0]); });
  broken("slabs", "slabs[0].stay_offset", [](Plan& p) { p.slabs[0].stay_offset += 512; });
  broken("slabs", "slabs[1].stay_offset", [](Plan& p) { p.slabs[1].stay_offset = p.warm_bytes; });
  broken("launch", "slabs[0].fetch_launch", [=](Plan& p) { p.slabs[0].fetch_launch = launches; });
  broken("launch", "slabs[0].evict_launch", [=](Plan& p) { p.slabs[0].evict_launch = launches; });
  broken("launch", "slabs[0].gone_launch", [=](Plan& p) { p.slabs[0].gone_launch = launches; });
  broken("slabs", "slabs[0].gone_launch",
         [](Plan& p) { p.slabs[0].gone_launch = p.slabs[0].evict_launch; });
  broken("slabs", "slabs[0].gone_launch",
         [](Plan& p) { p.slabs[0].gone_launch = p.slabs[0].fetch_launch; });
  broken("slabs", "does not live across steps", [](Plan& p) {
    Slot slot = p.step[0];
    slot.tier = Tier::kCold;
    slot.bytes = 512;
    slot.offset = p.warm_bytes;
    p.step[0] = slot;
  });
  broken("cleared", "cleared[0]", [](Plan& p) { p.cleared = {{.driver_version = -1}}; });
}

TEST(CheckPlanTest, EmptyPlanIsWhole) { EXPECT_TRUE(CheckPlan(Plan{}).ok()); }

TEST(CheckPlanTest, OtherSchemaIsRefused) {
  Plan plan;
  plan.schema = 1;
  EXPECT_NE(CheckPlan(plan).message().find("plan again"), std::string::npos);
}

TEST(CheckPlanTest, SiteListedTwiceIsADuplicate) {
  Plan plan;
  plan.sites = {{1, "a"}, {1, "b"}};
  EXPECT_FALSE(CheckPlan(plan).ok());
}

}  // namespace
}  // namespace ebt::plan
