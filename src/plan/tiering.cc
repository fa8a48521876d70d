#include "src/plan/tiering.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/base/units.h"

namespace ebt::plan {
namespace {

// A block below a host page saves nothing worth its latency.
constexpr uint64_t kSmallestCold = 4096;
constexpr double kLongLife = 0.25;
// Packing decides whether a choice fits; each further try is for what the one before missed.
constexpr int kMaxPackings = 8;
// The same for stays of slabs, which may exceed the least by this much.
constexpr int kMaxSlabPackings = 6;
constexpr double kTightEnough = 1.0005, kFewTightEnough = 1.01;
constexpr uint64_t kFewSlabs = 32;

constexpr int kLastResort = 3;  // of Candidate::rank, the largest

// What goes cold together: a persistent block, or all blocks of one site and size, so that the
// warm-up steps obey the budget too.
struct Candidate {
  std::vector<uint32_t> lives;
  int rank = 0;
  double worth = 0;  // idle bytes per millisecond of cost
};

// What of the cold blocks may come to the device.
struct Moves {
  bool prefetch = false;  // managed blocks that are touched often
  bool slabs = false;
};

class Chooser {
 public:
  Chooser(const profile::Profile& profile, const Timeline& timeline, const Behaviour& behaviour,
          const StepClock& clock, const TieringOptions& options)
      : profile_(profile),
        timeline_(timeline),
        behaviour_(behaviour),
        clock_(clock),
        options_(options) {
    for (const Lived& life : timeline_.lives) {
      resident_.push_back(timeline_.Planned(life) ? Tier::kWarm : Tier::kNative);
    }
    MarkHot();
    native_bytes_ = LiveBytes(profile_, timeline_, resident_, {Tier::kNative});
    FindCandidates();
  }

  Tiering WithoutBudget() const {
    std::vector<Tier> tiers = resident_;
    for (uint32_t i = 0; i < tiers.size(); ++i) {
      const Traits& traits = behaviour_.traits[i];
      if (tiers[i] != Tier::kNative && traits.block_class == BlockClass::kOptimizerState &&
          traits.idle >= kIdleEnough && Bytes(i) >= kSmallestCold && !Kept(i)) {
        tiers[i] = Tier::kCold;
      }
    }
    // In place: who names no budget wants the memory, and what is fetched takes room that nobody
    // has said to be there.
    return Finish(tiers, {.slabs = true});
  }

  // The least device memory comes last: fetched blocks and the stays of slabs need room.
  Tiering WithBudget() const {
    Tiering tiering;
    for (bool slabs : {true, false}) {
      for (bool prefetch : {true, false}) {
        tiering = Fit({.prefetch = prefetch, .slabs = slabs});
        if (tiering.feasible) return tiering;
        if (tiering.transfers.most_device_bytes == 0) break;
      }
      if (tiering.slabs.slabs.empty()) break;
    }
    return tiering;
  }

 private:
  uint64_t Bytes(uint32_t life) const { return profile_.blocks[timeline_.lives[life].block].bytes; }

  // Work that no launch shows may use it: how often is not known.
  bool Kept(uint32_t life) const { return profile_.blocks[timeline_.lives[life].block].kept; }

  void MarkHot() {
    std::vector<uint32_t> hot;
    for (uint32_t i = 0; i < resident_.size(); ++i) {
      if (resident_[i] == Tier::kWarm && behaviour_.traits[i].hot) hot.push_back(i);
    }
    std::stable_sort(hot.begin(), hot.end(), [&](uint32_t a, uint32_t b) {
      return behaviour_.traits[a].heat > behaviour_.traits[b].heat;
    });
    const uint64_t whole = options_.budget > 0
                               ? options_.budget
                               : LiveBytes(profile_, timeline_, resident_, {Tier::kWarm});
    auto left = uint64_t(options_.hot_share * double(whole));
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

  double CostMs(uint32_t i) const {
    const ColdBlock cold = ColdOf(i, true);
    return cold.use == ColdUse::kInPlace
               ? InPlaceMs(options_.device, cold.bytes, cold.touches)
               : FetchMs(options_.device, cold.bytes) + SendBackMs(options_.device, cold.bytes);
  }

  void FindCandidates() {
    std::map<std::pair<uint64_t, uint64_t>, Candidate> groups;  // by site and bytes
    for (uint32_t i = 0; i < resident_.size(); ++i) {
      const Lived& life = timeline_.lives[i];
      if (resident_[i] == Tier::kNative || Bytes(i) < kSmallestCold) continue;
      if (life.span == Span::kPersistent) {
        const bool missed = !life.touches.empty() &&
                            behaviour_.traits[i].block_class != BlockClass::kOptimizerState;
        candidates_.push_back({.lives = {i}, .rank = Kept(i) ? kLastResort : missed ? 1 : 0});
        continue;
      }
      const Lived& same = life.twin == kNoTwin ? life : timeline_.lives[life.twin];
      groups[{profile_.blocks[same.block].site, Bytes(i)}].lives.push_back(i);
    }
    for (auto& [key, group] : groups) {
      const bool kept =
          std::any_of(group.lives.begin(), group.lives.end(), [&](uint32_t i) { return Kept(i); });
      group.rank = kept ? kLastResort : 2;
      if (LongLived(group)) candidates_.push_back(std::move(group));
    }
    for (Candidate& candidate : candidates_) SetWorth(candidate);
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) {
                       return std::tuple(a.rank, -a.worth) < std::tuple(b.rank, -b.worth);
                     });
  }

  bool LongLived(const Candidate& group) const {
    const double step = double(timeline_.end - timeline_.prologue_end);
    return std::any_of(group.lives.begin(), group.lives.end(), [&](uint32_t i) {
      const Lived& life = timeline_.lives[i];
      double lives = 0;
      for (const Interval& part : life.live) lives += part.empty() ? 0 : part.end - part.begin;
      return life.in_step && lives >= kLongLife * step;
    });
  }

  void SetWorth(Candidate& candidate) const {
    double idle_bytes = 0, cost = 1e-9;
    for (uint32_t i : candidate.lives) {
      if (timeline_.lives[i].span != Span::kPersistent && !timeline_.lives[i].in_step) continue;
      idle_bytes += double(Bytes(i)) * behaviour_.traits[i].idle;
      cost += CostMs(i);
    }
    candidate.worth = idle_bytes / cost;
  }

  std::vector<Tier> TiersWith(size_t cold_candidates) const {
    std::vector<Tier> tiers = resident_;
    for (size_t i = 0; i < cold_candidates; ++i) {
      for (uint32_t life : candidates_[i].lives) tiers[life] = Tier::kCold;
    }
    return tiers;
  }

  void FillCold(Tiering& tiering, bool prefetch) const {
    for (uint32_t i = 0; i < tiering.tiers.size(); ++i) {
      const Lived& life = timeline_.lives[i];
      if (tiering.tiers[i] != Tier::kCold) continue;
      if (!life.in_step && life.span != Span::kPersistent) continue;
      tiering.cold_lives.push_back(i);
      tiering.cold.push_back(ColdOf(i, prefetch));
    }
    tiering.transfers = ScheduleFetches(options_.device, clock_, tiering.cold);
  }

  // Least device memory for these tiers, were the packing perfect.
  uint64_t LeastRequired(size_t cold_candidates, bool prefetch) const {
    Tiering tiering{.tiers = TiersWith(cold_candidates)};
    FillCold(tiering, prefetch);
    const uint64_t live = LiveBytes(profile_, timeline_, tiering.tiers, {Tier::kHot, Tier::kWarm});
    return AlignUp(live, kRegionAlignment) + tiering.transfers.most_device_bytes +
           options_.overhead_bytes + native_bytes_;
  }

  size_t FewestCold(size_t at_least, uint64_t bytes, bool prefetch) const {
    size_t low = at_least, high = candidates_.size();
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (LeastRequired(middle, prefetch) <= bytes) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  // Where a job has few slabs, one more or less is nothing to chase.
  static uint64_t TightEnough(uint64_t live, uint64_t slab_bytes) {
    if (live < kFewSlabs * slab_bytes) return uint64_t(kFewTightEnough * double(live)) + slab_bytes;
    return AlignUp(uint64_t(kTightEnough * double(live)), std::max<uint64_t>(1, slab_bytes));
  }

  // Stays that fill the device to the brim at every launch are more than can be packed: then they
  // are made shorter, and the step waits longer; and fewer, where many are in use at one launch.
  Tiering WithSlabs(const std::vector<Tier>& wanted) const {
    Tiering best;
    uint64_t keep_free = 0;
    for (int packings = 0, in_vain = 0; packings < kMaxSlabPackings && in_vain < 3; ++packings) {
      Tiering tiering{.tiers = wanted};
      tiering.slabs = MakeSlabSection(profile_, timeline_, behaviour_, wanted, clock_,
                                      options_.device, keep_free);
      for (uint32_t i : tiering.slabs.to_device) tiering.tiers[i] = resident_[i];
      tiering.layout = MakeLayout(profile_, timeline_, behaviour_, tiering.tiers, tiering.slabs);
      const uint64_t bytes = tiering.layout.warm_bytes;
      const uint64_t live =
          LiveBytes(profile_, timeline_, tiering.tiers, {Tier::kHot, Tier::kWarm});
      const uint64_t enough = TightEnough(live, tiering.slabs.slab_bytes);
      const bool better = packings == 0 || bytes < best.layout.warm_bytes;
      in_vain = better ? 0 : in_vain + 1;
      if (better) best = std::move(tiering);
      if (best.slabs.slabs.empty() || bytes <= enough) break;
      keep_free += better ? bytes - enough : keep_free;
    }
    return best;
  }

  Tiering WithoutSlabs(std::vector<Tier> tiers) const {
    Tiering tiering{.tiers = std::move(tiers)};
    tiering.layout = MakeLayout(profile_, timeline_, behaviour_, tiering.tiers, {});
    return tiering;
  }

  void PredictTimes(Tiering& tiering) const {
    tiering.managed_ms = PredictStepMs(options_.device, clock_, tiering.cold, tiering.transfers);
    std::vector<uint32_t> swapped = tiering.slabs.lives;
    std::sort(swapped.begin(), swapped.end());
    std::vector<ColdBlock> others;
    for (size_t i = 0; i < tiering.cold.size(); ++i) {
      const uint32_t life = tiering.cold_lives[i];
      if (std::binary_search(swapped.begin(), swapped.end(), life)) continue;
      others.push_back(tiering.cold[i]);
    }
    const Transfers transfers = ScheduleFetches(options_.device, clock_, others);
    tiering.swapped_ms =
        PredictStepMs(options_.device, clock_, others, transfers) + tiering.slabs.stall_ms;
  }

  Tiering Finish(const std::vector<Tier>& tiers, Moves moves) const {
    Tiering tiering = moves.slabs ? WithSlabs(tiers) : WithoutSlabs(tiers);
    FillCold(tiering, moves.prefetch);
    PredictTimes(tiering);
    if (!tiering.slabs.slabs.empty() && tiering.swapped_ms >= tiering.managed_ms) {
      return Finish(tiers, {.prefetch = moves.prefetch, .slabs = false});
    }
    tiering.required_bytes = tiering.layout.warm_bytes + tiering.transfers.most_device_bytes +
                             options_.overhead_bytes + native_bytes_;
    return tiering;
  }

  Tiering Fit(Moves moves) const {
    uint64_t bytes = options_.budget;
    size_t cold = FewestCold(0, bytes, moves.prefetch);
    Tiering tiering;
    for (int packings = 1;; ++packings) {
      if (packings == kMaxPackings) cold = candidates_.size();
      tiering = Finish(TiersWith(cold), moves);
      if (tiering.required_bytes <= options_.budget || cold == candidates_.size()) break;
      const uint64_t missing = tiering.required_bytes - options_.budget;
      bytes -= std::min(bytes, missing);
      cold = FewestCold(cold + 1, bytes, moves.prefetch);
    }
    tiering.feasible = tiering.required_bytes <= options_.budget;
    if (!tiering.feasible) tiering.infeasible_reason = Reason(tiering);
    return tiering;
  }

  std::string Reason(const Tiering& tiering) const {
    return fmt::format(
        "with everything cold that can be, {} of device memory are needed ({} for blocks, {} for "
        "what is not planned), {} more than the budget of {}: the smallest budget that can be met "
        "is {} bytes",
        FormatSize(tiering.required_bytes),
        FormatSize(tiering.required_bytes - options_.overhead_bytes - native_bytes_),
        FormatSize(options_.overhead_bytes + native_bytes_),
        FormatSize(tiering.required_bytes - options_.budget), FormatSize(options_.budget),
        tiering.required_bytes);
  }

  const profile::Profile& profile_;
  const Timeline& timeline_;
  const Behaviour& behaviour_;
  const StepClock& clock_;
  const TieringOptions& options_;
  std::vector<Tier> resident_;  // with nothing cold
  uint64_t native_bytes_ = 0;
  std::vector<Candidate> candidates_;  // in the order in which they go cold
};

}  // namespace

Tiering ChooseTiers(const profile::Profile& profile, const Timeline& timeline,
                    const Behaviour& behaviour, const StepClock& clock,
                    const TieringOptions& options) {
  const Chooser chooser(profile, timeline, behaviour, clock, options);
  return options.budget == 0 ? chooser.WithoutBudget() : chooser.WithBudget();
}

}  // namespace ebt::plan
