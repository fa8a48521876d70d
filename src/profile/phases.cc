#include "src/profile/phases.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"

namespace ebt::profile {
namespace {

// Passes apart from each other: between them next to nothing is kept for later.
constexpr double kNothing = 1e-3;
// Of the saved bytes times their waiting a pass has at least this share of the largest one's.
constexpr double kLeastPass = 0.05;

// What forward saves waits on both sides of the turn: it counts where at least this share of its
// wait lies on either side. A gradient that another one is added to waits from there on.
constexpr double kEitherSide = 1.0 / 6;

// A block that waits: touched at event `from`, not again before `to`.
struct Wait {
  uint64_t bytes = 0;
  uint64_t from = 0, to = 0;
  uint64_t first = 0, last = 0;  // touches of the block
  double weight = 0;
};

// Of what is as large as a parameter much is a part of its gradient.
void LeaveOutGradients(const Profile& profile, const Usage& usage, std::vector<Wait>& waits) {
  absl::flat_hash_set<uint64_t> sizes;
  for (const Usage::Window& window : usage.windows) {
    for (uint32_t block : window.updated) sizes.insert(profile.blocks[block].bytes);
  }
  auto is_as_large = [&](const Wait& wait) { return sizes.contains(wait.bytes); };
  if (!std::all_of(waits.begin(), waits.end(), is_as_large)) std::erase_if(waits, is_as_large);
}

// The longest wait of each block that comes into being in the cycle and that its window leaves
// alone: gradients wait for the optimizer, the rest for backward.
std::vector<Wait> WaitsOf(const Profile& profile, const BlockTouches& touches, const Usage& usage,
                          const Cycle& cycle) {
  std::vector<Wait> out;
  for (uint64_t at = cycle.begin; at < cycle.window_begin; ++at) {
    const Event& event = profile.events[at];
    if (event.kind != EventKind::kAlloc || usage.persistent[event.block]) continue;
    const auto all = touches.Of(event.block);
    const auto end = std::lower_bound(all.begin(), all.end(), cycle.window_begin);
    if (end == all.begin() || (end != all.end() && *end < cycle.end)) continue;
    Wait wait{.bytes = profile.blocks[event.block].bytes, .first = all.front(), .last = *(end - 1)};
    uint64_t longest = 0;
    for (auto touch = all.begin(); touch + 1 < end; ++touch) {
      const uint64_t launches = usage.launches_before[*(touch + 1)] - usage.launches_before[*touch];
      if (launches <= longest) continue;
      longest = launches;
      wait.from = *touch, wait.to = *(touch + 1);
    }
    if (longest == 0) continue;
    wait.weight = double(wait.bytes) * double(longest);
    out.push_back(wait);
  }
  LeaveOutGradients(profile, usage, out);
  return out;
}

// What waits, event by event; long waits weigh more, so that the short ones within a layer (or
// within a layer that is computed again) move no pass's turn.
std::vector<double> Weights(const std::vector<Wait>& waits, const Cycle& cycle) {
  std::vector<double> change(cycle.window_begin - cycle.begin + 1, 0);
  for (const Wait& wait : waits) {
    const auto margin = uint64_t(kEitherSide * double(wait.to - wait.from));
    change[wait.from + margin - cycle.begin] += wait.weight;
    change[wait.to - margin - cycle.begin] -= wait.weight;
  }
  double sum = 0;
  for (double& value : change) value = sum += value;
  return change;
}

std::vector<Pass> PassesOf(const std::vector<Wait>& waits, const Cycle& cycle) {
  std::vector<Pass> out;
  const std::vector<double> weights = Weights(waits, cycle);
  const double most = *std::max_element(weights.begin(), weights.end());
  if (most <= 0) return out;
  for (size_t i = 0; i < weights.size();) {
    if (weights[i] <= kNothing * most) {
      ++i;
      continue;
    }
    size_t end = i, top = i;
    for (; end < weights.size() && weights[end] > kNothing * most; ++end) {
      if (weights[end] > weights[top]) top = end;
    }
    // What reached its top at `top` was touched there and waits from then on.
    if (weights[top] >= kLeastPass * most) {
      out.push_back({cycle.begin + i, cycle.begin + top + 1, cycle.begin + end});
    }
    i = end;
  }
  return out;
}

// From the first touch of what the pass saves to the last one.
void WidenPasses(const std::vector<Wait>& waits, std::vector<Pass>& passes) {
  for (Pass& pass : passes) {
    uint64_t begin = pass.begin, end = pass.end;
    for (const Wait& wait : waits) {
      if (wait.from >= pass.turn || wait.to < pass.turn) continue;
      begin = std::min(begin, wait.first);
      end = std::max(end, wait.last + 1);
    }
    pass.begin = begin, pass.end = end;
  }
  for (size_t i = 0; i + 1 < passes.size(); ++i) {
    passes[i].end = std::min(passes[i].end, passes[i + 1].begin);
  }
}

}  // namespace

std::vector<Cycle> FindCycles(const Profile& profile, const BlockTouches& touches,
                              const Usage& usage) {
  std::vector<Cycle> out;
  uint64_t begin = 0;
  for (const Usage::Window& window : usage.windows) {
    out.push_back({begin, window.begin, window.end, true, {}});
    begin = window.end;
  }
  out.push_back({begin, profile.events.size(), profile.events.size(), false, {}});
  for (Cycle& cycle : out) {
    const auto waits = WaitsOf(profile, touches, usage, cycle);
    cycle.passes = PassesOf(waits, cycle);
    WidenPasses(waits, cycle.passes);
  }
  return out;
}

}  // namespace ebt::profile
