#include "src/profile/steps.h"

#include <algorithm>
#include <cstdlib>

#include "absl/container/flat_hash_set.h"
#include "src/profile/usage.h"

namespace ebt::profile {
namespace {

// Periods that pass every cheap test are multiples of the shortest one, so a few tries are
// enough; the bound keeps a pathological recording linear.
constexpr int kMaxTries = 64;
// A stretch found by chance at one of these fractions of the recording covers at least twice
// their distance, hence the quarter that FindSteps promises.
constexpr uint64_t kAnchors = 8;
// Of two periods whose stretches are nearly equally long the shorter one is the step.
constexpr double kNearlyAll = 0.95;

using Series = std::vector<uint64_t>;

// z[i]: how many elements from i on equal those from 0 on.
std::vector<uint64_t> MatchLengths(const Series& s) {
  const uint64_t n = s.size();
  std::vector<uint64_t> z(n, 0);
  if (n == 0) return z;
  z[0] = n;
  for (uint64_t i = 1, left = 0, right = 0; i < n; ++i) {
    uint64_t length = i < right ? std::min(right - i, z[i - left]) : 0;
    while (i + length < n && s[length] == s[i + length]) ++length;
    z[i] = length;
    if (i + length > right) left = i, right = i + length;
  }
  return z;
}

uint64_t Distance(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

// The period [begin, begin + length) that others are compared with.
class ReferencePeriod {
 public:
  ReferencePeriod(const Series& live, uint64_t begin, uint64_t length)
      : live_(live), begin_(begin), length_(length) {
    auto [low, high] = std::minmax_element(live.begin() + begin, live.begin() + begin + length);
    double swing = double(*high - *low);
    swings_ = swing >= kMinSwing * double(*high) && swing > 0;
    tolerance_ = uint64_t(std::min(kMaxDrift * double(*high), kMaxSwingDrift* swing));
  }

  bool swings() const { return swings_; }

  // The longest stretch around the reference, within [low, high), in which live bytes agree.
  std::pair<uint64_t, uint64_t> Stretch(uint64_t low, uint64_t high) const {
    uint64_t first = begin_, last = begin_ + length_;
    while (first > low && Agrees(first - 1)) --first;
    while (last < high && Agrees(last)) ++last;
    return {first, last};
  }

 private:
  bool Agrees(uint64_t i) const {
    uint64_t place =
        i >= begin_ ? (i - begin_) % length_ : length_ - 1 - (begin_ - 1 - i) % length_;
    return Distance(live_[i], live_[begin_ + place]) <= tolerance_;
  }

  const Series& live_;
  uint64_t begin_, length_, tolerance_ = 0;
  bool swings_ = false;
};

// The launches of a recording.
struct Launches {
  Series symbols;
  Series live;      // bytes held before the launch
  Series least;     // fewest bytes held between the launch before it and this one
  Series event_at;  // event index
};

Launches LaunchesOf(const Profile& profile) {
  Launches out;
  uint64_t live = 0, least = 0;
  for (uint64_t at = 0; at < profile.events.size(); ++at) {
    const Event& event = profile.events[at];
    const bool names_block = event.block < profile.blocks.size();
    if (event.kind == EventKind::kAlloc && names_block) {
      live += profile.blocks[event.block].bytes;
    } else if (event.kind == EventKind::kFree && names_block) {
      live -= std::min(live, profile.blocks[event.block].bytes);
      least = std::min(least, live);
    } else if (event.kind == EventKind::kLaunch || event.kind == EventKind::kGraph) {
      // Graphs and functions are numbered apart from each other.
      uint64_t shape = event.kind == EventKind::kGraph ? ~uint64_t{0} : event.shape;
      out.symbols.push_back(LaunchSymbol(event.function, shape));
      out.live.push_back(live);
      out.least.push_back(least);
      out.event_at.push_back(at);
      least = live;
    }
  }
  return out;
}

struct Stretch {
  uint64_t begin = 0, end = 0, period = 0;
  uint64_t length() const { return end - begin; }
};

// All stretches that repeat around the launch `anchor`, in symbols and in live bytes.
void StretchesAround(const Launches& launches, uint64_t anchor, std::vector<Stretch>& out) {
  const Series& s = launches.symbols;
  const uint64_t n = s.size();
  const auto forward = MatchLengths(Series(s.begin() + anchor, s.end()));
  Series joined(s.rend() - anchor, s.rend());
  joined.push_back(0);  // no LaunchSymbol is 0
  joined.insert(joined.end(), s.rbegin(), s.rend());
  const auto backward = MatchLengths(joined);

  absl::flat_hash_set<uint64_t> symbols;
  int tries = 0;
  Stretch settled{.begin = 0, .end = 0, .period = 1};
  for (uint64_t period = 1; anchor + period < n && tries < kMaxTries; ++period) {
    if (symbols.size() < kMinSymbols) symbols.insert(s[anchor + period - 1]);
    const uint64_t begin = anchor - backward[anchor + 1 + n - anchor - period];
    const uint64_t end = anchor + period + forward[period];
    if (period < kMinPeriod || symbols.size() < kMinSymbols) continue;
    if (end - begin < 2 * period || (end - begin) * 4 < n) continue;
    // Multiples of a period that repeats all along the same launches could not be preferred to it.
    if (begin == settled.begin && end == settled.end && period % settled.period == 0) continue;
    ++tries;
    // Three references: the live bytes may settle somewhere within the stretch.
    bool nearly_all = false;
    for (uint64_t quarter = 1; quarter <= 3; ++quarter) {
      ReferencePeriod reference(launches.live, begin + (end - begin - period) * quarter / 4,
                                period);
      if (!reference.swings()) continue;
      auto [first, last] = reference.Stretch(begin, end);
      if (last - first < 2 * period || (last - first) * 4 < n) continue;
      out.push_back({first, last, period});
      nearly_all |= double(last - first) >= kNearlyAll * double(end - begin);
      if (nearly_all) break;
    }
    if (nearly_all) settled = {begin, end, period};
  }
}

std::optional<Stretch> BestStretch(const Launches& launches) {
  const uint64_t n = launches.symbols.size();
  std::vector<Stretch> found;
  uint64_t before = 0;
  for (uint64_t k = 1; k < kAnchors; ++k) {
    const uint64_t anchor = n * k / kAnchors;
    if (anchor == before) continue;
    before = anchor;
    StretchesAround(launches, anchor, found);
  }
  if (found.empty()) return std::nullopt;
  uint64_t longest = 0;
  for (const Stretch& stretch : found) longest = std::max(longest, stretch.length());
  std::erase_if(found, [&](const Stretch& stretch) {
    return double(stretch.length()) < kNearlyAll * double(longest);
  });
  return *std::min_element(found.begin(), found.end(), [](const Stretch& a, const Stretch& b) {
    if (a.period != b.period) return a.period < b.period;
    return a.length() > b.length();
  });
}

// The launch of the stretch's middle period before which the fewest bytes are live; the last
// one of a row of equals, since a step ends with such a row and begins with allocations.
uint64_t QuietestLaunch(const Launches& launches, const Stretch& stretch) {
  const uint64_t begin = stretch.begin + (stretch.length() - stretch.period) / 2;
  const auto from = launches.least.begin() + begin;
  const uint64_t fewest = *std::min_element(from, from + stretch.period);
  for (uint64_t i = 0; i < stretch.period; ++i) {
    const uint64_t next = (i + 1) % stretch.period;
    if (from[i] == fewest && from[next] != fewest) return begin + i;
  }
  return begin + (std::min_element(from, from + stretch.period) - from);
}

uint64_t StartEvent(const Launches& launches, uint64_t launch) {
  return launch == 0 ? 0 : launches.event_at[launch - 1] + 1;
}

std::optional<Steps> RepeatingSteps(const Launches& launches) {
  const auto stretch = BestStretch(launches);
  if (!stretch) return std::nullopt;
  const uint64_t quietest = QuietestLaunch(launches, *stretch);
  Steps steps;
  steps.period = stretch->period;
  steps.first_launch = stretch->begin + (quietest - stretch->begin) % stretch->period;
  steps.steps = (stretch->end - steps.first_launch) / steps.period;
  for (uint64_t i = 0; i <= steps.steps; ++i) {
    steps.start_events.push_back(StartEvent(launches, steps.first_launch + i * steps.period));
  }
  return steps;
}

// A step between two marks: the launches [begin, end).
struct MarkedStep {
  uint64_t begin = 0, end = 0;
  uint64_t hash = 0;
  bool settled = false;  // as many bytes are live at its end as at its begin
};

// The launches before each mark, or behind each window of the kernel that the user named.
std::vector<uint64_t> MarkedStarts(const Profile& profile) {
  std::vector<uint64_t> starts;
  uint64_t seen = 0;
  for (const Event& event : profile.events) {
    if (event.kind == EventKind::kLaunch || event.kind == EventKind::kGraph) ++seen;
    if (event.kind == EventKind::kStep && (starts.empty() || starts.back() != seen)) {
      starts.push_back(seen);
    }
  }
  if (!starts.empty() || !profile.metadata.contains(kStepKernelKey)) return starts;
  const Usage usage = FindUsage(profile, BlockTouches(profile));
  for (const Usage::Window& window : usage.windows) {
    starts.push_back(usage.launches_before[window.end]);
  }
  return starts;
}

std::vector<MarkedStep> MarkedSteps(const Profile& profile, const Launches& launches) {
  const std::vector<uint64_t> starts = MarkedStarts(profile);
  std::vector<MarkedStep> out;
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    MarkedStep step{.begin = starts[i], .end = starts[i + 1]};
    uint64_t most = 0;
    for (uint64_t launch = step.begin; launch < step.end; ++launch) {
      step.hash = LaunchSymbol(step.hash, launches.symbols[launch]);
      most = std::max(most, launches.live[launch]);
    }
    const uint64_t begins_with = launches.least[step.begin];
    const uint64_t ends_with =
        step.end < launches.least.size() ? launches.least[step.end] : begins_with;
    step.settled = double(Distance(begins_with, ends_with)) <= kMaxDrift * double(most);
    out.push_back(step);
  }
  return out;
}

std::optional<Steps> LongestMarkedRow(const Profile& profile, const Launches& launches) {
  const std::vector<MarkedStep> marked = MarkedSteps(profile, launches);
  if (marked.empty()) return std::nullopt;
  size_t best = marked.size() - 1, best_length = 1;
  bool best_settled = false;
  for (size_t i = 0; i < marked.size();) {
    size_t end = i + 1;
    while (marked[i].settled && end < marked.size() && marked[end].settled &&
           marked[end].hash == marked[i].hash &&
           marked[end].end - marked[end].begin == marked[i].end - marked[i].begin) {
      ++end;
    }
    if (marked[i].settled && (!best_settled || end - i >= best_length)) {
      best = i, best_length = end - i, best_settled = true;
    }
    i = end;
  }
  Steps steps;
  steps.marked = true;
  steps.first_launch = marked[best].begin;
  steps.period = marked[best].end - marked[best].begin;
  steps.steps = best_length;
  for (size_t i = 0; i <= best_length; ++i) {
    steps.start_events.push_back(StartEvent(launches, steps.first_launch + i * steps.period));
  }
  return steps;
}

// Set-up that launches nothing behind its last allocations lies in the first step. It is left
// out then: what was set up is no step's own.
void LeaveOutSetUp(const Profile& profile, Steps& steps) {
  if (steps.steps < 2) return;
  auto allocations = [&](uint64_t step) {
    return std::count_if(profile.events.begin() + steps.start_events[step],
                         profile.events.begin() + steps.start_events[step + 1],
                         [](const Event& event) { return event.kind == EventKind::kAlloc; });
  };
  if (allocations(0) <= allocations(1)) return;
  steps.first_launch += steps.period;
  steps.start_events.erase(steps.start_events.begin());
  --steps.steps;
}

}  // namespace

uint64_t LaunchSymbol(uint64_t function, uint64_t shape) {
  // A finalizer of two multiplications; the set bit keeps 0 free as a separator.
  uint64_t x = function * 0x9e3779b97f4a7c15u + (shape ^ 0xd1b54a32d192ed03u);
  x = (x ^ (x >> 32)) * 0xe9846af9b1a615d9u;
  x = (x ^ (x >> 29)) * 0x94d049bb133111ebu;
  return (x ^ (x >> 31)) | 1;
}

void StepDetector::Add(uint64_t symbol, uint64_t live_bytes) {
  if (symbols_.size() == kMaxHistory) {
    symbols_.erase(symbols_.begin(), symbols_.begin() + kMaxHistory / 2);
    live_bytes_.erase(live_bytes_.begin(), live_bytes_.begin() + kMaxHistory / 2);
    dropped_ += kMaxHistory / 2;
  }
  symbols_.push_back(symbol);
  live_bytes_.push_back(live_bytes);
}

std::optional<StepDetector::Found> StepDetector::Check() const {
  const uint64_t n = symbols_.size();
  if (n < 2 * kMinPeriod) return std::nullopt;
  // Reversed, the repeated end is a repeated beginning.
  const auto repeats = MatchLengths(Series(symbols_.rbegin(), symbols_.rend()));
  absl::flat_hash_set<uint64_t> symbols;
  int tries = 0;
  for (uint64_t period = 1; period <= n / 2 && tries < kMaxTries; ++period) {
    if (symbols.size() < kMinSymbols) symbols.insert(symbols_[n - period]);
    const uint64_t covered = period + repeats[period];
    if (period < kMinPeriod || symbols.size() < kMinSymbols) continue;
    if (covered < 2 * period || covered * 3 < n) continue;
    ++tries;
    ReferencePeriod reference(live_bytes_, n - period, period);
    if (!reference.swings()) continue;
    const uint64_t stretch = n - reference.Stretch(n - covered, n).first;
    if (stretch >= 2 * period && stretch * 3 >= n) return Found{period, stretch / period};
  }
  return std::nullopt;
}

std::optional<Steps> FindSteps(const Profile& profile) {
  const Launches launches = LaunchesOf(profile);
  auto steps = LongestMarkedRow(profile, launches);
  if (!steps) steps = RepeatingSteps(launches);
  if (steps) LeaveOutSetUp(profile, *steps);
  return steps;
}

}  // namespace ebt::profile
