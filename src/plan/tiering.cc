#include "src/plan/tiering.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "src/base/units.h"
#include "src/plan/budget.h"

namespace ebt::plan {
namespace {

// Optimizer state that is idle for less of the step has its place on the device most of the time.
constexpr double kStateIdle = 0.8;
// Packing decides whether a choice fits; each further try is for what the one before missed.
constexpr int kMaxPackings = 5;
// The same for stays of slabs, which may exceed the least by this much where no budget says more.
constexpr int kMaxSlabPackings = 6;
constexpr int kMaxSlabPackingsOfBudget = 2;  // a budget can leave more out instead
constexpr double kTightEnough = 1.0005, kFewTightEnough = 1.01;
constexpr uint64_t kFewSlabs = 32;
// What swapping must save of a step to be worth its clearance and its pinned memory.
constexpr double kWorthSwapping = 0.01;

// Smaller slabs cost more waits and pack better.
constexpr uint64_t kSmallestTried = uint64_t{8} << 20;

// What of the cold blocks may come to the device.
struct Moves {
  bool prefetch = false;  // managed blocks that are touched often
  bool slabs = false;
};

// What stays of slabs leave to others, so that all can be packed.
struct Slack {
  uint64_t keep_free = 0;
  uint64_t largest_slab = kLargestSlab;
};

class Chooser {
 public:
  Chooser(const profile::Profile& profile, const Timeline& timeline, const Behaviour& behaviour,
          const StepClock& clock, const TieringOptions& options)
      : profile_(profile),
        timeline_(timeline),
        behaviour_(behaviour),
        clock_(clock),
        options_(options),
        unchanging_(Unchanging(timeline, behaviour)) {
    for (uint32_t i = 0; i < timeline_.lives.size(); ++i) resident_.push_back(FirstTier(i));
    MarkHot();
    native_bytes_ = LiveBytes(profile_, timeline_, resident_, {Tier::kNative});
    besides_ = options_.overhead_bytes + native_bytes_;
    room_ = options_.budget - std::min(options_.budget, besides_);
    for (bool slabs : {false, true}) candidates_[slabs] = Order(slabs);
    FindUses();
  }

  Tiering WithoutBudget() const {
    std::vector<Tier> tiers = TiersWith(ColdByShare(true), true);
    // Where steps differ no launch says when a block is needed.
    for (uint32_t i = 0; i < tiers.size() && !timeline_.uneven; ++i) {
      const Traits& traits = behaviour_.traits[i];
      if (Movable(i) && traits.block_class == BlockClass::kOptimizerState &&
          traits.idle >= kStateIdle && Bytes(i) >= kSmallestCold && !Kept(i)) {
        tiers[i] = Tier::kCold;
      }
    }
    // In place: who names no budget wants the memory, and what is fetched takes room that nobody
    // has said to be there.
    Tiering swapped = Finish(tiers, {.slabs = true});
    const double saved = swapped.managed_ms - swapped.prediction.step_ms;
    if (swapped.slabs.slabs.empty() || saved > kWorthSwapping * clock_.step_ms) return swapped;
    return Finish(tiers, {});
  }

  // The fastest of what fits, as far as that shows without packing.
  Tiering WithBudget() const {
    if (timeline_.uneven) {
      Tiering tiering = Fit({});
      return tiering.feasible ? tiering : Least();
    }
    std::vector<Draft> drafts;
    for (bool slabs : {true, false}) {
      for (bool prefetch : {true, false}) {
        const Moves moves{.prefetch = prefetch, .slabs = slabs};
        const Tiering sketch = Sketch(moves);
        if (prefetch && sketch.transfers.most_device_bytes == 0) continue;  // nothing is fetched
        const double worth = slabs ? kWorthSwapping * clock_.step_ms : 0;
        drafts.push_back({moves, sketch.prediction.step_ms + worth});
      }
    }
    std::stable_sort(drafts.begin(), drafts.end(),
                     [](const Draft& a, const Draft& b) { return a.step_ms < b.step_ms; });
    for (const Draft& draft : drafts) {
      Tiering tiering = Fit(draft.moves);
      if (tiering.feasible) return tiering;
    }
    return Least();
  }

 private:
  struct Draft {
    Moves moves;
    double step_ms = 0;
  };

  uint64_t Bytes(uint32_t life) const { return profile_.blocks[timeline_.lives[life].block].bytes; }

  std::optional<Tier> Pinned(uint32_t life) const {
    const Lived& lived = timeline_.lives[life];
    // A block and its twin share a place.
    const Lived& named = lived.twin == kNoTwin ? lived : timeline_.lives[lived.twin];
    const uint64_t site = profile_.blocks[named.block].site;
    if (options_.excluded.contains(site)) return Tier::kNative;
    auto pin = options_.pinned.find(site);
    return pin == options_.pinned.end() ? std::nullopt : std::optional(pin->second);
  }

  Tier FirstTier(uint32_t life) const {
    if (!timeline_.Planned(timeline_.lives[life])) return Tier::kNative;
    return Pinned(life).value_or(Tier::kWarm);
  }

  // Whether it may go cold.
  bool Movable(uint32_t life) const {
    return (resident_[life] == Tier::kHot || resident_[life] == Tier::kWarm) && !Pinned(life);
  }

  // Work that no launch shows may use it: how often is not known.
  bool Kept(uint32_t life) const { return profile_.blocks[timeline_.lives[life].block].kept; }

  // What tier shares are parts of.
  uint64_t Whole() const {
    if (options_.budget > 0) return options_.budget;
    return LiveBytes(profile_, timeline_, resident_, {Tier::kHot, Tier::kWarm});
  }

  void MarkHot() {
    std::vector<uint32_t> hot;
    for (uint32_t i = 0; i < resident_.size(); ++i) {
      if (Movable(i) && behaviour_.traits[i].hot) hot.push_back(i);
    }
    std::stable_sort(hot.begin(), hot.end(), [&](uint32_t a, uint32_t b) {
      return behaviour_.traits[a].heat > behaviour_.traits[b].heat;
    });
    auto left = uint64_t(options_.hot_share * double(Whole()));
    for (uint32_t i : hot) {
      if (Bytes(i) > left) continue;
      left -= Bytes(i);
      resident_[i] = Tier::kHot;
    }
  }

  ColdBlock ColdOf(uint32_t i, bool prefetch) const {
    const Lived& life = timeline_.lives[i];
    const Traits& traits = behaviour_.traits[i];
    ColdBlock cold{.bytes = Bytes(i),
                   .touches = life.touches.size(),
                   .first = traits.first,
                   .last = traits.last};
    // What a step makes itself is first written where it is: there is nothing to fetch.
    if (prefetch && life.span == Span::kPersistent && cold.touches > 0) {
      cold.use = CheaperUse(options_.device, cold.bytes, cold.touches);
    }
    return cold;
  }

  // By size of what is live with nothing cold.
  std::vector<Candidate> Order(bool slabs) const {
    const size_t launches = timeline_.launch_times.size();
    if (launches == 0 || clock_.launch_ms.size() != launches) return {};
    CandidateRules rules{.profile = profile_,
                         .timeline = timeline_,
                         .clock = clock_,
                         .device = options_.device,
                         .live = LiveOnDevice(resident_),
                         .room = room_,
                         .slabs = slabs};
    for (uint32_t i = 0; i < resident_.size(); ++i) {
      const uint32_t twin = timeline_.lives[i].twin;
      const bool fixed = !timeline_.lives[twin == kNoTwin ? i : twin].variable;
      rules.movable.push_back(Movable(i) && fixed && Bytes(i) >= kSmallestCold);
      rules.state.push_back(behaviour_.traits[i].block_class == BlockClass::kOptimizerState);
    }
    return OrderCandidates(rules);
  }

  // Behind each launch, what of these tiers is on the device.
  std::vector<uint64_t> LiveOnDevice(const std::vector<Tier>& tiers) const {
    std::vector<uint32_t> members;
    for (uint32_t i = 0; i < tiers.size(); ++i) {
      if (tiers[i] == Tier::kHot || tiers[i] == Tier::kWarm) members.push_back(i);
    }
    return ReadLive(timeline_, Occupy(profile_, timeline_, members).items).behind;
  }

  std::vector<Tier> TiersWith(size_t cold_candidates, bool slabs) const {
    std::vector<Tier> tiers = resident_;
    for (size_t i = 0; i < cold_candidates; ++i) {
      for (uint32_t life : candidates_[slabs][i].lives) tiers[life] = Tier::kCold;
    }
    return tiers;
  }

  // As many candidates as the share of warm blocks makes go cold.
  size_t ColdByShare(bool slabs) const {
    if (!options_.warm_share) return 0;
    const double most = *options_.warm_share * double(Whole());
    return Fewest(0, slabs, [&](size_t cold) {
      const std::vector<Tier> tiers = TiersWith(cold, slabs);
      return double(LiveBytes(profile_, timeline_, tiers, {Tier::kWarm})) <= most;
    });
  }

  // The fewest candidates of at least so many for which `holds`, which holds for all above it too.
  template <typename Holds>
  size_t Fewest(size_t at_least, bool slabs, Holds holds) const {
    size_t low = at_least, high = candidates_[slabs].size();
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      holds(middle) ? high = middle : low = middle + 1;
    }
    return low;
  }

  void FillCold(Tiering& tiering, bool prefetch) const {
    std::vector<bool> in_slabs(tiering.tiers.size(), false);
    for (uint32_t life : tiering.slabs.lives) in_slabs[life] = true;
    for (uint32_t i = 0; i < tiering.tiers.size(); ++i) {
      const Lived& life = timeline_.lives[i];
      if (tiering.tiers[i] != Tier::kCold) continue;
      if (!life.in_step && life.span != Span::kPersistent) continue;
      tiering.cold.lives.push_back(i);
      tiering.cold.blocks.push_back(ColdOf(i, prefetch && !in_slabs[i]));
    }
    tiering.transfers = ScheduleFetches(options_.device, clock_, tiering.cold.blocks);
  }

  // What these tiers have on the device; of what is swapped the part of the step that uses it.
  std::vector<Item> OnDevice(const std::vector<Tier>& tiers, bool slabs) const {
    std::vector<uint32_t> members;
    std::vector<Item> uses;
    for (uint32_t i = 0; i < tiers.size(); ++i) {
      if (tiers[i] == Tier::kHot || tiers[i] == Tier::kWarm) members.push_back(i);
      if (slabs && tiers[i] == Tier::kCold && !uses_[i].live[0].empty()) uses.push_back(uses_[i]);
    }
    std::vector<Item> items = Occupy(profile_, timeline_, members).items;
    items.insert(items.end(), uses.begin(), uses.end());
    return items;
  }

  // When a block that would be swapped is in use; nothing for others.
  void FindUses() {
    uses_.resize(timeline_.lives.size());
    if (candidates_[1].empty()) return;
    const Weights weights = WeightsAbove(clock_, LiveOnDevice(resident_), room_);
    const uint32_t step = timeline_.step_launches;
    auto time_of = [&](uint32_t launch) {
      return launch < step ? timeline_.launch_times[launch] : timeline_.end;
    };
    for (const Candidate& candidate : candidates_[1]) {
      if (!candidate.swapped) continue;
      const uint32_t life = candidate.lives[0];
      const SlabUse use = UseAroundGap(NeededAt(timeline_.lives[life]), weights);
      Item& item = uses_[life];
      item.bytes = Bytes(life);
      item.live[0] = {time_of(use.first), time_of(std::min(use.last + 1, step))};
      if (use.last >= step) {
        item.live[1] = {timeline_.prologue_end, time_of(use.last + 1 - step)};
      }
    }
  }

  // Least device memory for these tiers, were the packing perfect.
  uint64_t LeastRequired(size_t cold_candidates, Moves moves) const {
    Tiering tiering{.tiers = TiersWith(cold_candidates, moves.slabs)};
    if (moves.prefetch) FillCold(tiering, true);
    const uint64_t live = MaxLive(OnDevice(tiering.tiers, moves.slabs));
    const uint64_t alignment = moves.slabs ? SlabBytes(live) : kRegionAlignment;
    return AlignUp(live, alignment) + tiering.transfers.most_device_bytes + besides_;
  }

  size_t FewestCold(size_t at_least, uint64_t bytes, Moves moves) const {
    return Fewest(at_least, moves.slabs,
                  [&](size_t cold) { return LeastRequired(cold, moves) <= bytes; });
  }

  void MakeSlabs(Slack slack, Tiering& tiering) const {
    SlabWishes wishes{.keep_free = slack.keep_free, .largest = slack.largest_slab};
    for (const Traits& traits : behaviour_.traits) wishes.places.push_back(traits.place);
    if (options_.budget > 0) {
      wishes.limit = room_;
      wishes.weights = WeightsAbove(clock_, LiveOnDevice(resident_), room_);
    }
    tiering.slabs =
        MakeSlabSection(profile_, timeline_, tiering.tiers, clock_, options_.device, wishes);
    for (uint32_t i : tiering.slabs.to_device) tiering.tiers[i] = resident_[i];
  }

  // Where a job has few slabs, one more or less is nothing to chase.
  static uint64_t TightEnough(uint64_t live, uint64_t slab_bytes) {
    if (live < kFewSlabs * slab_bytes) return uint64_t(kFewTightEnough * double(live)) + slab_bytes;
    return AlignUp(uint64_t(kTightEnough * double(live)), std::max<uint64_t>(1, slab_bytes));
  }

  // Stays that fill the device to the brim at every launch are more than can be packed: then they
  // are made shorter, and the step waits longer; and fewer, where many are in use at one launch.
  Tiering WithSlabs(const std::vector<Tier>& wanted, Slack slack) const {
    Tiering best;
    const int most = options_.budget > 0 ? kMaxSlabPackingsOfBudget : kMaxSlabPackings;
    for (int packings = 0, in_vain = 0; packings < most && in_vain < 3; ++packings) {
      Tiering tiering{.tiers = wanted};
      MakeSlabs(slack, tiering);
      tiering.layout = MakeLayout(profile_, timeline_, behaviour_, tiering.tiers, tiering.slabs);
      const uint64_t bytes = tiering.layout.warm_bytes;
      const uint64_t live =
          LiveBytes(profile_, timeline_, tiering.tiers, {Tier::kHot, Tier::kWarm});
      const uint64_t enough =
          options_.budget > 0 ? std::max(room_, live) : TightEnough(live, tiering.slabs.slab_bytes);
      const bool better = packings == 0 || bytes < best.layout.warm_bytes;
      in_vain = better ? 0 : in_vain + 1;
      if (better) best = std::move(tiering);
      if (best.slabs.slabs.empty() || bytes <= enough) break;
      const uint64_t further = better ? bytes - enough : slack.keep_free;
      slack.keep_free +=
          options_.budget > 0 ? std::max(bytes - enough, best.slabs.slab_bytes) : further;
    }
    return best;
  }

  Tiering WithoutSlabs(std::vector<Tier> tiers) const {
    Tiering tiering{.tiers = std::move(tiers)};
    tiering.layout = MakeLayout(profile_, timeline_, behaviour_, tiering.tiers, {});
    return tiering;
  }

  Prediction Predict(const Tiering& tiering, const Layout* layout = nullptr) const {
    return PredictStep(profile_, timeline_, clock_, options_.device, tiering.cold, tiering.tiers,
                       tiering.slabs, layout, unchanging_);
  }

  // Before `ebbtide verify` has cleared anything all that is cold is managed.
  double ManagedMs(const Tiering& tiering, bool prefetch) const {
    if (tiering.slabs.slabs.empty()) return tiering.prediction.step_ms;
    Tiering managed{.tiers = tiering.tiers};
    FillCold(managed, prefetch);
    return Predict(managed).step_ms;
  }

  // A choice without its layout.
  Tiering Sketch(Moves moves) const {
    const size_t cold = FewestCold(ColdByShare(moves.slabs), options_.budget, moves);
    Tiering tiering{.tiers = TiersWith(cold, moves.slabs)};
    if (moves.slabs) MakeSlabs({}, tiering);
    FillCold(tiering, moves.prefetch);
    tiering.prediction = Predict(tiering);
    return tiering;
  }

  Tiering Finish(const std::vector<Tier>& tiers, Moves moves, Slack slack = {}) const {
    Tiering tiering = moves.slabs ? WithSlabs(tiers, slack) : WithoutSlabs(tiers);
    FillCold(tiering, moves.prefetch);
    tiering.prediction = Predict(tiering, &tiering.layout);
    tiering.managed_ms = ManagedMs(tiering, moves.prefetch);
    tiering.required_bytes =
        tiering.layout.warm_bytes + tiering.transfers.most_device_bytes + besides_;
    return tiering;
  }

  // Packing shows what a choice really needs; what is missing then is left out twice as generously
  // each time, and half of what that was too much is taken back once.
  Tiering Fit(Moves moves) const {
    const size_t all = candidates_[moves.slabs].size();
    uint64_t bytes = options_.budget;
    size_t cold = FewestCold(ColdByShare(moves.slabs), bytes, moves), too_few = cold;
    uint64_t before = bytes;
    Slack slack;
    Tiering tiering;
    for (int packings = 0; packings < kMaxPackings; ++packings) {
      slack.keep_free = options_.budget - bytes;
      tiering = FinishFitted(cold, moves, slack);
      if (tiering.feasible || cold == all) break;
      const uint64_t missing = std::max(tiering.required_bytes - options_.budget,
                                        moves.slabs ? tiering.slabs.slab_bytes : kRegionAlignment);
      too_few = cold, before = bytes;
      slack.largest_slab = std::max(kSmallestTried, slack.largest_slab / 2);
      bytes -= std::min(bytes, missing << packings);
      cold = FewestCold(cold + 1, bytes, moves);
    }
    if (!tiering.feasible || cold <= too_few + 1) return tiering;
    slack.keep_free = options_.budget - (before + bytes) / 2;
    Tiering fewer = FinishFitted(too_few + (cold - too_few) / 2, moves, slack);
    return fewer.feasible && fewer.prediction.step_ms < tiering.prediction.step_ms ? fewer
                                                                                   : tiering;
  }

  Tiering FinishFitted(size_t cold, Moves moves, Slack slack) const {
    Tiering tiering = Finish(TiersWith(cold, moves.slabs), moves, slack);
    tiering.feasible = tiering.required_bytes <= options_.budget;
    return tiering;
  }

  // With as little on the device as can be, whatever the budget: the same for each.
  Tiering Least() const {
    std::vector<Tier> tiers = TiersWith(candidates_[0].size(), false);
    for (uint32_t i = 0; i < tiers.size(); ++i) {
      if (tiers[i] == Tier::kHot && !Pinned(i)) tiers[i] = Tier::kWarm;
    }
    Tiering tiering = Finish(tiers, {});
    tiering.feasible = tiering.required_bytes <= options_.budget;
    if (tiering.feasible) return tiering;
    std::vector<bool> pinned;
    for (uint32_t i = 0; i < tiers.size(); ++i) pinned.push_back(Pinned(i).has_value());
    tiering.certificate =
        Certify(profile_, timeline_, tiers, pinned, tiering.layout.warm_bytes, besides_);
    tiering.infeasible_reason = CertificateText(tiering.certificate, options_.budget);
    return tiering;
  }

  const profile::Profile& profile_;
  const Timeline& timeline_;
  const Behaviour& behaviour_;
  const StepClock& clock_;
  const TieringOptions& options_;
  const std::vector<bool> unchanging_;  // of each Lived
  std::vector<Tier> resident_;          // with nothing cold
  uint64_t native_bytes_ = 0;
  uint64_t besides_ = 0;                  // bytes of device memory that are not planned
  uint64_t room_ = 0;                     // what of the budget is left for what is
  std::vector<Item> uses_;                // of each Lived
  std::vector<Candidate> candidates_[2];  // without and with slabs, as they go cold
};

}  // namespace

Tiering ChooseTiers(const profile::Profile& profile, const Timeline& timeline,
                    const Behaviour& behaviour, const StepClock& clock,
                    const TieringOptions& options) {
  const Chooser chooser(profile, timeline, behaviour, clock, options);
  Tiering tiering = options.budget == 0 ? chooser.WithoutBudget() : chooser.WithBudget();
  // The two have one place.
  for (size_t i = 0; i < tiering.tiers.size(); ++i) {
    const uint32_t twin = timeline.lives[i].twin;
    if (twin != kNoTwin) tiering.tiers[i] = tiering.tiers[twin];
  }
  return tiering;
}

}  // namespace ebt::plan
