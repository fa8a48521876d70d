#include "src/plan/ranks.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "src/callsite/stable_hash.h"
#include "src/plan/hotness.h"
#include "src/plan/layout.h"
#include "src/plan/timeline.h"
#include "src/profile/metadata.h"

namespace ebt::plan {
namespace {

using Allocation = RankRecording::Allocation;
using Allocations = std::vector<Allocation>;
// Site, ordinal among its allocations, bytes.
using Key = std::tuple<uint64_t, uint64_t, uint64_t>;

// Equal in another process too, whose numbers for functions may be others.
uint64_t SymbolOf(const profile::Profile& profile, const profile::Event& event) {
  callsite::StableHash hash;
  hash.Add(uint64_t(event.kind)).Add(event.shape);
  if (event.kind == profile::EventKind::kLaunch && event.function < profile.functions.size()) {
    hash.Add(profile.functions[event.function].name);
  }
  return hash.Value();
}

std::vector<uint64_t> StepSymbols(const profile::Profile& profile, const Timeline& timeline) {
  std::vector<uint64_t> symbols;
  const auto& starts = timeline.steps.start_events;
  for (uint64_t at = starts[timeline.representative]; at < starts[timeline.representative + 1];
       ++at) {
    const profile::Event& event = profile.events[at];
    if (IsLaunch(event)) {
      symbols.push_back(SymbolOf(profile, event));
    }
  }
  return symbols;
}

Amount Sum(const Allocations& allocations) {
  Amount sum;
  for (const Allocation& allocation : allocations) {
    ++sum.blocks;
    sum.bytes += allocation.bytes;
  }
  return sum;
}

// Where `cycle` is to begin so that it reads as `pattern`, which is as long (Knuth, Morris and
// Pratt: recordings are untrusted, and must not cost a square). 0 where it never does.
size_t Turn(const std::vector<uint64_t>& pattern, const std::vector<uint64_t>& cycle) {
  const size_t size = pattern.size();
  if (size != cycle.size() || size == 0) return 0;
  std::vector<size_t> border(size + 1, 0);  // of the pattern's first i symbols
  for (size_t i = 1, k = 0; i < size; border[++i] = k) {
    while (k > 0 && pattern[i] != pattern[k]) k = border[k];
    if (pattern[i] == pattern[k]) ++k;
  }
  for (size_t i = 0, k = 0; i < 2 * size - 1; ++i) {
    while (k > 0 && cycle[i % size] != pattern[k]) k = border[k];
    if (cycle[i % size] == pattern[k]) ++k;
    if (k == size) return i + 1 - size;
  }
  return 0;
}

// A step's allocations when it begins at its launch `turn`.
Allocations Turned(Allocations step, size_t turn) {
  const auto middle = std::partition_point(step.begin(), step.end(),
                                           [turn](const Allocation& a) { return a.launch < turn; });
  std::rotate(step.begin(), middle, step.end());
  return step;
}

std::vector<Key> KeysOf(const Allocations& allocations) {
  absl::flat_hash_map<uint64_t, uint64_t> ordinals;
  std::vector<Key> keys;
  keys.reserve(allocations.size());
  for (const Allocation& allocation : allocations) {
    keys.emplace_back(allocation.site, ordinals[allocation.site]++, allocation.bytes);
  }
  return keys;
}

// What of `here` has no match in `there`; `labels` are those of `here`.
Unmatched Without(const Allocations& here, const Allocations& there,
                  const std::map<uint64_t, std::string>& labels) {
  const std::vector<Key> others = KeysOf(there);
  const absl::flat_hash_set<Key> matches(others.begin(), others.end());
  Unmatched unmatched;
  std::map<uint64_t, Amount> sites;
  for (const Key& key : KeysOf(here)) {
    if (matches.contains(key)) continue;
    const auto& [site, ordinal, bytes] = key;
    for (Amount* amount : {&unmatched.amount, &sites[site]}) {
      ++amount->blocks;
      amount->bytes += bytes;
    }
  }
  for (const auto& [site, amount] : sites) {
    const auto label = labels.find(site);
    unmatched.sites.push_back(
        {site, label == labels.end() ? fmt::format("site {:#x}", site) : label->second, amount});
  }
  std::stable_sort(unmatched.sites.begin(), unmatched.sites.end(),
                   [](const auto& a, const auto& b) { return a.amount.bytes > b.amount.bytes; });
  return unmatched;
}

}  // namespace

absl::StatusOr<RankRecording> SummarizeRank(const profile::Profile& profile,
                                            const std::string& source) {
  const auto timeline = BuildTimeline(profile);
  if (!timeline.ok()) return timeline.status();
  RankRecording recording;
  for (const Lived& life : timeline->lives) {
    const profile::Block& block = profile.blocks[life.block];
    const Allocation allocation{block.site, block.bytes, life.launch};
    if (life.in_step) recording.step.push_back(allocation);
    if (life.span == Span::kPersistent) recording.persistent.push_back(allocation);
  }
  recording.launches = StepSymbols(profile, *timeline);
  for (const callsite::Site& site : profile.sites) recording.labels[site.id] = SiteLabel(site);

  recording.rank.source = source;
  recording.rank.number = profile::Number(profile, "rank");
  recording.rank.truncated = profile.truncated;
  RankFigures& figures = recording.rank.figures;
  figures.program = profile::Text(profile, "program");
  figures.steps = timeline->steps.steps;
  figures.launches = timeline->step_launches;
  figures.native_peak_bytes = profile::NativePeakBytes(profile, MaxLiveBytes(profile, *timeline));
  figures.total_bytes = profile::Number(profile, "total_bytes").value_or(0);
  figures.step = Sum(recording.step);
  figures.persistent = Sum(recording.persistent);
  return recording;
}

bool PlannedBefore(const Rank& a, const Rank& b) {
  constexpr uint64_t kLast = std::numeric_limits<uint64_t>::max();
  return a.number.value_or(kLast) <= b.number.value_or(kLast);
}

RankComparison CompareRanks(const RankRecording& planned, const RankRecording& other) {
  const Allocations step = Turned(other.step, Turn(planned.launches, other.launches));
  RankComparison out;
  out.rank = other.rank;
  out.step = Without(step, planned.step, other.labels);
  out.step_missing = Without(planned.step, step, planned.labels);
  out.persistent = Without(other.persistent, planned.persistent, other.labels);
  out.persistent_missing = Without(planned.persistent, other.persistent, planned.labels);
  out.alike = planned.rank.figures == other.rank.figures;
  for (const Unmatched* unmatched :
       {&out.step, &out.step_missing, &out.persistent, &out.persistent_missing}) {
    out.alike = out.alike && unmatched->amount.blocks == 0;
  }
  return out;
}

RankSurvey SurveyRanks(std::vector<RankRecording> recordings) {
  std::stable_sort(recordings.begin(), recordings.end(),
                   [](const auto& a, const auto& b) { return !PlannedBefore(b.rank, a.rank); });
  RankSurvey survey;
  survey.planned = recordings.front().rank;
  for (size_t i = 1; i < recordings.size(); ++i) {
    survey.others.push_back(CompareRanks(recordings.front(), recordings[i]));
  }
  return survey;
}

}  // namespace ebt::plan
