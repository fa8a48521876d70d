#include "src/plan/cold_step.h"

#include <algorithm>
#include <optional>

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

// Who gets the places of slabs when these are gone.
class Takers {
 public:
  Takers(const profile::Profile& profile, const Timeline& timeline, const std::vector<Tier>& tiers,
         const SlabSection& swapped, const Layout& layout)
      : timeline_(timeline), swapped_(swapped), layout_(layout) {
    for (uint32_t i = 0; i < timeline.lives.size(); ++i) {
      const Lived& life = timeline.lives[i];
      // What lives across steps has its place for good; what the warm-up made is gone.
      if (!life.in_step || (tiers[i] != Tier::kHot && tiers[i] != Tier::kWarm)) continue;
      AddBegin(layout.offsets[i], profile.blocks[life.block].bytes, life.live[0].begin);
    }
    for (auto& begins : begins_) std::sort(begins.begin(), begins.end());
  }

  // The next one behind launch `gone`: a launch before which a block comes, or a slab.
  struct Taker {
    uint32_t launch = kNobody;
    uint32_t slab = kNobody;
  };
  Taker After(size_t slab) const {
    const uint64_t offset = layout_.stay_offsets[slab];
    const uint64_t gone = timeline_.launch_times[swapped_.slabs[slab].gone_launch];
    Taker taker;
    uint64_t soonest = ~uint64_t{0};
    const size_t place = offset / swapped_.slab_bytes;
    if (place < begins_.size() && !begins_[place].empty()) {
      const auto& begins = begins_[place];
      const auto next = std::lower_bound(begins.begin(), begins.end(), gone);
      const uint64_t begin = next == begins.end() ? begins.front() : *next;
      soonest = Since(gone, begin);
      const auto& times = timeline_.launch_times;
      const auto launch = std::lower_bound(times.begin(), times.end(), begin);
      taker.launch = launch == times.end() ? 0 : uint32_t(launch - times.begin());
    }
    for (uint32_t other = 0; other < swapped_.slabs.size(); ++other) {
      if (layout_.stay_offsets[other] != offset) continue;
      const uint64_t since =
          Since(gone, timeline_.launch_times[swapped_.slabs[other].fetch_launch]);
      if (since >= soonest) continue;
      soonest = since;
      taker = {.slab = other == slab ? kNobody : other};
    }
    return taker;
  }

 private:
  uint64_t Since(uint64_t gone, uint64_t time) const {
    return time >= gone ? time - gone : time + (timeline_.end - timeline_.prologue_end) - gone;
  }

  void AddBegin(uint64_t offset, uint64_t bytes, uint64_t begin) {
    const size_t last = (offset + bytes - 1) / swapped_.slab_bytes;
    if (last >= begins_.size()) begins_.resize(last + 1);
    for (size_t place = offset / swapped_.slab_bytes; place <= last; ++place) {
      begins_[place].push_back(begin);
    }
  }

  const Timeline& timeline_;
  const SlabSection& swapped_;
  const Layout& layout_;
  std::vector<std::vector<uint64_t>> begins_;  // by place on the device, of slab_bytes: times
};

std::vector<Move> SlabMoves(const SlabSection& swapped, const Takers* takers) {
  std::vector<Move> moves;
  for (size_t i = 0; i < swapped.slabs.size(); ++i) {
    const Slab& slab = swapped.slabs[i];
    moves.push_back({.bytes = swapped.slab_bytes,
                     .fetch = slab.fetch_launch,
                     .first = swapped.uses[i].first,
                     .last = slab.evict_launch,
                     .gone = slab.gone_launch});
  }
  for (size_t i = 0; takers != nullptr && i < moves.size(); ++i) {
    const Takers::Taker taker = takers->After(i);
    moves[i].gone = taker.launch;
    if (taker.slab != kNobody) moves[taker.slab].after = uint32_t(i);
  }
  return moves;
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
                       const std::vector<Tier>& tiers, const SlabSection& swapped,
                       const Layout* layout, const std::vector<bool>& unchanging) {
  PlayedStep step{.device = device, .clock = clock};
  if (clock.launch_ms.size() != timeline.step_launches) return {.step_ms = clock.step_ms};
  std::optional<Takers> takers;
  if (layout != nullptr && !swapped.slabs.empty()) {
    takers.emplace(profile, timeline, tiers, swapped, *layout);
  }
  step.moves = SlabMoves(swapped, takers ? &*takers : nullptr);
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
    causes.emplace_back(
        stall.fetch,
        "launches wait for copies in: there is no room for them sooner, or the link "
        "carries others until then");
  }
  if (stall.room > 0) {
    causes.emplace_back(
        stall.room,
        "launches wait for copies out to leave their place: it is needed sooner than "
        "the link has carried away what lies there");
  }
  if (stall.host > 0) causes.emplace_back(stall.host, "asking for copies holds up the launches");
  std::stable_sort(causes.begin(), causes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> lines;
  for (const auto& [ms, text] : causes) lines.push_back(fmt::format("{:.1f} ms: {}", ms, text));
  return absl::StrJoin(lines, "; ");
}

}  // namespace ebt::plan
