#include "src/profile/kinds.h"

#include <gtest/gtest.h>

#include "tests/unit/training_profile.h"

namespace ebt::profile {
namespace {

// What each site of Training is for; batch and loss aside, a site has one kind.
const std::map<uint64_t, Kind> kSiteKinds = {
    {kWeightSite, Kind::kParameter},           {kScratchSite, Kind::kTemporary},
    {kActivationSite, Kind::kActivation},      {kGradientSite, Kind::kGradient},
    {kStateSite, Kind::kOptimizerState},       {kBatchSite, Kind::kInput},
    {kOptimizerScratchSite, Kind::kTemporary},
};

void ExpectKinds(const TrainingShape& shape) {
  const Training training(shape);
  const auto kinds = FindKinds(training.profile, FindSteps(training.profile));
  ASSERT_EQ(kinds.size(), training.profile.blocks.size());
  std::map<std::pair<std::string_view, std::string_view>, uint64_t> wrong;
  for (const Block& block : training.profile.blocks) {
    const auto expected = kSiteKinds.find(block.site);
    if (expected == kSiteKinds.end() || expected->second == kinds[block.id]) continue;
    ++wrong[{KindName(expected->second), KindName(kinds[block.id])}];
  }
  for (const auto& [pair, count] : wrong) {
    ADD_FAILURE() << count << " blocks: " << pair.first << " taken for " << pair.second;
  }
}

TEST(KindsTest, SitesHaveTheirKindsUnderAFusedOptimizer) { ExpectKinds({.layers = 6, .steps = 5}); }
TEST(KindsTest, SitesHaveTheirKindsUnderAForeachOptimizer) {
  ExpectKinds({.layers = 6, .steps = 5, .optimizer = Optimizer::kForeach});
}
TEST(KindsTest, SitesHaveTheirKindsUnderAnOptimizerThatLoops) {
  ExpectKinds({.layers = 6, .steps = 5, .optimizer = Optimizer::kLoop});
}
TEST(KindsTest, GradientsThatStayAreGradients) {
  ExpectKinds({.layers = 6, .steps = 5, .frees_gradients = false});
}

}  // namespace
}  // namespace ebt::profile
