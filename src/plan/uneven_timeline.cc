#include "src/plan/uneven_timeline.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "src/base/units.h"
#include "src/plan/envelope.h"
#include "src/plan/recorded_lives.h"
#include "src/plan/uneven_places.h"
#include "src/plan/uneven_touches.h"

namespace ebt::plan {
namespace {

using profile::Event;
using profile::EventKind;
using profile::kNever;
using profile::kNoBlock;
using profile::Profile;
using profile::StepKind;

// A step that makes at least this part of all that is live at most, for good, is set-up still: it
// makes the optimizer's state.
constexpr double kSettlingPart = 0.01;
constexpr int64_t kBeforeAll = -1;

// Where a block is freed: in which step, and behind which allocation of the envelope.
struct Freed {
  uint64_t step = kNever;  // kNever: before the first step, or never
  int64_t behind = kBeforeAll;
};

// An allocation of the envelope.
struct Place {
  PlaceBlocks blocks;
  uint64_t time = 0;
  uint32_t launch = 0;
};

class UnevenBuilder {
 public:
  UnevenBuilder(const Profile& profile, const std::vector<profile::StepSpan>& spans)
      : profile_(profile) {
    for (size_t i = 0; i < spans.size(); ++i) {
      if (spans[i].kind == StepKind::kEvaluation) continue;
      starts_.push_back(spans[i].begin);
      evaluates_.push_back(i + 1 < spans.size() && spans[i + 1].kind == StepKind::kEvaluation);
      last_end_ = spans[i].end;
    }
    starts_.push_back(last_end_);
  }

  absl::StatusOr<Timeline> Build() {
    if (auto status = recorded_.Read(profile_); !status.ok()) return status;
    LeaveOutSettling();
    ChooseModel();
    FillPlaces();
    timeline_.uneven = true;
    timeline_.representative = model_;
    FillSteps();
    if (timeline_.step_launches == 0) {
      return absl::FailedPreconditionError("a step without launches: record the profile again");
    }
    MakeAxis();
    FindFrees();
    AddPrologue();
    AddPlaces();
    LeaveOutUnplannable(profile_, recorded_, timeline_);
    PairTwins();
    MakeTimelineRooms();
    SumLive();
    CollectUnevenTouches(profile_, starts_, model_, timeline_);
    return std::move(timeline_);
  }

 private:
  size_t Steps() const { return starts_.size() - 1; }

  // The first steps make what lives for good: they belong to the prologue.
  void LeaveOutSettling() {
    uint64_t live = 0, most = 0;
    for (const Event& event : profile_.events) {
      if (event.kind == EventKind::kAlloc) live += profile_.blocks[event.block].bytes;
      if (event.kind == EventKind::kFree) live -= profile_.blocks[event.block].bytes;
      most = std::max(most, live);
    }
    size_t first = 1;
    const size_t latest = Steps() - 2;  // two steps are the least
    for (size_t step = 1; step < latest; ++step) {
      if (double(MadeForGood(step)) >= kSettlingPart * double(most)) first = step + 1;
    }
    if (MadeForGood(0) == 0 && first == 1) first = 0;
    starts_.erase(starts_.begin(), starts_.begin() + first);
    evaluates_.erase(evaluates_.begin(), evaluates_.begin() + first);
  }

  uint64_t MadeForGood(size_t step) const {
    uint64_t bytes = 0;
    for (uint64_t at = starts_[step]; at < starts_[step + 1]; ++at) {
      const Event& event = profile_.events[at];
      if (event.kind != EventKind::kAlloc) continue;
      const uint64_t next_end = starts_[std::min(step + 2, Steps())];
      if (recorded_.blocks[event.block].free_at >= next_end) {
        bytes += profile_.blocks[event.block].bytes;
      }
    }
    return bytes;
  }

  // The step with most bytes of all that have no evaluation behind them; of equal ones the last,
  // but not the last of all: the frees of what that hands on are not to be seen.
  void ChooseModel() {
    std::tuple<bool, uint64_t> most{false, 0};
    for (size_t step = 0; step + 1 < Steps(); ++step) {
      uint64_t bytes = 0;
      for (uint64_t at = starts_[step]; at < starts_[step + 1]; ++at) {
        const Event& event = profile_.events[at];
        if (event.kind == EventKind::kAlloc) bytes += profile_.blocks[event.block].bytes;
      }
      const std::tuple<bool, uint64_t> candidate{!evaluates_[step], bytes};
      if (candidate >= most) most = candidate, model_ = step;
    }
  }

  void FillPlaces() {
    place_of_.assign(profile_.blocks.size(), kNever);
    for (PlaceBlocks& blocks : FindPlaces(profile_, starts_, model_)) {
      for (uint32_t block : blocks) {
        if (block != kNoBlock) place_of_[block] = places_.size();
      }
      places_.push_back({.blocks = std::move(blocks)});
    }
  }

  void FillSteps() {
    auto& steps = timeline_.steps;
    steps.first_launch = recorded_.launches_before[starts_[0]];
    steps.period = LaunchesIn(model_);
    steps.steps = Steps();
    steps.start_events = starts_;
    timeline_.step_launches = uint32_t(steps.period);
    timeline_.prologue_end = starts_[0];
  }
  uint64_t LaunchesIn(size_t step) const {
    return recorded_.launches_before[starts_[step + 1]] - recorded_.launches_before[starts_[step]];
  }

  // The events of the model, with the allocations of the others in between.
  void MakeAxis() {
    uint64_t time = timeline_.prologue_end;
    uint32_t launches = 0;
    size_t placed = 0;
    const auto place_until = [&](size_t end) {
      for (; placed < end; ++placed)
        places_[placed].time = time++, places_[placed].launch = launches;
    };
    for (uint64_t at = starts_[model_]; at < starts_[model_ + 1]; ++at) {
      const Event& event = profile_.events[at];
      if (event.kind == EventKind::kAlloc && place_of_[event.block] != kNever) {
        place_until(place_of_[event.block] + 1);
        continue;
      }
      if (IsLaunch(event)) timeline_.launch_times.push_back(time), ++launches;
      ++time;
    }
    place_until(places_.size());
    // What comes behind the last launch is the next step's, of which the plan knows none.
    for (Place& place : places_) {
      place.launch = std::min(place.launch, launches > 0 ? launches - 1 : 0);
    }
    timeline_.end = time;
  }

  uint64_t TimeBehind(int64_t place) const {
    return size_t(place + 1) < places_.size() ? places_[place + 1].time : timeline_.end;
  }

  void FindFrees() {
    freed_.resize(profile_.blocks.size());
    for (size_t step = 0; step < Steps(); ++step) {
      int64_t behind = kBeforeAll;
      for (uint64_t at = starts_[step]; at < starts_[step + 1]; ++at) {
        const Event& event = profile_.events[at];
        if (event.kind == EventKind::kAlloc && place_of_[event.block] != kNever) {
          behind = int64_t(place_of_[event.block]);
        }
        if (event.kind == EventKind::kFree) freed_[event.block] = {step, behind};
      }
    }
  }

  void AddPrologue() {
    absl::flat_hash_map<uint64_t, uint32_t> ordinals;
    for (uint64_t at = 0; at < starts_[0]; ++at) {
      const Event& event = profile_.events[at];
      if (event.kind != EventKind::kAlloc) continue;
      const auto& block = profile_.blocks[event.block];
      if (!Servable(block.kind)) continue;
      Lived life{.block = event.block, .launch = uint32_t(recorded_.launches_before[at])};
      life.ordinal = ordinals[block.site]++;
      const uint64_t free_at = recorded_.blocks[event.block].free_at;
      if (free_at < starts_[0]) {
        life.span = Span::kPrologue;
        life.live[0] = {at, free_at};
      } else if (free_at < starts_[1]) {
        life.span = Span::kCrossing;
        life.live[0] = {at, TimeBehind(freed_[event.block].behind)};
      } else {
        life.span = Span::kPersistent;
        life.live[0] = {at, timeline_.end};
      }
      timeline_.lives.push_back(std::move(life));
    }
    first_place_ = timeline_.lives.size();
  }

  void AddPlaces() {
    absl::flat_hash_map<uint64_t, uint32_t> ordinals;
    for (size_t i = 0; i < places_.size(); ++i) {
      const Place& place = places_[i];
      Lived life{.in_step = true, .launch = place.launch};
      const uint32_t models = place.blocks[model_];
      life.block = models != kNoBlock ? models
                                      : *std::find_if(place.blocks.begin(), place.blocks.end(),
                                                      [](uint32_t b) { return b != kNoBlock; });
      life.ordinal = ordinals[profile_.blocks[life.block].site]++;
      life.place_bytes = LargestOf(profile_, place.blocks);
      life.variable = !IsSteady(profile_, place.blocks);
      SetLife(life, int64_t(i));
      timeline_.lives.push_back(std::move(life));
    }
  }
  void SetLife(Lived& life, int64_t place) const {
    const auto& blocks = places_[place].blocks;
    int64_t last = kBeforeAll, last_in_next = kBeforeAll;
    size_t in_step = 0, handed_on = 0, outlive = 0;
    for (size_t step = 0; step < Steps(); ++step) {
      if (blocks[step] == kNoBlock) continue;
      const Freed& freed = freed_[blocks[step]];
      if (freed.step == step) {
        last = std::max(last, freed.behind), ++in_step;
      } else if (freed.step == step + 1 && freed.behind < place) {
        last_in_next = std::max(last_in_next, freed.behind), ++handed_on;
      } else if (step + 1 < Steps()) {
        ++outlive;
      }
    }
    const uint64_t time = places_[place].time;
    life.span = Span::kStep;
    life.live[0] = {time, TimeBehind(last)};
    if (handed_on > 0) {
      life.span = Span::kCyclic;
      life.live = {Interval{time, timeline_.end},
                   Interval{timeline_.prologue_end, TimeBehind(last_in_next)}};
    }
    if (outlive > in_step + handed_on || in_step + handed_on == 0) {
      life.span = Span::kUnplanned;
      life.unplanned = Unplanned::kOutlives;
      life.live = {Interval{time, timeline_.end}};
    }
  }

  // A block that the last warm-up step hands to the first steady one is what every step hands to
  // its next: equal size, of the same site where there is a choice.
  void PairTwins() {
    using Key = std::tuple<uint64_t, uint64_t>;  // bytes, site
    std::map<Key, std::vector<uint32_t>> cyclic;
    for (uint32_t i = uint32_t(timeline_.lives.size()); i-- > first_place_;) {
      const Lived& life = timeline_.lives[i];
      if (life.span != Span::kCyclic || !timeline_.Planned(life)) continue;
      cyclic[{life.place_bytes, profile_.blocks[life.block].site}].push_back(i);
    }
    for (bool same_site : {true, false}) {
      for (uint32_t i = 0; i < first_place_; ++i) {
        Lived& life = timeline_.lives[i];
        if (life.span != Span::kCrossing || life.twin != kNoTwin || !timeline_.Planned(life)) {
          continue;
        }
        const auto& block = profile_.blocks[life.block];
        auto from = cyclic.lower_bound({block.bytes, same_site ? block.site : 0});
        while (from != cyclic.end() && from->second.empty() && !same_site) ++from;
        if (from == cyclic.end() || from->second.empty()) continue;
        const auto& [bytes, site] = from->first;
        if (bytes != block.bytes || (same_site && site != block.site)) continue;
        life.twin = from->second.back();
        from->second.pop_back();
      }
    }
  }

  void MakeTimelineRooms() {
    std::vector<Varying> varying;
    std::vector<uint32_t> life_of;
    for (size_t i = 0; i < places_.size(); ++i) {
      const Lived& life = timeline_.lives[first_place_ + i];
      if (life.span != Span::kStep || !timeline_.Planned(life)) continue;
      if (!life.variable) continue;
      Varying place{life.live[0].begin, life.live[0].end, {}};
      for (uint32_t block : places_[i].blocks) {
        place.bytes.push_back(
            block == kNoBlock ? 0 : AlignUp(profile_.blocks[block].bytes, kBlockAlignment));
      }
      varying.push_back(std::move(place));
      life_of.push_back(uint32_t(first_place_ + i));
    }
    for (const Room& room : MakeRooms(varying)) {
      if (room.members.size() < 2) continue;
      for (uint32_t member : room.members) {
        timeline_.lives[life_of[member]].room = uint32_t(timeline_.rooms.size());
      }
      timeline_.rooms.push_back({room.bytes, {room.begin, room.end}});
    }
  }

  // What was live at once in the recording. The envelope never is.
  void SumLive() {
    enum class Counts : uint8_t { kNo, kLive, kPlanned };
    std::vector<Counts> counts(profile_.blocks.size(), Counts::kNo);
    const auto count = [&](uint32_t block, const Lived& life) {
      if (block == kNoBlock || life.unplanned == Unplanned::kProbe ||
          life.unplanned == Unplanned::kElsewhere) {
        return;
      }
      counts[block] = timeline_.Planned(life) ? Counts::kPlanned : Counts::kLive;
    };
    for (size_t i = 0; i < first_place_; ++i) count(timeline_.lives[i].block, timeline_.lives[i]);
    for (size_t i = 0; i < places_.size(); ++i) {
      for (uint32_t block : places_[i].blocks) count(block, timeline_.lives[first_place_ + i]);
    }
    uint64_t live = 0, planned = 0;
    for (uint64_t at = 0; at < starts_.back(); ++at) {
      const Event& event = profile_.events[at];
      if (event.kind != EventKind::kAlloc && event.kind != EventKind::kFree) continue;
      const Counts counted = counts[event.block];
      if (counted == Counts::kNo) continue;
      const uint64_t bytes = AlignUp(profile_.blocks[event.block].bytes, kBlockAlignment);
      const bool is_planned = counted == Counts::kPlanned;
      if (event.kind == EventKind::kAlloc) {
        live += bytes, planned += is_planned ? bytes : 0;
      } else {
        live -= bytes, planned -= is_planned ? bytes : 0;
      }
      timeline_.recorded_live = std::max(timeline_.recorded_live, live);
      timeline_.recorded_planned_live = std::max(timeline_.recorded_planned_live, planned);
    }
  }

  const Profile& profile_;
  Timeline timeline_;
  RecordedLives recorded_;
  std::vector<uint64_t> starts_;  // events of each step's begin, and of the last one's end
  std::vector<bool> evaluates_;   // by step: an evaluation lies behind it
  uint64_t last_end_ = 0;
  size_t model_ = 0;
  std::vector<Place> places_;
  std::vector<uint64_t> place_of_;  // by block
  std::vector<Freed> freed_;        // by block
  size_t first_place_ = 0;          // index into Timeline::lives
};

}  // namespace

void Loosen(Timeline& timeline) {
  for (Lived& life : timeline.lives) {
    if (life.span != Span::kStep || !timeline.Planned(life)) continue;
    life.unplanned = Unplanned::kLoose;
    life.room = kNoRoom;
  }
  timeline.rooms.clear();
}

absl::StatusOr<Timeline> BuildUnevenTimeline(const Profile& profile,
                                             const std::vector<profile::StepSpan>& spans) {
  return UnevenBuilder(profile, spans).Build();
}

}  // namespace ebt::plan
