#include "src/plan/hotness.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"

namespace ebt::plan {
namespace {

// A window "short" for optimizer state, as a part of the step's launches.
constexpr double kShortWindow = 0.2;
// Blocks touched this close (part of the step) to the window belong to it: an optimizer that
// goes through its blocks one by one takes more than a short window in all.
constexpr double kAdjoining = 0.02;
constexpr double kHotDeviations = 0.5;

bool LivesAcrossSteps(const Lived& life) { return life.span == Span::kPersistent; }

bool StepLocal(const Lived& life) {
  return life.in_step && (life.span == Span::kStep || life.span == Span::kCyclic);
}

void SetIdle(const Timeline& timeline, std::vector<Traits>& traits) {
  for (size_t i = 0; i < traits.size(); ++i) {
    const auto& touches = timeline.lives[i].touches;
    if (touches.empty()) continue;
    auto [first, last] =
        std::minmax_element(touches.begin(), touches.end(),
                            [](const Touch& a, const Touch& b) { return a.launch < b.launch; });
    traits[i].first = first->launch;
    traits[i].last = last->launch;
    const double span = traits[i].last - traits[i].first + 1;
    traits[i].idle = std::max(0.0, 1 - span / std::max(1u, timeline.step_launches));
  }
}

// The launch before which most bytes of this step's own are live.
uint32_t Turn(const profile::Profile& profile, const Timeline& timeline) {
  struct Change {
    uint64_t time;
    int64_t bytes;
    uint32_t launch;
  };
  std::vector<Change> changes;
  for (const Lived& life : timeline.lives) {
    if (life.span != Span::kStep || !timeline.Planned(life)) continue;
    const int64_t bytes = int64_t(profile.blocks[life.block].bytes);
    changes.push_back({life.live[0].begin, bytes, life.launch});
    changes.push_back({life.live[0].end, -bytes, life.launch});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::pair(a.time, a.bytes) < std::pair(b.time, b.bytes);
  });
  int64_t live = 0, most = 0;
  uint32_t turn = 0;
  for (const Change& change : changes) {
    live += change.bytes;
    if (live > most) most = live, turn = change.launch;
  }
  return turn;
}

// The short window with most bytes of persistent blocks that are touched in it alone, grown by
// what adjoins it.
Window OptimizerWindow(const profile::Profile& profile, const Timeline& timeline,
                       const std::vector<Traits>& traits) {
  struct Candidate {
    uint32_t first, last;
    uint64_t bytes;
  };
  const auto width = uint32_t(std::max(1.0, kShortWindow * timeline.step_launches));
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < traits.size(); ++i) {
    const Lived& life = timeline.lives[i];
    if (!LivesAcrossSteps(life) || !timeline.Planned(life) || life.touches.empty()) continue;
    if (traits[i].last - traits[i].first + 1 > width) continue;
    candidates.push_back({traits[i].first, traits[i].last, profile.blocks[life.block].bytes});
  }
  if (candidates.empty()) return {};
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(a.last, a.first) < std::pair(b.last, b.first);
  });
  // By last touch the bytes of a window are a sum over a range, less the few that begin before.
  std::vector<std::pair<uint32_t, int64_t>> changes;  // window end at which bytes come and go
  for (const Candidate& c : candidates) {
    changes.emplace_back(c.last + 1, int64_t(c.bytes));
    changes.emplace_back(c.first + width + 1, -int64_t(c.bytes));
  }
  std::sort(changes.begin(), changes.end());
  int64_t sum = 0, most = 0;
  uint32_t best_end = 0;
  for (const auto& [end, bytes] : changes) {
    sum += bytes;
    if (sum > most) most = sum, best_end = end;
  }
  Window window{best_end > width ? best_end - width : 0, best_end};
  // From the window's limits to the touches that are in it.
  Window tight{window.end, window.begin};
  for (const Candidate& c : candidates) {
    if (c.first < window.begin || c.last >= window.end) continue;
    tight.begin = std::min(tight.begin, c.first);
    tight.end = std::max(tight.end, c.last + 1);
  }
  const auto reach = uint32_t(kAdjoining * timeline.step_launches);
  for (const Candidate& c : candidates) {
    if (c.first <= tight.end + reach) tight.end = std::max(tight.end, c.last + 1);
  }
  for (auto c = candidates.rbegin(); c != candidates.rend(); ++c) {
    if (c->last + 1 + reach >= tight.begin) tight.begin = std::min(tight.begin, c->first);
  }
  return tight;
}

BlockClass ClassOf(const Lived& life, const Traits& traits, const Behaviour& behaviour,
                   uint32_t step_launches) {
  const Window& window = behaviour.optimizer;
  const bool touched = !life.touches.empty();
  if (LivesAcrossSteps(life)) {
    if (!touched) return BlockClass::kOther;
    const bool short_span =
        traits.last - traits.first + 1 <= std::max(1.0, kShortWindow * step_launches);
    const bool inside = window.Contains(traits.first) && window.Contains(traits.last);
    if (inside && short_span) return BlockClass::kOptimizerState;
    return traits.first != traits.last ? BlockClass::kParameter : BlockClass::kOther;
  }
  if (!StepLocal(life)) return BlockClass::kOther;
  const bool in_window = std::any_of(life.touches.begin(), life.touches.end(),
                                     [&](const Touch& t) { return window.Contains(t.launch); });
  const bool born_before = life.launch < window.begin;
  if (in_window && born_before) return BlockClass::kGradient;
  if (!in_window && life.launch <= behaviour.turn && traits.last > behaviour.turn) {
    return BlockClass::kActivation;
  }
  return BlockClass::kOther;
}

// Mean and deviation of the heat of all touched blocks.
double HotLimit(const Timeline& timeline, const std::vector<Traits>& traits) {
  double sum = 0, squares = 0, count = 0;
  for (size_t i = 0; i < traits.size(); ++i) {
    if (timeline.lives[i].touches.empty()) continue;
    sum += traits[i].heat;
    squares += traits[i].heat * traits[i].heat;
    ++count;
  }
  if (count == 0) return 0;
  const double mean = sum / count;
  return mean + kHotDeviations * std::sqrt(std::max(0.0, squares / count - mean * mean));
}

void SetHeat(const Timeline& timeline, const HotnessWeights& weights, Behaviour& behaviour) {
  auto& traits = behaviour.traits;
  for (size_t i = 0; i < traits.size(); ++i) {
    for (const Touch& touch : timeline.lives[i].touches) {
      traits[i].heat += touch.launch <= behaviour.turn ? weights.forward : weights.backward;
    }
  }
  // Coupling counts neighbours that are hot by their touches alone, so that it needs no
  // iteration.
  const double limit = HotLimit(timeline, traits);
  struct Crowd {
    uint32_t blocks = 0, hot = 0;
  };
  std::vector<Crowd> crowds(timeline.step_launches);
  for (size_t i = 0; i < traits.size(); ++i) {
    for (const Touch& touch : timeline.lives[i].touches) {
      ++crowds[touch.launch].blocks;
      crowds[touch.launch].hot += traits[i].heat > limit;
    }
  }
  std::vector<double> coupling(traits.size(), 0);
  for (size_t i = 0; i < traits.size(); ++i) {
    const auto& touches = timeline.lives[i].touches;
    for (const Touch& touch : touches) {
      const Crowd& crowd = crowds[touch.launch];
      const double others = crowd.blocks - 1.0;
      if (others > 0) coupling[i] += (crowd.hot - (traits[i].heat > limit)) / others;
    }
    if (!touches.empty()) coupling[i] /= double(touches.size());
  }
  for (size_t i = 0; i < traits.size(); ++i) traits[i].heat += weights.coupling * coupling[i];
  const double hot = HotLimit(timeline, traits);
  for (size_t i = 0; i < traits.size(); ++i) {
    traits[i].hot = !timeline.lives[i].touches.empty() && traits[i].heat > hot;
  }
}

// The last `parts` parts of a path.
std::string_view Tail(std::string_view path, int parts) {
  size_t from = path.size();
  while (parts-- > 0 && from != 0 && from != std::string_view::npos) {
    from = path.rfind('/', from - 1);
  }
  return from == std::string_view::npos || from == 0 ? path : path.substr(from + 1);
}

}  // namespace

Behaviour Judge(const profile::Profile& profile, const Timeline& timeline,
                const HotnessWeights& weights) {
  Behaviour behaviour;
  behaviour.traits.resize(timeline.lives.size());
  SetIdle(timeline, behaviour.traits);
  behaviour.turn = Turn(profile, timeline);
  behaviour.optimizer = OptimizerWindow(profile, timeline, behaviour.traits);
  for (size_t i = 0; i < timeline.lives.size(); ++i) {
    behaviour.traits[i].block_class =
        ClassOf(timeline.lives[i], behaviour.traits[i], behaviour, timeline.step_launches);
  }
  SetHeat(timeline, weights, behaviour);
  return behaviour;
}

std::string SiteLabel(const callsite::Site& site) {
  using callsite::Frame;
  for (const Frame& frame : site.frames) {
    if (frame.kind != Frame::Kind::kPython) continue;
    return fmt::format("{}:{} {}", Tail(frame.module, 3), frame.offset, frame.function);
  }
  for (const Frame& frame : site.frames) {
    if (frame.function.empty()) continue;
    const std::string& file = frame.file.empty() ? frame.module : frame.file;
    return fmt::format("{} {}", Tail(file, 3), frame.function);
  }
  // Names of functions are resolved elsewhere; where it is can be said without them.
  for (const Frame& frame : site.frames) {
    const std::string& file = frame.file.empty() ? frame.module : frame.file;
    return fmt::format("{}+{:#x}", Tail(file, 1), frame.offset);
  }
  return fmt::format("site {:#x}", site.id);
}

}  // namespace ebt::plan
