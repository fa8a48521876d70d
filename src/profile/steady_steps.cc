#include <algorithm>

#include "src/profile/step_spans.h"

namespace ebt::profile {
namespace {

// A row of equal steps that is shorter is chance.
constexpr size_t kLeastEqualSteps = 3;

// What tells a step by its launches.
uint64_t LaunchesHash(const Profile& profile, const StepSpan& span) {
  uint64_t hash = 0;
  for (uint64_t at = span.begin; at < span.end; ++at) {
    const Event& event = profile.events[at];
    if (!IsLaunch(event)) continue;
    const uint64_t shape = event.kind == EventKind::kGraph ? ~uint64_t{0} : event.shape;
    hash = LaunchSymbol(hash + event.function, shape);
  }
  return hash;
}

// As everywhere in Steps a step starts right behind the last launch of the one before it.
uint64_t BehindLaunch(const Profile& profile, uint64_t at) {
  while (at > 0 && !IsLaunch(profile.events[at - 1])) --at;
  return at;
}

// Of each step of a row that begins at these events, bytes that it makes and that outlive the next.
std::vector<uint64_t> KeptBytes(const Profile& profile, const std::vector<uint64_t>& starts) {
  std::vector<uint64_t> kept(starts.size() - 1, 0);
  for (const Block& block : profile.blocks) {
    const auto behind = std::upper_bound(starts.begin(), starts.end(), block.alloc_at);
    if (behind == starts.begin() || behind == starts.end()) continue;
    const size_t step = size_t(behind - starts.begin()) - 1;
    if (step + 2 < starts.size() && block.free_at >= starts[step + 2]) kept[step] += block.bytes;
  }
  return kept;
}

// The longest row of equal spans, one right behind the other; of equally long ones the last. Steps
// at its begin that make more to stay than the next one are set-up and left out.
std::optional<Steps> LongestEqualRow(const Profile& profile, const std::vector<StepSpan>& spans) {
  std::vector<uint64_t> hashes;
  for (const StepSpan& span : spans) hashes.push_back(LaunchesHash(profile, span));
  size_t best = 0, longest = 0, all = 0;
  for (size_t begin = 0, end = 0; begin < spans.size(); begin = end) {
    for (end = begin + 1; end < spans.size() && spans[end].begin == spans[end - 1].end &&
                          spans[end].launches == spans[begin].launches &&
                          hashes[end] == hashes[begin];) {
      ++end;
    }
    if (spans[begin].kind == StepKind::kEvaluation) continue;
    all += end - begin;
    if (end - begin >= longest) best = begin, longest = end - begin;
  }
  if (longest < kLeastEqualSteps || longest * 2 < all) return std::nullopt;
  std::vector<uint64_t> starts;
  for (size_t i = 0; i < longest; ++i) {
    starts.push_back(BehindLaunch(profile, spans[best + i].begin));
  }
  starts.push_back(BehindLaunch(profile, spans[best + longest - 1].end));
  const std::vector<uint64_t> kept = KeptBytes(profile, starts);
  size_t first = 0;
  while (first + 2 < longest && kept[first] > kept[first + 1]) ++first;
  Steps steps{.period = spans[best].launches, .steps = longest - first};
  steps.start_events.assign(starts.begin() + int64_t(first), starts.end());
  for (uint64_t at = 0; at < steps.start_events[0]; ++at) {
    steps.first_launch += IsLaunch(profile.events[at]);
  }
  return steps;
}

// Whoever looks for spans follows the blocks that events name, and when those live.
bool IsConsistent(const Profile& profile) {
  for (uint64_t at = 0; at < profile.events.size(); ++at) {
    const Event& event = profile.events[at];
    const bool allocates = event.kind == EventKind::kAlloc;
    if (allocates || event.kind == EventKind::kFree) {
      if (event.block >= profile.blocks.size()) return false;
      const Block& block = profile.blocks[event.block];
      if ((allocates ? block.alloc_at : block.free_at) != at) return false;
    }
    for (uint32_t touched : event.touched) {
      if (touched >= profile.blocks.size()) return false;
      const Block& block = profile.blocks[touched];
      if (at < block.alloc_at || at >= block.free_at) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<Steps> FindSteadySteps(const Profile& profile, std::vector<StepSpan>* spans) {
  auto steps = FindSteps(profile);
  // A single marked step says nothing of the others.
  if (steps && steps->steps > 1) return steps;
  if (!IsConsistent(profile)) return steps;
  *spans = FindStepSpans(profile);
  if (auto row = LongestEqualRow(profile, *spans)) return row;
  const bool differ = std::count_if(spans->begin(), spans->end(), [](const StepSpan& span) {
                        return span.kind != StepKind::kEvaluation;
                      }) >= int64_t(kLeastEqualSteps);
  return differ ? std::nullopt : steps;
}

}  // namespace ebt::profile
