#include "src/plan/hotness.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "src/plan/colocation.h"
#include "src/profile/metadata.h"

namespace ebt::plan {
namespace {

// A window "short" for optimizer state, as a part of the step's launches.
constexpr double kShortWindow = 0.2;
// Blocks touched this close (part of the step) to the window belong to it: an optimizer that
// goes through its blocks one by one takes more than a short window in all.
constexpr double kAdjoining = 0.02;
// Where several devices work together.
constexpr HotnessWeights kSeveralDevices = {.forward = 1, .backward = 2, .coupling = 4};
// What a single step touches may be a word that happened to read as an address.
constexpr uint64_t kMoreThanChance = 2;

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

// How often the steps of the recording touch one persistent block.
struct Activity {
  uint64_t steps = 0;    // that touch it
  uint64_t forward = 0;  // touches of all steps
  uint64_t backward = 0;
  uint64_t seen_in = ~uint64_t{0};  // the last step that touched it
};

std::vector<Activity> CountActivity(const profile::Profile& profile, const Timeline& timeline,
                                    uint32_t turn) {
  constexpr uint32_t kNone = ~uint32_t{0};
  std::vector<uint32_t> life_of(profile.blocks.size(), kNone);
  for (uint32_t i = 0; i < timeline.lives.size(); ++i) {
    if (LivesAcrossSteps(timeline.lives[i])) life_of[timeline.lives[i].block] = i;
  }
  std::vector<Activity> out(timeline.lives.size());
  const auto& starts = timeline.steps.start_events;
  for (uint64_t step = 0; step + 1 < starts.size(); ++step) {
    uint64_t launch = 0;
    for (uint64_t at = starts[step]; at < starts[step + 1]; ++at) {
      for (uint32_t block : profile.events[at].touched) {
        if (block >= life_of.size() || life_of[block] == kNone) continue;
        Activity& activity = out[life_of[block]];
        activity.steps += activity.seen_in != step;
        activity.seen_in = step;
        ++(launch <= turn ? activity.forward : activity.backward);
      }
      launch += IsLaunch(profile.events[at]);
    }
  }
  return out;
}

void CountTouches(const profile::Profile& profile, const Timeline& timeline, Behaviour& behaviour) {
  const auto activity = CountActivity(profile, timeline, behaviour.turn);
  for (size_t i = 0; i < behaviour.traits.size(); ++i) {
    const Lived& life = timeline.lives[i];
    Traits& traits = behaviour.traits[i];
    for (const Touch& touch : life.touches) {
      ++(touch.launch <= behaviour.turn ? traits.forward : traits.backward);
    }
    if (!LivesAcrossSteps(life) || timeline.steps.steps == 0) continue;
    const uint64_t active = activity[i].steps;
    traits.frequency = double(active) / double(timeline.steps.steps);
    const bool in_some = active >= kMoreThanChance && active < timeline.steps.steps;
    if (!in_some) continue;
    traits.forward = double(activity[i].forward) / double(active);
    traits.backward = double(activity[i].backward) / double(active);
  }
}

bool IsTouched(const Traits& traits) { return traits.forward + traits.backward > 0; }

// Mean, deviation and limit of the heat of all touched blocks.
void SetLimit(double threshold, Behaviour& behaviour) {
  double sum = 0, squares = 0, count = 0;
  for (const Traits& traits : behaviour.traits) {
    if (!IsTouched(traits)) continue;
    sum += traits.heat;
    squares += traits.heat * traits.heat;
    ++count;
  }
  if (count == 0) return;
  const double mean = sum / count;
  behaviour.heat_mean = mean;
  behaviour.heat_deviation = std::sqrt(std::max(0.0, squares / count - mean * mean));
  behaviour.hot_above = mean + threshold * behaviour.heat_deviation;
}

// Of each launch: how many of the blocks that it touches are hot by their touches alone. So
// coupling needs no iteration.
void SetCoupling(const Timeline& timeline, Behaviour& behaviour) {
  struct Crowd {
    uint32_t blocks = 0, hot = 0;
  };
  auto& traits = behaviour.traits;
  std::vector<Crowd> crowds(timeline.step_launches);
  for (size_t i = 0; i < traits.size(); ++i) {
    for (const Touch& touch : timeline.lives[i].touches) {
      ++crowds[touch.launch].blocks;
      crowds[touch.launch].hot += traits[i].heat > behaviour.hot_above;
    }
  }
  for (size_t i = 0; i < traits.size(); ++i) {
    const auto& touches = timeline.lives[i].touches;
    for (const Touch& touch : touches) {
      const Crowd& crowd = crowds[touch.launch];
      const double others = crowd.blocks - 1.0;
      const bool itself = traits[i].heat > behaviour.hot_above;
      if (others > 0) traits[i].coupling += (crowd.hot - itself) / others;
    }
    if (!touches.empty()) traits[i].coupling /= double(touches.size());
  }
}

void SetHeat(const Timeline& timeline, const HotnessWeights& weights, double threshold,
             Behaviour& behaviour) {
  const auto sum_up = [&](double coupling) {
    for (Traits& t : behaviour.traits) {
      t.heat = t.frequency * (weights.forward * t.forward + weights.backward * t.backward +
                              coupling * t.coupling);
    }
    SetLimit(threshold, behaviour);
  };
  sum_up(0);
  SetCoupling(timeline, behaviour);
  sum_up(weights.coupling);
  for (Traits& t : behaviour.traits) t.hot = IsTouched(t) && t.heat > behaviour.hot_above;
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
                const HotnessWeights& weights, double hot_threshold) {
  Behaviour behaviour;
  behaviour.traits.resize(timeline.lives.size());
  SetIdle(timeline, behaviour.traits);
  behaviour.turn = Turn(profile, timeline);
  behaviour.optimizer = OptimizerWindow(profile, timeline, behaviour.traits);
  for (size_t i = 0; i < timeline.lives.size(); ++i) {
    behaviour.traits[i].block_class =
        ClassOf(timeline.lives[i], behaviour.traits[i], behaviour, timeline.step_launches);
  }
  CountTouches(profile, timeline, behaviour);
  SetHeat(timeline, weights, hot_threshold, behaviour);
  Colocate(profile, timeline, behaviour);
  return behaviour;
}

HotnessWeights DefaultWeights(const profile::Profile& profile, bool several_ranks) {
  const auto differs = [&](const profile::Block& block) {
    return block.device != profile.blocks.front().device;
  };
  const bool several =
      several_ranks || profile::Number(profile, "rank").value_or(0) > 0 ||
      std::any_of(profile.blocks.begin(), profile.blocks.end(), differs) ||
      std::any_of(profile.events.begin(), profile.events.end(), [](const profile::Event& event) {
        return event.kind == profile::EventKind::kCopy && event.copy == profile::CopyKind::kPeer;
      });
  return several ? kSeveralDevices : HotnessWeights{};
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
