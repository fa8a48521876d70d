// The training run of training_profile.h, added up on paper. MiB unless said: four weights of 1,
// eight states of 1, a batch of 2, an activation of 2 and a gradient of 1 a layer, a loss of
// 512 bytes. Its steps have 14 launches: two a layer forward (0 to 7), the loss (8), one a layer
// backward (9 to 12), the optimizer (13).
#include <gtest/gtest.h>

#include <map>

#include "src/base/units.h"
#include "src/plan/planner.h"
#include "src/report/composition.h"
#include "tests/unit/training_profile.h"

namespace ebt::report {
namespace {

using namespace ebt::profile;

constexpr uint64_t kLoss = 512;

std::vector<Kind> KindsBySite(const Profile& profile) {
  const std::map<uint64_t, Kind> kinds = {
      {kWeightSite, Kind::kParameter},      {kScratchSite, Kind::kTemporary},
      {kActivationSite, Kind::kActivation}, {kGradientSite, Kind::kGradient},
      {kStateSite, Kind::kOptimizerState},  {kBatchSite, Kind::kInput},
  };
  std::vector<Kind> out;
  for (const Block& block : profile.blocks) {
    const auto kind = kinds.find(block.site);
    out.push_back(kind == kinds.end() ? Kind::kUnknown : kind->second);
  }
  return out;
}

Composition Composed(const Profile& profile) {
  auto composition = Compose(profile, FindSteps(profile), KindsBySite(profile));
  EXPECT_TRUE(composition.ok()) << composition.status();
  return *std::move(composition);
}

const KindUse& Of(const Composition& composition, Kind kind) {
  return composition.kinds[size_t(kind)];
}

TEST(Composition, PeakIsWhereTheFirstGradientJoinsAllActivations) {
  const Training training({});
  const Composition it = Composed(training.profile);
  EXPECT_EQ(it.peak_bytes, (4 + 8 + 2 + 4 * 2 + 1) * kMiB + kLoss);
  EXPECT_EQ(it.peak_blocks, 4u + 8 + 1 + 4 + 1 + 1);
  // Behind the loss of the first step of which all know the optimizer's state: 4 launches of
  // set-up, 8 more in the step that makes the state.
  EXPECT_EQ(it.peak.launch, 4u + (14 + 8) + 9);
  ASSERT_TRUE(it.peak.step);
  EXPECT_EQ(*it.peak.step, 0u);
  EXPECT_EQ(it.peak.step_launch, 9u);
}

TEST(Composition, KindsAddUpToThePeak) {
  const Composition it = Composed(Training({}).profile);
  EXPECT_EQ(Of(it, Kind::kParameter).at_peak, (Sum{4 * kMiB, 4}));
  EXPECT_EQ(Of(it, Kind::kOptimizerState).at_peak, (Sum{8 * kMiB, 8}));
  EXPECT_EQ(Of(it, Kind::kInput).at_peak, (Sum{2 * kMiB, 1}));
  EXPECT_EQ(Of(it, Kind::kActivation).at_peak, (Sum{8 * kMiB, 4}));
  EXPECT_EQ(Of(it, Kind::kGradient).at_peak, (Sum{kMiB, 1}));
  EXPECT_EQ(Of(it, Kind::kUnknown).at_peak, (Sum{kLoss, 1}));
  EXPECT_EQ(Of(it, Kind::kTemporary).at_peak, Sum{});
}

TEST(Composition, SitesAddUpToThePeakTheLargestFirst) {
  const Composition it = Composed(Training({}).profile);
  Sum all;
  for (const SiteUse& use : it.site_uses) {
    all.bytes += use.at_peak.bytes;
    all.blocks += use.at_peak.blocks;
  }
  EXPECT_EQ(all, (Sum{it.peak_bytes, it.peak_blocks}));
  ASSERT_EQ(it.site_uses.size(), 6u);
  EXPECT_EQ(it.site_uses[2].site, kWeightSite);
  EXPECT_EQ(it.site_uses[5].site, kLossSite);
}

TEST(Composition, ASiteOfTwoKindsHasARowForEach) {
  ProfileBuilder job;
  job.Alloc(3 * kMiB, 7);
  job.Alloc(2 * kMiB, 7);
  const auto it = Compose(job.profile, std::nullopt, {Kind::kGradient, Kind::kTemporary});
  ASSERT_EQ(it->site_uses.size(), 2u);
  EXPECT_EQ(it->site_uses[0].kind, Kind::kGradient);
  EXPECT_EQ(it->site_uses[1].at_peak, (Sum{2 * kMiB, 1}));
}

TEST(Composition, BytesAreRoundedUpAsTheDriverDoes) {
  ProfileBuilder job;
  job.Alloc(1, 1);
  job.Alloc(513, 1);
  job.Alloc(1024, 1);
  const auto it = Compose(job.profile, std::nullopt, std::vector<Kind>(3));
  EXPECT_EQ(it->peak_bytes, 512u + 1024 + 1024);
  EXPECT_EQ(it->peak_requested_bytes, 1u + 513 + 1024);
}

// What is touched in a step of 14 launches, and so longest untouched: weight 0 at 0, 12, 13 (11);
// weight 1 at 2, 11, 13 (8); weight 2 at 4, 10, 13 (5); weight 3 at 6, 9, 13 (6, over the step's
// end); state at 13 (13); the batch at 0, 12 (11); activation 0 at 1, 2, 11, 12 (8); activation 1
// at 3, 4, 10, 11 (5).
TEST(Composition, IdleIsWhatNothingTouchesForMoreThanHalfAStep) {
  const Composition it = Composed(Training({}).profile);
  EXPECT_EQ(Of(it, Kind::kParameter).idle_bytes, 2 * kMiB);
  EXPECT_EQ(Of(it, Kind::kOptimizerState).idle_bytes, 8 * kMiB);
  EXPECT_EQ(Of(it, Kind::kInput).idle_bytes, 2 * kMiB);
  EXPECT_EQ(Of(it, Kind::kActivation).idle_bytes, 2 * kMiB);
  EXPECT_EQ(Of(it, Kind::kGradient).idle_bytes, 0u);
  ASSERT_TRUE(it.idle_bytes);
  EXPECT_EQ(*it.idle_bytes, 14 * kMiB);
}

TEST(Composition, BeforeTheStepsIsWhatThePreviousOneLeaves) {
  const Composition it = Composed(Training({}).profile);
  // A step starts right behind the optimizer, before the loss and the gradients are freed.
  EXPECT_EQ(it.before_steps, (Sum{(4 + 8 + 4) * kMiB + kLoss, 17}));
  EXPECT_EQ(Of(it, Kind::kGradient).before_steps, (Sum{4 * kMiB, 4}));
}

TEST(Composition, StepsGiveMostAndMeanOfEachKind) {
  const Composition it = Composed(Training({}).profile);
  ASSERT_TRUE(it.steps);
  EXPECT_EQ(it.steps->steps, 4u);  // of five; the first has launches of its own
  EXPECT_EQ(it.steps->launches, 14u);
  EXPECT_EQ(it.steps->first_launch, 26u);
  EXPECT_EQ(Of(it, Kind::kParameter).step_max_bytes, 4 * kMiB);
  EXPECT_DOUBLE_EQ(Of(it, Kind::kParameter).step_mean_bytes, 4.0 * kMiB);
  EXPECT_NEAR(Of(it, Kind::kParameter).step_time_mean_bytes, 4.0 * kMiB, 1);
  EXPECT_EQ(Of(it, Kind::kActivation).step_max_bytes, 8 * kMiB);
  // Before each launch: 0 2 2 4 4 6 6 8 8 8 6 4 2 0.
  EXPECT_DOUBLE_EQ(Of(it, Kind::kActivation).step_mean_bytes, 60.0 * kMiB / 14);
  EXPECT_EQ(Of(it, Kind::kGradient).step_max_bytes, 4 * kMiB);
}

// A step of 8 ms with 2 MiB always there and 4 MiB more. Between marks events are taken to be
// equally far apart: the larger block comes a third into the first launch's 4 ms (mark, allocation,
// launch, mark) and goes a third into the 1 ms of the next (mark, free, launch, mark), so it
// lives for 3 ms: (2 * 8 + 4 * 3) / 8.
TEST(Composition, TimeMeanWeighsByTheGpusTime) {
  ProfileBuilder job;
  const auto mark = [&](double ms) {
    job.profile.events.push_back({.kind = EventKind::kMark, .gpu_ms = ms});
  };
  const uint32_t kept = job.Alloc(2 * kMiB, 1);
  job.Launch(9, {kept});
  mark(0);
  for (int step = 0; step < 3; ++step) {
    const double begin = 8.0 * step;
    job.Step();
    mark(begin);
    const uint32_t large = job.Alloc(4 * kMiB, 2);
    job.Launch(0, {large});
    mark(begin + 4);
    job.Free(large);
    for (uint32_t i = 1; i <= 4; ++i) {
      job.Launch(i, {kept});
      mark(begin + 4 + i);
    }
  }
  job.Step();
  const auto steps = FindSteps(job.profile);
  ASSERT_TRUE(steps);
  const auto it = Compose(job.profile, steps, std::vector<Kind>(job.profile.blocks.size()));
  EXPECT_NEAR(Of(*it, Kind::kUnknown).step_time_mean_bytes, 3.5 * kMiB, 1);
  EXPECT_DOUBLE_EQ(Of(*it, Kind::kUnknown).step_mean_bytes, (6.0 + 4 * 2) * kMiB / 5);
}

TEST(Composition, NativePeakIsThePlansNumber) {
  Training training({});
  auto native = [&] { return Composed(training.profile).native_peak_bytes; };
  auto planned = [&] { return plan::MakePlan(training.profile, {})->summary.native_peak_bytes; };
  EXPECT_EQ(native(), 23 * kMiB + kLoss);
  EXPECT_EQ(native(), planned());
  training.profile.metadata["device_used_base_bytes"] = "1048576";
  training.profile.metadata["device_used_peak_bytes"] = "31457280";
  EXPECT_EQ(native(), 29 * kMiB);
  EXPECT_EQ(native(), planned());
}

TEST(Composition, ReservedPerLiveNeedsAMeasureOfAllThatIsLive) {
  Training training({});
  EXPECT_FALSE(Composed(training.profile).ReservedPerLive());
  training.profile.metadata["device_used_base_bytes"] = "0";
  training.profile.metadata["device_used_peak_bytes"] = std::to_string(2 * (23 * kMiB + kLoss));
  EXPECT_EQ(Composed(training.profile).ReservedPerLive(), 2.0);
  training.profile.metadata["device_used_peak_bytes"] = std::to_string(22 * kMiB);
  EXPECT_FALSE(Composed(training.profile).ReservedPerLive());
}

TEST(Composition, WithoutStepsThePeakIsTheFirstOfEqualOnes) {
  ProfileBuilder job;
  for (int i = 0; i < 3; ++i) {
    job.Launch(0, {});
    job.Free(job.Alloc(kMiB, 1));
  }
  const auto it = Compose(job.profile, std::nullopt, std::vector<Kind>(3));
  EXPECT_EQ(it->peak.launch, 1u);
  EXPECT_FALSE(it->peak.step);
  EXPECT_FALSE(it->steps);
  EXPECT_FALSE(it->idle_bytes);
}

TEST(Composition, ThePeakOfTheWarmUpIsToldWhereItIsHigher) {
  Training training({});
  Training warm({.inference_passes = 0});
  // A probe before everything else, as a library that tries algorithms makes.
  ProfileBuilder job;
  job.Free(job.Alloc(100 * kMiB, 99));
  for (Block block : warm.profile.blocks) {
    block.id += 1;
    block.alloc_at += 2;
    if (block.free_at != kNever) block.free_at += 2;
    job.profile.blocks.push_back(block);
  }
  for (Event event : warm.profile.events) {
    if (event.block != kNoBlock) ++event.block;
    for (uint32_t& block : event.touched) ++block;
    job.profile.events.push_back(event);
  }
  const Composition it = Composed(job.profile);
  EXPECT_EQ(it.peak_bytes, 100 * kMiB);
  EXPECT_FALSE(it.peak.step);
  EXPECT_EQ(it.idle_bytes, 0u);
}

TEST(Composition, TheDeviceWithTheHighestPeakIsToldAndTheOthersNamed) {
  ProfileBuilder job;
  job.Alloc(kMiB, 1);
  const uint32_t second = job.Alloc(2 * kMiB, 2);
  job.profile.blocks[second].device = 3;
  const auto it = Compose(job.profile, std::nullopt, std::vector<Kind>(2));
  EXPECT_EQ(it->device, 3);
  EXPECT_EQ(it->peak_bytes, 2 * kMiB);
  ASSERT_EQ(it->other_devices.size(), 1u);
  EXPECT_EQ(it->other_devices[0].device, 0);
  EXPECT_EQ(it->other_devices[0].peak_bytes, kMiB);
}

TEST(Composition, ManagedMemoryStandsBesideThePeak) {
  ProfileBuilder job;
  job.Alloc(5 * kMiB, 1, AllocKind::kManaged);
  job.Alloc(kMiB, 2);
  const auto it = Compose(job.profile, std::nullopt, std::vector<Kind>(2));
  EXPECT_EQ(it->peak_bytes, kMiB);
  EXPECT_EQ(it->peak_managed_bytes, 5 * kMiB);
}

TEST(Composition, RefusedAllocationsAreCountedAndTheFirstIsPlaced) {
  ProfileBuilder job;
  job.Launch(0, {});
  job.profile.events.push_back({.kind = EventKind::kPhase, .phase = "forward"});
  job.profile.events.push_back({.kind = EventKind::kFailed, .bytes = 3 * kGiB});
  job.profile.events.push_back({.kind = EventKind::kFailed, .bytes = 4 * kGiB});
  const auto it = Compose(job.profile, std::nullopt, {});
  EXPECT_EQ(it->failures, 2u);
  EXPECT_EQ(it->largest_failure_bytes, 4 * kGiB);
  ASSERT_TRUE(it->first_failure);
  EXPECT_EQ(it->first_failure->launch, 1u);
  EXPECT_EQ(it->first_failure->phase, "forward");
}

TEST(Composition, TheFunctionBehindThePeakIsNamed) {
  ProfileBuilder job;
  job.profile.functions = {{0, "fill"}, {1, "gemm"}};
  job.Launch(0, {});
  const uint32_t block = job.Alloc(kMiB, 1);
  job.Launch(1, {block});
  EXPECT_EQ(Compose(job.profile, std::nullopt, {Kind::kUnknown})->peak_function, "gemm");
}

TEST(Composition, AnEmptyRecordingHasAnEmptyPeak) {
  const auto it = Compose({}, std::nullopt, {});
  ASSERT_TRUE(it.ok());
  EXPECT_EQ(it->peak_bytes, 0u);
  EXPECT_TRUE(it->site_uses.empty());
  EXPECT_FALSE(it->fragmentation);
}

TEST(Composition, BlocksBeyondAnyDeviceAreRefused) {
  ProfileBuilder job;
  job.Alloc(~uint64_t{0}, 1);
  EXPECT_EQ(Compose(job.profile, std::nullopt, {Kind::kUnknown}).status().code(),
            absl::StatusCode::kDataLoss);
  ProfileBuilder many;
  for (int i = 0; i < 3; ++i) many.Alloc(uint64_t{1} << 43, 1);
  EXPECT_FALSE(Compose(many.profile, std::nullopt, std::vector<Kind>(3)).ok());
}

TEST(Composition, LargePlainBlocksAmongManyLaunchesLookLikeSegments) {
  ProfileBuilder job;
  job.Alloc(20 * kMiB, 1, AllocKind::kLinear);
  job.Alloc(512, 2, AllocKind::kLinear);
  for (int i = 0; i < 19; ++i) job.Launch(0, {0});
  EXPECT_FALSE(Compose(job.profile, std::nullopt, std::vector<Kind>(2))->caching_segments);
  job.Launch(0, {0});
  EXPECT_TRUE(Compose(job.profile, std::nullopt, std::vector<Kind>(2))->caching_segments);
  job.profile.blocks[0].kind = AllocKind::kAsync;
  EXPECT_FALSE(Compose(job.profile, std::nullopt, std::vector<Kind>(2))->caching_segments);
}

}  // namespace
}  // namespace ebt::report
