#include "src/plan/timeline.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "fmt/format.h"
#include "src/plan/recorded_lives.h"
#include "src/plan/uneven_timeline.h"
#include "src/profile/step_spans.h"

namespace ebt::plan {
namespace {

using profile::AllocKind;
using profile::Event;
using profile::EventKind;
using profile::kNever;
using profile::Profile;

// Steps that are asked where a persistent block is touched: the last so many.
constexpr uint64_t kJudgedSteps = 16;

class Builder {
 public:
  Builder(const Profile& profile, profile::Steps steps) : profile_(profile) {
    timeline_.steps = std::move(steps);
  }

  absl::StatusOr<Timeline> Build() {
    if (auto status = recorded_.Read(profile_); !status.ok()) return status;
    timeline_.representative = ChooseStep();
    const auto& starts = timeline_.steps.start_events;
    const uint64_t begin = starts[timeline_.representative];
    timeline_.prologue_end = starts[0];
    timeline_.end = starts[0] + starts[timeline_.representative + 1] - begin;
    timeline_.step_launches = uint32_t(timeline_.steps.period);
    for (uint64_t at = begin; at < starts[timeline_.representative + 1]; ++at) {
      if (!IsLaunch(profile_.events[at])) continue;
      timeline_.launch_times.push_back(timeline_.prologue_end + at - begin);
    }
    AddSequence(0, starts[0], false);
    AddSequence(begin, starts[timeline_.representative + 1], true);
    LeaveOutUnplannable(profile_, recorded_, timeline_);
    PairTwins();
    CollectTouches();
    DropChanceTouches();
    return std::move(timeline_);
  }

 private:
  // The step whose allocations and frees are those of most steps; of equally common ones the
  // last. The last step of all is left out where possible, since the frees of what it hands to
  // the next are not to be seen.
  uint64_t ChooseStep() const {
    const auto& steps = timeline_.steps;
    const uint64_t candidates = std::max<uint64_t>(1, steps.steps - 1);
    std::map<uint64_t, uint64_t> votes;
    std::vector<uint64_t> signatures;
    for (uint64_t i = 0; i < candidates; ++i) {
      uint64_t hash = 0;
      for (uint64_t at = steps.start_events[i]; at < steps.start_events[i + 1]; ++at) {
        const Event& event = profile_.events[at];
        if (event.kind != EventKind::kAlloc && event.kind != EventKind::kFree) continue;
        const auto& block = profile_.blocks[event.block];
        hash = profile::LaunchSymbol(hash + uint64_t(event.kind), block.bytes ^ block.site);
      }
      signatures.push_back(hash);
      ++votes[hash];
    }
    uint64_t best = 0;
    for (uint64_t i = 0; i < candidates; ++i) {
      if (votes[signatures[i]] >= votes[signatures[best]]) best = i;
    }
    return best;
  }

  // The timeline's time of event `at`, which happened in recorded step `step` or in launches
  // that follow where a further step would be. Between two launches it keeps its distance to
  // the first. Nothing when it is a whole period away.
  std::optional<uint64_t> StepTime(uint64_t at, uint64_t step) const {
    const auto& steps = timeline_.steps;
    const uint64_t first = steps.first_launch + step * steps.period;
    const uint64_t launches = recorded_.launches_before[at] - first;
    if (launches >= steps.period) return std::nullopt;
    const uint64_t since = at - GapBegin(first + launches);
    const uint64_t model = steps.first_launch + timeline_.representative * steps.period;
    const uint64_t begin = GapBegin(model + launches);
    const uint64_t end = recorded_.launch_at[model + launches];
    return timeline_.prologue_end + std::min(begin + since, end) -
           steps.start_events[timeline_.representative];
  }

  // The first event behind the launch before `launch`.
  uint64_t GapBegin(uint64_t launch) const {
    return launch == 0 ? 0 : recorded_.launch_at[launch - 1] + 1;
  }

  void AddSequence(uint64_t begin, uint64_t end, bool in_step) {
    absl::flat_hash_map<uint64_t, uint32_t> ordinals;
    for (uint64_t at = begin; at < end; ++at) {
      const Event& event = profile_.events[at];
      if (event.kind != EventKind::kAlloc) continue;
      const auto& block = profile_.blocks[event.block];
      if (!Servable(block.kind)) continue;
      Lived life;
      life.block = event.block;
      life.in_step = in_step;
      life.launch = uint32_t(recorded_.launches_before[at] - recorded_.launches_before[begin]);
      life.ordinal = ordinals[block.site]++;
      if (in_step) {
        SetStepLife(life, timeline_.prologue_end + at - begin);
      } else {
        SetPrologueLife(life, at);
      }
      timeline_.lives.push_back(std::move(life));
    }
  }

  void SetPrologueLife(Lived& life, uint64_t at) const {
    const auto& starts = timeline_.steps.start_events;
    const uint64_t free_at = recorded_.blocks[life.block].free_at;
    if (free_at < starts[0]) {
      life.span = Span::kPrologue;
      life.live[0] = {at, free_at};
    } else if (free_at < starts[1]) {
      life.span = Span::kCrossing;
      life.live[0] = {at, StepTime(free_at, 0).value_or(timeline_.end)};
    } else {
      life.span = Span::kPersistent;
      life.live[0] = {at, timeline_.end};
    }
  }

  void SetStepLife(Lived& life, uint64_t time) const {
    const uint64_t next = timeline_.representative + 1;
    const uint64_t free_at = recorded_.blocks[life.block].free_at;
    if (free_at < timeline_.steps.start_events[next]) {
      life.span = Span::kStep;
      life.live[0] = {time, *StepTime(free_at, timeline_.representative)};
      return;
    }
    auto freed = free_at == kNever ? std::nullopt : StepTime(free_at, next);
    life.live[0] = {time, timeline_.end};
    if (!freed || *freed > time) {
      life.span = Span::kUnplanned;
      life.unplanned = Unplanned::kOutlives;
      return;
    }
    life.span = Span::kCyclic;
    life.live[1] = {timeline_.prologue_end, *freed};
  }

  // Where a block is freed in a step, as the number of launches before.
  uint64_t LaunchesBeforeFree(const Lived& life, uint64_t step) const {
    return recorded_.launches_before[recorded_.blocks[life.block].free_at] -
           timeline_.steps.first_launch - step * timeline_.steps.period;
  }

  // A block that the last warm-up step hands to the first steady one is what every steady step
  // hands to its next: equal size, freed at the same place, of the same site where there is a
  // choice.
  void PairTwins() {
    using Key = std::tuple<uint64_t, uint64_t, uint64_t>;  // bytes, launches before free, site
    std::map<Key, std::vector<uint32_t>> cyclic;
    for (uint32_t i = timeline_.lives.size(); i-- > 0;) {
      const Lived& life = timeline_.lives[i];
      if (life.span != Span::kCyclic || !timeline_.Planned(life)) continue;
      const auto& block = profile_.blocks[life.block];
      cyclic[{block.bytes, LaunchesBeforeFree(life, timeline_.representative + 1), block.site}]
          .push_back(i);
    }
    for (bool same_site : {true, false}) {
      for (Lived& life : timeline_.lives) {
        if (life.span != Span::kCrossing || life.twin != kNoTwin || !timeline_.Planned(life)) {
          continue;
        }
        const auto& block = profile_.blocks[life.block];
        const uint64_t freed = LaunchesBeforeFree(life, 0);
        auto from = cyclic.lower_bound({block.bytes, freed, same_site ? block.site : 0});
        while (from != cyclic.end() && from->second.empty() && !same_site) ++from;
        if (from == cyclic.end() || from->second.empty()) continue;
        const auto& [bytes, launches, site] = from->first;
        if (bytes != block.bytes || launches != freed || (same_site && site != block.site)) {
          continue;
        }
        life.twin = from->second.back();
        from->second.pop_back();
      }
    }
  }

  void CollectTouches() {
    std::vector<uint32_t> life_of(profile_.blocks.size(), kNoTwin);
    for (uint32_t i = 0; i < timeline_.lives.size(); ++i) {
      const Lived& life = timeline_.lives[i];
      if (life.in_step || life.span == Span::kPersistent) life_of[life.block] = i;
    }
    const auto& steps = timeline_.steps;
    const uint64_t first = steps.first_launch + timeline_.representative * steps.period;
    const uint64_t next = steps.start_events[timeline_.representative + 1];
    for (uint64_t at = steps.start_events[timeline_.representative];
         at < profile_.events.size() && recorded_.launches_before[at] < first + 2 * steps.period;
         ++at) {
      const Event& event = profile_.events[at];
      const uint64_t launch = (recorded_.launches_before[at] - first) % steps.period;
      for (uint32_t block : event.touched) {
        if (block >= life_of.size() || life_of[block] == kNoTwin) continue;
        Lived& life = timeline_.lives[life_of[block]];
        if (at >= next && life.span != Span::kCyclic) continue;
        life.touches.push_back({uint32_t(launch), !IsLaunch(event)});
      }
    }
  }

  // Parameters are scanned word by word, so what an earlier launch left on the stack behind a
  // short list can read as an address. A persistent block is touched where most steps touch it.
  void DropChanceTouches() {
    const auto& steps = timeline_.steps;
    const uint64_t judged = std::min(steps.steps, kJudgedSteps);
    if (judged < 3) return;
    const uint64_t first = steps.first_launch + (steps.steps - judged) * steps.period;
    std::vector<uint32_t> life_of(profile_.blocks.size(), kNoTwin);
    for (uint32_t i = 0; i < timeline_.lives.size(); ++i) {
      if (timeline_.lives[i].span == Span::kPersistent) life_of[timeline_.lives[i].block] = i;
    }
    absl::flat_hash_map<std::pair<uint32_t, uint64_t>, uint64_t> votes;  // life, touch -> steps
    for (uint64_t at = steps.start_events[steps.steps - judged];
         at < profile_.events.size() &&
         recorded_.launches_before[at] < first + judged * steps.period;
         ++at) {
      const Event& event = profile_.events[at];
      const uint64_t launch = (recorded_.launches_before[at] - first) % steps.period;
      for (uint32_t block : event.touched) {
        if (block < life_of.size() && life_of[block] != kNoTwin) {
          ++votes[{life_of[block], launch * 2 + !IsLaunch(event)}];
        }
      }
    }
    for (uint32_t i = 0; i < timeline_.lives.size(); ++i) {
      Lived& life = timeline_.lives[i];
      if (life.span != Span::kPersistent) continue;
      std::erase_if(life.touches, [&](const Touch& touch) {
        return votes[{i, uint64_t{touch.launch} * 2 + touch.copy}] * 2 <= judged;
      });
    }
  }

  const Profile& profile_;
  Timeline timeline_;
  RecordedLives recorded_;
};

// What looks for steps takes this for granted, as reading a file ensures it (profile/reader.h).
bool IsConsistent(const Profile& profile) {
  for (uint64_t at = 0; at < profile.events.size(); ++at) {
    const Event& event = profile.events[at];
    const auto lives = [&](uint32_t id) {
      if (id >= profile.blocks.size()) return false;
      const profile::Block& block = profile.blocks[id];
      return block.alloc_at <= at && at < block.free_at;
    };
    const auto ends = [&](uint32_t id) {
      return id < profile.blocks.size() && profile.blocks[id].free_at == at;
    };
    if (event.kind == EventKind::kAlloc && !lives(event.block)) return false;
    if (event.kind == EventKind::kFree && !ends(event.block)) return false;
    if (!std::all_of(event.touched.begin(), event.touched.end(), lives)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<Timeline> BuildTimeline(const Profile& profile) {
  // Before anything follows a block's number.
  if (auto status = RecordedLives().Read(profile); !status.ok()) return status;
  if (!IsConsistent(profile)) {
    return absl::DataLossError("an event names a block that does not live then: record anew");
  }
  std::vector<profile::StepSpan> spans;
  auto steps = profile::FindSteadySteps(profile, &spans);
  const auto evaluations = std::count_if(spans.begin(), spans.end(), [](const auto& span) {
    return span.kind == profile::StepKind::kEvaluation;
  });
  if (!steps && spans.size() - evaluations >= kLeastUnevenSteps) {
    return BuildUnevenTimeline(profile, spans);
  }
  if (!steps) {
    const auto launches =
        std::count_if(profile.events.begin(), profile.events.end(), profile::IsLaunch);
    return absl::FailedPreconditionError(fmt::format(
        "no repeating step found in {} launches: record at least 3 steps, or mark them with "
        "ebbtide_step()",
        launches));
  }
  return Builder(profile, *std::move(steps)).Build();
}

}  // namespace ebt::plan
