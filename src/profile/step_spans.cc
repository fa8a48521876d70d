#include "src/profile/step_spans.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "src/profile/steps.h"

namespace ebt::profile {
namespace {

// Losses, counters, scales: work on these alone still belongs to the optimizer.
constexpr uint64_t kScalarBytes = 512;
// An evaluation has at least this share of a forward pass's work.
constexpr double kLeastEvaluation = 0.5;
// A few blocks may be taken for gradients that come into being before the first of them does.
constexpr double kEarly = 0.1;
// At the end of an evaluation less than this share of its own memory is still held.
constexpr double kHeldByEvaluation = 0.5;

uint64_t Least(const std::vector<uint64_t>& values) {
  return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}

// Of the sorted values the one below which `share` of them lie.
uint64_t Quantile(std::vector<uint64_t> values, double share) {
  if (values.empty()) return 0;
  const auto place = values.begin() + ptrdiff_t(share * double(values.size()));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

// Which of a sequence of groups end a step: true at the anchors.
std::vector<bool> Anchors(const std::vector<uint32_t>& groups) {
  std::map<uint32_t, uint64_t> counts;
  std::vector<uint32_t> order;  // of first sight
  for (uint32_t group : groups) {
    if (++counts[group] == 1) order.push_back(group);
  }
  uint64_t fewest = groups.size();
  for (const auto& [group, count] : counts) {
    if (count > 1) fewest = std::min(fewest, count);
  }
  std::vector<bool> all(groups.size(), true);
  const auto anchor = std::find_if(order.rbegin(), order.rend(),
                                   [&](uint32_t group) { return counts[group] <= fewest; });
  if (counts.size() < 2 || anchor == order.rend() || counts[*anchor] < 2) return all;
  std::vector<bool> out(groups.size());
  uint64_t turns = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    out[i] = groups[i] == *anchor;
    turns += out[i] && i > 0 && !out[i - 1];
  }
  // Optimizers that follow each other, first the one and then the other, do not take turns.
  return 2 * turns >= counts[*anchor] ? out : all;
}

class Spans {
 public:
  Spans(const Profile& profile, const BlockTouches& touches, const Usage& usage,
        const std::vector<Cycle>& cycles)
      : profile_(profile), touches_(touches), usage_(usage), cycles_(cycles) {}

  std::vector<StepSpan> Find() {
    FindForwardFunctions();
    FindPrelude();
    std::vector<uint32_t> groups;
    for (const Usage::Window& window : usage_.windows) groups.push_back(window.group);
    const std::vector<bool> anchors = Anchors(groups);
    for (size_t first = 0, i = 0; i < anchors.size(); ++i) {
      if (!anchors[i]) continue;
      if (HasPass(first, i)) AddStep(first, i);
      first = i + 1;
    }
    AddTail();
    return std::move(spans_);
  }

 private:
  uint64_t LaunchesIn(uint64_t begin, uint64_t end) const {
    return usage_.launches_before[end] - usage_.launches_before[begin];
  }
  // Launches that use the model with a function that forward passes use it with, which set-up
  // does not.
  uint64_t ModelUseIn(uint64_t begin, uint64_t end) const {
    uint64_t uses = 0;
    for (uint64_t at = begin; at < end; ++at) {
      uses += usage_.use[at] == Usage::Use::kModel &&
              forward_functions_.contains(profile_.events[at].function);
    }
    return uses;
  }
  void FindForwardFunctions() {
    for (const Cycle& cycle : cycles_) {
      if (!cycle.has_window) continue;
      for (const Pass& pass : cycle.passes) {
        for (uint64_t at = pass.begin; at < pass.turn; ++at) {
          if (usage_.use[at] != Usage::Use::kModel) continue;
          forward_functions_.insert(profile_.events[at].function);
        }
      }
    }
  }

  // Right behind the launch before which `launches` launches have run.
  uint64_t BehindLaunch(uint64_t launches) const {
    return uint64_t(
        std::lower_bound(usage_.launches_before.begin(), usage_.launches_before.end(), launches) -
        usage_.launches_before.begin());
  }

  // Behind a window: work on what persists and on scalars is still the optimizer's.
  uint64_t EndOf(const Cycle& cycle) const {
    uint64_t end = cycle.end;
    for (uint64_t at = cycle.end; at < profile_.events.size(); ++at) {
      const Event& event = profile_.events[at];
      if (event.kind == EventKind::kCopy && event.copy == CopyKind::kHtoD) break;
      if (!IsLaunch(event)) continue;
      if (usage_.use[at] == Usage::Use::kModel) break;
      const bool is_of_optimizer =
          std::all_of(event.touched.begin(), event.touched.end(), [&](uint32_t block) {
            return usage_.persistent[block] || profile_.blocks[block].bytes <= kScalarBytes;
          });
      if (!is_of_optimizer) break;
      end = at + 1;
    }
    return end;
  }
  uint64_t BeginOfCycle(size_t i) const { return i == 0 ? 0 : EndOf(cycles_[i - 1]); }

  // What a step does before what it saves for backward: launches, and how many use the model.
  // Before some step there is no evaluation, so the least of all knows nothing of it.
  void FindPrelude() {
    std::vector<uint64_t> launches, model, forward;
    for (size_t i = 0; i < cycles_.size(); ++i) {
      if (!cycles_[i].has_window || cycles_[i].passes.empty()) continue;
      const Pass& pass = cycles_[i].passes.front();
      forward.push_back(ModelUseIn(pass.begin, pass.turn));
      if (i == 0) continue;
      const uint64_t begin = std::min(BeginOfCycle(i), pass.begin);
      launches.push_back(LaunchesIn(begin, pass.begin));
      model.push_back(ModelUseIn(begin, pass.begin));
    }
    prelude_ = Least(launches);
    least_evaluation_ =
        Least(model) +
        std::max(uint64_t(kLeastEvaluation * double(Quantile(forward, 0.5))), uint64_t{1});
  }

  // Where the step begins whose first pass is `pass` when it does not begin at `begin`.
  uint64_t BeginOfPass(uint64_t begin, const Pass& pass) const {
    const uint64_t before = usage_.launches_before[pass.begin];
    return std::max(begin, BehindLaunch(before - std::min(before, prelude_)));
  }

  // Set-up copies parameters, which is an optimizer's window without a pass before it.
  bool HasPass(size_t first, size_t last) const {
    return std::any_of(cycles_.begin() + first, cycles_.begin() + last + 1,
                       [](const Cycle& cycle) { return !cycle.passes.empty(); });
  }

  // The step that consists of the cycles first ... last.
  void AddStep(size_t first, size_t last) {
    uint64_t begin = BeginOfCycle(first);
    const Cycle& cycle = cycles_[first];
    if (!cycle.passes.empty()) {
      const Pass& pass = cycle.passes.front();
      const bool evaluates = ModelUseIn(begin, pass.begin) >= least_evaluation_;
      const uint64_t later = BeginOfPass(begin, pass);
      if (evaluates) Add(BeginOfEvaluation(begin), later, StepKind::kEvaluation);
      if (evaluates || spans_.empty()) begin = later;
    }
    for (uint64_t skipped_end : SkippedIn(cycle)) {
      Add(begin, skipped_end, StepKind::kSkipped);
      begin = skipped_end;
    }
    Add(begin, EndOf(cycles_[last]), StepKind::kTraining);
  }

  // Set-up may lie before the first one.
  uint64_t BeginOfEvaluation(uint64_t begin) const {
    uint64_t at = begin;
    while (at < usage_.use.size() && usage_.use[at] != Usage::Use::kModel) ++at;
    return begin == 0 ? BehindLaunch(usage_.launches_before[at]) : begin;
  }

  // Ends of the steps in the cycle whose gradients were gone before the window: of its passes
  // those before the one in which the first gradients come into being.
  std::vector<uint64_t> SkippedIn(const Cycle& cycle) const {
    std::vector<uint64_t> births;
    for (uint64_t at = cycle.begin; at < cycle.window_begin; ++at) {
      const Event& event = profile_.events[at];
      if (event.kind != EventKind::kAlloc || usage_.persistent[event.block]) continue;
      if (IsUpdated(event.block, cycle)) births.push_back(touches_.Of(event.block).front());
    }
    std::vector<uint64_t> ends;
    if (births.empty()) return ends;
    const uint64_t birth = Quantile(births, kEarly);
    const auto& passes = cycle.passes;
    size_t real = 0;
    while (real + 1 < passes.size() && passes[real + 1].begin <= birth) ++real;
    const size_t micro_steps = passes.size() - std::min(real, passes.size());
    for (size_t i = micro_steps; micro_steps > 0 && i <= real; i += micro_steps) {
      ends.push_back(BeginOfPass(cycle.begin, passes[i]));
    }
    return ends;
  }
  bool IsUpdated(uint32_t block, const Cycle& cycle) const {
    const auto touches = touches_.Of(block);
    if (touches.empty() || touches.front() >= cycle.window_begin) return false;
    return std::any_of(std::lower_bound(touches.begin(), touches.end(), cycle.window_begin),
                       std::lower_bound(touches.begin(), touches.end(), cycle.end),
                       [&](uint32_t at) { return usage_.use[at] == Usage::Use::kUpdate; });
  }

  // Behind the last window: an evaluation, or a step that was not finished.
  void AddTail() {
    const uint64_t begin = BeginOfCycle(cycles_.size() - 1), end = profile_.events.size();
    if (usage_.windows.empty() || ModelUseIn(begin, end) < least_evaluation_) return;
    uint64_t live = 0, most = 0;
    for (uint64_t at = begin; at < end; ++at) {
      const Event& event = profile_.events[at];
      if (event.kind == EventKind::kAlloc) live += profile_.blocks[event.block].bytes;
      if (event.kind == EventKind::kFree && profile_.blocks[event.block].alloc_at >= begin) {
        live -= profile_.blocks[event.block].bytes;
      }
      most = std::max(most, live);
    }
    if (cycles_.back().passes.empty() && double(live) < kHeldByEvaluation * double(most)) {
      Add(begin, end, StepKind::kEvaluation);
    }
  }

  void Add(uint64_t begin, uint64_t end, StepKind kind) {
    spans_.push_back({begin, end, LaunchesIn(begin, end), kind});
  }

  const Profile& profile_;
  const BlockTouches& touches_;
  const Usage& usage_;
  const std::vector<Cycle>& cycles_;
  absl::flat_hash_set<uint32_t> forward_functions_;
  uint64_t prelude_ = 0, least_evaluation_ = 0;
  std::vector<StepSpan> spans_;
};

StepSpan SpanOf(const Usage& usage, uint64_t begin, uint64_t end, StepKind kind) {
  return {begin, end, usage.launches_before[end] - usage.launches_before[begin], kind};
}

// The last window that lies in [begin, end).
const Usage::Window* LastWindowIn(const Usage& usage, uint64_t begin, uint64_t end) {
  const auto next =
      std::partition_point(usage.windows.begin(), usage.windows.end(),
                           [&](const Usage::Window& window) { return window.end <= end; });
  if (next == usage.windows.begin() || (next - 1)->begin < begin) return nullptr;
  return &*(next - 1);
}

std::vector<StepSpan> MarkedSpans(const Profile& profile, const Usage& usage,
                                  const std::vector<Cycle>& cycles) {
  std::vector<uint64_t> marks;
  for (uint64_t at = 0; at < profile.events.size(); ++at) {
    if (profile.events[at].kind != EventKind::kStep) continue;
    // Marks without work between them are one.
    if (!marks.empty() && usage.launches_before[marks.back()] == usage.launches_before[at]) {
      marks.pop_back();
    }
    marks.push_back(at);
  }
  std::vector<uint64_t> turns;
  for (const Cycle& cycle : cycles) {
    for (const Pass& pass : cycle.passes) turns.push_back(pass.turn);
  }
  std::sort(turns.begin(), turns.end());
  auto has_pass = [&](uint64_t begin, uint64_t end) {
    const auto turn = std::lower_bound(turns.begin(), turns.end(), begin);
    return turn != turns.end() && *turn < end;
  };
  std::vector<StepSpan> out;
  for (size_t i = 0; i < marks.size(); ++i) {
    const bool is_last = i + 1 == marks.size();
    uint64_t end = is_last ? profile.events.size() : marks[i + 1];
    const Usage::Window* window = LastWindowIn(usage, marks[i], end);
    if (is_last && !usage.windows.empty()) {
      if (window == nullptr) break;
      end = window->end;
    }
    StepKind kind = StepKind::kPlain;
    if (window != nullptr) {
      kind = StepKind::kTraining;
    } else if (!usage.windows.empty()) {
      kind = has_pass(marks[i], end) ? StepKind::kSkipped : StepKind::kEvaluation;
    }
    const StepSpan span = SpanOf(usage, marks[i], end, kind);
    if (span.launches > 0) out.push_back(span);
  }
  return out;
}

// From one launch of a graph to the next, behind `from`. The first step's beginning is not seen:
// it is taken to be as long as the second one.
std::vector<StepSpan> GraphSpans(const Profile& profile, const Usage& usage, uint64_t from) {
  std::vector<uint32_t> graphs;
  std::vector<uint64_t> ends;
  for (uint64_t at = from; at < profile.events.size(); ++at) {
    if (profile.events[at].kind != EventKind::kGraph) continue;
    graphs.push_back(profile.events[at].function);
    ends.push_back(at + 1);
  }
  const std::vector<bool> anchors = Anchors(graphs);
  std::vector<uint64_t> borders;
  for (size_t i = 0; i < ends.size(); ++i) {
    if (anchors[i]) borders.push_back(ends[i]);
  }
  std::vector<StepSpan> out;
  if (borders.size() < 2) return out;
  const uint64_t first = usage.launches_before[borders[0]];
  const uint64_t length = usage.launches_before[borders[1]] - first;
  const auto begin = std::lower_bound(usage.launches_before.begin(), usage.launches_before.end(),
                                      first - std::min(first, length));
  borders.insert(borders.begin(), std::max(from, uint64_t(begin - usage.launches_before.begin())));
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    out.push_back(SpanOf(usage, borders[i], borders[i + 1], StepKind::kPlain));
  }
  return out;
}

}  // namespace

std::string_view StepKindName(StepKind kind) {
  static constexpr std::string_view kNames[] = {"training", "skipped", "evaluation", "plain"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<StepSpan> FindStepSpans(const Profile& profile, const BlockTouches& touches,
                                    const Usage& usage, const std::vector<Cycle>& cycles) {
  auto marked = MarkedSpans(profile, usage, cycles);
  if (!marked.empty()) return marked;
  auto spans = Spans(profile, touches, usage, cycles).Find();
  const auto graphs = GraphSpans(profile, usage, spans.empty() ? 0 : spans.back().end);
  spans.insert(spans.end(), graphs.begin(), graphs.end());
  if (!spans.empty()) return spans;
  if (const auto steps = FindSteps(profile)) {
    for (uint64_t i = 0; i < steps->steps; ++i) {
      spans.push_back(
          SpanOf(usage, steps->start_events[i], steps->start_events[i + 1], StepKind::kPlain));
    }
  }
  return spans;
}

std::vector<StepSpan> FindStepSpans(const Profile& profile) {
  const BlockTouches touches(profile);
  const Usage usage = FindUsage(profile, touches);
  return FindStepSpans(profile, touches, usage, FindCycles(profile, touches, usage));
}

}  // namespace ebt::profile
