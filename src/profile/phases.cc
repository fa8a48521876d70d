#include "src/profile/phases.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "src/profile/stack_roots.h"

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
      if (launches == 0 || launches < longest) continue;
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

// What waits, event by event, but for `margin` of each wait at either end; long waits weigh more,
// so that the short ones within a layer (or within a layer that is computed again) move no turn.
std::vector<double> Weights(const std::vector<Wait>& waits, const Cycle& cycle, double margin) {
  std::vector<double> change(cycle.window_begin - cycle.begin + 1, 0);
  for (const Wait& wait : waits) {
    const auto events = uint64_t(margin * double(wait.to - wait.from));
    change[wait.from + events - cycle.begin] += wait.weight;
    change[wait.to - events - cycle.begin] -= wait.weight;
  }
  double sum = 0;
  for (double& value : change) value = sum += value;
  return change;
}

// Where a pass can turn: behind the first use of the last parameter that it comes to, up to where
// one of the last few is used again. What is computed again in backward waits too, but later.
class TurnBounds {
 public:
  TurnBounds(const BlockTouches& touches, const Usage& usage) : touches_(touches), usage_(usage) {
    for (const Usage::Window& window : usage.windows) {
      parameters_.insert(window.updated.begin(), window.updated.end());
    }
  }

  // Events [first, second) within [begin, end).
  std::pair<uint64_t, uint64_t> Of(uint64_t begin, uint64_t end) const {
    std::vector<std::pair<uint64_t, uint64_t>> uses;  // first and second use
    for (uint32_t block : parameters_) {
      const auto two = TwoUses(block, begin, end);
      // Used once: a bias, or a gradient that is added to.
      if (two.second < end) uses.push_back(two);
    }
    if (uses.empty()) return {begin, end};
    std::sort(uses.begin(), uses.end());
    const uint64_t first = uses.back().first;
    uint64_t second = end;
    for (size_t i = uses.size() - std::min(uses.size(), kLastFew); i < uses.size(); ++i) {
      if (uses[i].second > first) second = std::min(second, uses[i].second);
    }
    return {first, second};
  }

 private:
  static constexpr size_t kLastFew = 5;

  std::pair<uint64_t, uint64_t> TwoUses(uint32_t block, uint64_t begin, uint64_t end) const {
    const auto all = touches_.Of(block);
    uint64_t first = end;
    for (auto at = std::lower_bound(all.begin(), all.end(), begin); at != all.end() && *at < end;
         ++at) {
      if (usage_.use[*at] != Usage::Use::kModel) continue;
      if (first < end) return {first, *at};
      first = *at;
    }
    return {first, end};
  }

  const BlockTouches& touches_;
  const Usage& usage_;
  absl::flat_hash_set<uint32_t> parameters_;
};

std::vector<Pass> PassesOf(const std::vector<Wait>& waits, const Cycle& cycle,
                           const TurnBounds& bounds) {
  std::vector<Pass> out;
  const std::vector<double> waiting = Weights(waits, cycle, 0);
  const std::vector<double> straddling = Weights(waits, cycle, kEitherSide);
  const double nothing = kNothing * *std::max_element(waiting.begin(), waiting.end());
  const double most = *std::max_element(straddling.begin(), straddling.end());
  for (size_t begin = 0; begin < waiting.size();) {
    size_t end = begin + 1;
    const bool waits_here = waiting[begin] > nothing;
    while (end < waiting.size() && (waiting[end] > nothing) == waits_here) ++end;
    const auto from = straddling.begin();
    if (waits_here && *std::max_element(from + begin, from + end) >= kLeastPass * most) {
      const auto [low, high] = bounds.Of(cycle.begin + begin, cycle.begin + end);
      const auto top = std::max_element(from + (low - cycle.begin), from + (high - cycle.begin));
      // What brought the weight to its top was touched there and waits from then on.
      const auto turn = uint64_t(top - from) + 1;
      out.push_back({cycle.begin + begin, cycle.begin + turn, cycle.begin + end});
    }
    begin = end;
  }
  return out;
}

// Set-up may lie before the first touch of what the pass saves, the optimizer's beginnings behind
// the last one.
void NarrowPasses(const std::vector<Wait>& waits, std::vector<Pass>& passes) {
  for (Pass& pass : passes) {
    uint64_t begin = pass.turn, end = pass.turn;
    for (const Wait& wait : waits) {
      if (wait.from >= pass.turn || wait.to < pass.turn) continue;
      begin = std::min(begin, wait.first);
      end = std::max(end, wait.last + 1);
    }
    if (begin < pass.turn) pass.begin = std::max(pass.begin, begin);
    if (end > pass.turn) pass.end = std::min(pass.end, end);
  }
}

double MostOf(const std::vector<Wait>& waits, const Cycle& cycle) {
  const std::vector<double> weights = Weights(waits, cycle, kEitherSide);
  return *std::max_element(weights.begin(), weights.end());
}

// Behind the last window may lie an evaluation, in which next to nothing waits.
void LeaveOutEvaluation(std::vector<Cycle>& cycles) {
  std::vector<double> most;
  for (const Cycle& cycle : cycles) {
    if (cycle.has_window) most.push_back(cycle.most);
  }
  if (most.empty() || cycles.back().has_window) return;
  std::nth_element(most.begin(), most.begin() + most.size() / 2, most.end());
  if (cycles.back().most < kLeastPass * most[most.size() / 2]) cycles.back().passes.clear();
}

// Where backward has threads of its own: from the program's allocations to theirs and to the
// program's again. What the program allocates last leads to the optimizer.
std::vector<Pass> PassesOfRoots(const Profile& profile, const std::vector<Root>& roots,
                                const Cycle& cycle) {
  std::vector<Pass> out;
  const auto runs = FindRootRuns(profile, roots, cycle.begin, cycle.window_begin);
  for (size_t i = 0; i + 1 < runs.size(); ++i) {
    if (runs[i].root != Root::kMain) continue;
    // Behind the last launch before the first allocation of backward.
    uint64_t turn = runs[i + 1].begin;
    while (turn > runs[i].begin && !IsLaunch(profile.events[turn - 1])) --turn;
    out.push_back({runs[i].begin, turn, runs[i + 1].end});
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

// The program's own words. Before the first one in the step the last one before the step holds.
std::vector<PhaseStart> MarkedPhases(const Profile& profile, const Usage& usage, uint64_t begin,
                                     uint64_t end) {
  std::vector<PhaseStart> out;
  for (uint64_t at = begin; at < end; ++at) {
    if (profile.events[at].kind == EventKind::kPhase) out.push_back({at, profile.events[at].phase});
  }
  if (out.empty()) return out;
  if (usage.launches_before[out.front().at] == usage.launches_before[begin]) {
    out.front().at = begin;
    return out;
  }
  uint64_t at = begin;
  while (at > 0 && profile.events[at - 1].kind != EventKind::kPhase) --at;
  out.insert(out.begin(), {begin, at > 0 ? profile.events[at - 1].phase : "other"});
  return out;
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
  const TurnBounds bounds(touches, usage);
  const std::vector<Root> roots = FindRoots(profile, usage);
  for (Cycle& cycle : out) {
    const auto waits = WaitsOf(profile, touches, usage, cycle);
    cycle.most = MostOf(waits, cycle);
    cycle.passes = PassesOfRoots(profile, roots, cycle);
    if (cycle.passes.empty()) {
      cycle.passes = PassesOf(waits, cycle, bounds);
      WidenPasses(waits, cycle.passes);
    } else {
      NarrowPasses(waits, cycle.passes);
    }
  }
  LeaveOutEvaluation(out);
  return out;
}

std::vector<PhaseStart> FindPhases(const Profile& profile, const Usage& usage,
                                   const std::vector<Cycle>& cycles, uint64_t begin, uint64_t end) {
  std::vector<PhaseStart> out = MarkedPhases(profile, usage, begin, end);
  if (!out.empty()) return out;
  auto add = [&](uint64_t at, const char* name) {
    if (at >= end) return;
    at = std::max(at, begin);
    // A phase without launches is none.
    if (!out.empty() && usage.launches_before[out.back().at] == usage.launches_before[at]) {
      out.pop_back();
    }
    if (out.empty() || out.back().name != name) out.push_back({at, name});
  };
  for (const Cycle& cycle : cycles) {
    if (cycle.end <= begin || cycle.begin >= end) continue;
    bool leads = true;
    for (const Pass& pass : cycle.passes) {
      if (pass.end <= begin) continue;
      add(leads ? cycle.begin : pass.begin, "forward");
      add(pass.turn, "backward");
      leads = false;
    }
    if (cycle.has_window && cycle.end > begin) {
      add(cycle.window_begin, "optimizer");
      add(cycle.end, "other");
    }
  }
  if (out.empty()) out.push_back({begin, "other"});
  out.front().at = begin;
  if (out.size() > 1 && usage.launches_before[out.back().at] == usage.launches_before[end]) {
    out.pop_back();
  }
  return out;
}

}  // namespace ebt::profile
