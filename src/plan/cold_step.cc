#include "src/plan/cold_step.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "src/base/units.h"

namespace ebt::plan {
namespace {

std::vector<bool> InSlabs(size_t lives, const SlabSection& swapped) {
  std::vector<bool> in_slabs(lives, false);
  for (uint32_t life : swapped.lives) in_slabs[life] = true;
  return in_slabs;
}

void AddSlabMoves(const SlabSection& swapped, const Timeline& timeline, std::vector<Move>& moves) {
  for (size_t i = 0; i < swapped.slabs.size(); ++i) {
    const Slab& slab = swapped.slabs[i];
    moves.push_back({.bytes = swapped.slab_bytes,
                     .fetch = slab.fetch_launch,
                     .first = swapped.uses[i].first,
                     .last = slab.evict_launch,
                     .gone = slab.gone_launch});
  }
  // Those that are asked for at one launch go in the order in which they are needed.
  const uint32_t launches = std::max(1u, timeline.step_launches);
  std::stable_sort(moves.begin(), moves.end(), [&](const Move& a, const Move& b) {
    return (a.first + launches - a.fetch) % launches < (b.first + launches - b.fetch) % launches;
  });
}

void AddInPlace(const Lived& life, uint64_t bytes, bool unchanging, std::vector<InPlaceUse>& uses) {
  const bool across = life.span == Span::kPersistent;
  for (size_t i = 0; i < life.touches.size(); ++i) {
    const bool reads = across || i > 0, writes = across ? !unchanging : i == 0;
    InPlaceUse& use = uses[life.touches[i].launch];
    use.in += reads ? bytes : 0;
    use.out += writes ? bytes : 0;
  }
}

}  // namespace

std::vector<bool> Unchanging(const Timeline& timeline, const Behaviour& behaviour) {
  std::vector<bool> out(timeline.lives.size(), false);
  if (behaviour.optimizer.begin >= behaviour.optimizer.end) return out;
  for (size_t i = 0; i < timeline.lives.size(); ++i) {
    const Lived& life = timeline.lives[i];
    if (life.span != Span::kPersistent) continue;
    out[i] = std::none_of(life.touches.begin(), life.touches.end(), [&](const Touch& touch) {
      return touch.copy || behaviour.optimizer.Contains(touch.launch);
    });
  }
  return out;
}

Prediction PredictStep(const profile::Profile& profile, const Timeline& timeline,
                       const StepClock& clock, const DeviceModel& device, const ColdStep& cold,
                       const SlabSection& swapped, const std::vector<bool>& unchanging) {
  PlayedStep step{.device = device, .clock = clock};
  const std::vector<bool> in_slabs = InSlabs(timeline.lives.size(), swapped);
  step.in_place.resize(clock.launch_ms.size());
  for (size_t i = 0; i < cold.lives.size(); ++i) {
    const uint32_t life = cold.lives[i];
    if (in_slabs[life]) continue;
    const ColdBlock& block = cold.blocks[i];
    if (block.use == ColdUse::kInPlace) {
      AddInPlace(timeline.lives[life], profile.blocks[timeline.lives[life].block].bytes,
                 unchanging[life], step.in_place);
    } else {
      step.moves.push_back({.bytes = block.bytes,
                            .fetch = uint32_t(block.fetch_launch),
                            .first = block.first,
                            .last = uint32_t(block.evict_launch),
                            .managed = true});
    }
  }
  AddSlabMoves(swapped, timeline, step.moves);
  return PlayStep(step);
}

std::string WhySlower(const profile::Profile& profile, const Timeline& timeline,
                      const ColdStep& cold, const SlabSection& swapped,
                      const Prediction& prediction, double bound_ms, double tolerance) {
  if (prediction.step_ms <= (1 + tolerance) * bound_ms) return "";
  const std::vector<bool> in_slabs = InSlabs(timeline.lives.size(), swapped);
  uint64_t step_bytes = 0, step_touches = 0, across_bytes = 0;
  for (size_t i = 0; i < cold.lives.size(); ++i) {
    const uint32_t life = cold.lives[i];
    if (in_slabs[life] || cold.blocks[i].use != ColdUse::kInPlace) continue;
    const Lived& lived = timeline.lives[life];
    const uint64_t bytes = profile.blocks[lived.block].bytes;
    if (lived.span == Span::kPersistent) {
      across_bytes += lived.touches.empty() ? 0 : bytes;
    } else {
      step_bytes += bytes, step_touches += bytes * lived.touches.size();
    }
  }
  const StallMs& stall = prediction.stall_ms;
  std::vector<std::pair<double, std::string>> causes;
  if (step_bytes > 0) {
    causes.emplace_back(
        stall.in_place * double(step_touches) / double(step_touches + across_bytes),
        fmt::format("{} that the step makes itself, activations above all, can only be used in "
                    "place over the link, {:.1f} times each: slabs take nothing that does not "
                    "live across steps",
                    FormatSize(step_bytes), double(step_touches) / double(step_bytes)));
  }
  if (across_bytes > 0) {
    causes.emplace_back(
        stall.in_place * double(across_bytes) / double(step_touches + across_bytes),
        fmt::format("{} that live across steps are used in place: in use for too much of the step "
                    "to stay away, or without room when they are (a slab has one stay a step)",
                    FormatSize(across_bytes)));
  }
  if (stall.fetch > 0) {
    causes.emplace_back(stall.fetch,
                        "launches wait for copies in: there is no room to begin them sooner, or "
                        "the link is busy");
  }
  if (stall.room > 0) {
    causes.emplace_back(stall.room, "launches wait for copies out to leave their place");
  }
  if (stall.host > 0) causes.emplace_back(stall.host, "asking for copies holds up the launches");
  std::stable_sort(causes.begin(), causes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> lines;
  for (const auto& [ms, text] : causes) lines.push_back(fmt::format("{:.1f} ms: {}", ms, text));
  return absl::StrJoin(lines, "; ");
}

}  // namespace ebt::plan
