#include "src/plan/planner.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "src/plan/edits.h"
#include "src/plan/layout.h"
#include "src/plan/rehearsal.h"
#include "src/plan/stream_order.h"
#include "src/plan/tiering.h"
#include "src/plan/timeline.h"
#include "src/profile/metadata.h"

namespace ebt::plan {
namespace {

// Of the peak without places of its own for what a step makes: above that the envelope is planned.
constexpr double kWorthAnEnvelope = 1.005;
constexpr int kMostRounds = 3;
// A step that takes longer than its bound by more than this needs a reason.
constexpr double kNearBound = 0.05;

constexpr std::array<Tier, 4> kTiers = {Tier::kHot, Tier::kWarm, Tier::kCold, Tier::kNative};

Slot SlotOf(const profile::Profile& profile, const Timeline& timeline, const Lived& life) {
  const auto& block = profile.blocks[life.block];
  Slot slot;
  slot.site = block.site;
  slot.fingerprint = block.fingerprint;
  slot.ordinal = life.ordinal;
  slot.stream = block.stream;
  slot.launch = life.launch;
  slot.persistent = life.span == Span::kPersistent;
  slot.bytes = timeline.PlaceBytes(profile, life);
  if (life.room != kNoRoom) {
    slot.room_bytes = timeline.rooms[life.room].bytes;
  } else if (life.variable && timeline.Planned(life)) {
    slot.room_bytes = AlignUp(slot.bytes, kBlockAlignment);
  }
  return slot;
}

void AddSlots(const profile::Profile& profile, const Timeline& timeline, const Behaviour& behaviour,
              const Tiering& tiering, Plan& plan) {
  std::vector<const ColdBlock*> cold(timeline.lives.size(), nullptr);
  for (size_t i = 0; i < tiering.cold.lives.size(); ++i) {
    cold[tiering.cold.lives[i]] = &tiering.cold.blocks[i];
  }
  for (uint32_t i = 0; i < timeline.lives.size(); ++i) {
    const Lived& life = timeline.lives[i];
    Slot slot = SlotOf(profile, timeline, life);
    slot.tier = tiering.tiers[i];
    slot.offset = tiering.layout.offsets[i];
    const bool outlives = life.unplanned == Unplanned::kOutlives && timeline.uneven;
    if (life.unplanned == Unplanned::kLoose || outlives) {
      slot.tier = Tier::kWarm;
      slot.dynamic = true;
      slot.room_bytes = 0;
    }
    slot.block_class = behaviour.traits[i].block_class;
    if (cold[i] != nullptr) {
      slot.use = cold[i]->use;
      slot.fetch_launch = cold[i]->fetch_launch;
      slot.evict_launch = cold[i]->evict_launch;
    }
    (life.in_step ? plan.step : plan.prologue).push_back(slot);
  }
}

void AddSlabs(const Tiering& tiering, Plan& plan) {
  plan.slab_bytes = tiering.slabs.slab_bytes;
  plan.slabs = tiering.slabs.slabs;
  for (size_t i = 0; i < plan.slabs.size(); ++i) {
    plan.slabs[i].stay_offset = tiering.layout.stay_offsets[i];
  }
}

void AddSites(const profile::Profile& profile, Plan& plan) {
  absl::flat_hash_set<uint64_t> used;
  for (const auto* slots : {&plan.prologue, &plan.step}) {
    for (const Slot& slot : *slots) used.insert(slot.site);
  }
  for (const callsite::Site& site : profile.sites) {
    if (used.contains(site.id)) plan.sites.push_back({site.id, SiteLabel(site)});
  }
}

void SumTiers(const profile::Profile& profile, const Timeline& timeline, const Tiering& tiering,
              PlanSummary& summary) {
  for (Tier tier : kTiers) {
    auto& sum = summary.tiers[size_t(tier)];
    sum.bytes = LiveBytes(profile, timeline, tiering.tiers, {tier});
    for (size_t i = 0; i < timeline.lives.size(); ++i) {
      const Lived& life = timeline.lives[i];
      const bool steady = life.in_step || life.span == Span::kPersistent;
      sum.blocks += steady && tiering.tiers[i] == tier;
    }
  }
}

std::vector<SiteSum> SumSites(const profile::Profile& profile, const Timeline& timeline,
                              const Behaviour& behaviour, const Tiering& tiering) {
  std::map<std::tuple<uint64_t, Tier, BlockClass>, SiteSum> sums;
  for (size_t i = 0; i < timeline.lives.size(); ++i) {
    const Lived& life = timeline.lives[i];
    if (!life.in_step && life.span != Span::kPersistent) continue;
    const auto& block = profile.blocks[life.block];
    const Tier tier = tiering.tiers[i];
    const BlockClass block_class = behaviour.traits[i].block_class;
    SiteSum& sum = sums[{block.site, tier, block_class}];
    sum.site = block.site, sum.tier = tier, sum.block_class = block_class;
    sum.bytes += block.bytes;
    sum.touches += life.touches.size();
    ++sum.blocks;
  }
  std::vector<SiteSum> out;
  for (const auto& [key, sum] : sums) out.push_back(sum);
  std::stable_sort(out.begin(), out.end(),
                   [](const SiteSum& a, const SiteSum& b) { return a.bytes > b.bytes; });
  return out;
}

Plan FillPlan(const profile::Profile& profile, const Timeline& timeline, const Behaviour& behaviour,
              const Tiering& tiering, const PlanOptions& options) {
  Plan plan;
  plan.program = profile::Text(profile, "program");
  plan.gpu = profile::Text(profile, "gpu");
  plan.ebbtide = EBBTIDE_VERSION;
  plan.source = options.source;
  plan.budget = options.budget;
  plan.warm_bytes = tiering.layout.warm_bytes;
  plan.cold_bytes = tiering.layout.cold_bytes;
  plan.step_launches = timeline.step_launches;
  plan.uneven = timeline.uneven;
  AddSlots(profile, timeline, behaviour, tiering, plan);
  AddSlabs(tiering, plan);
  AddSites(profile, plan);
  OrderStreams(profile, timeline, plan);
  MarkEdits(options, plan);
  plan.hotness = {options.weights, options.hot_threshold, options.hot_share, options.warm_share};
  return plan;
}

// What a budget forces, and what it costs.
void SumTimes(const profile::Profile& profile, const Timeline& timeline, const Behaviour& behaviour,
              const Tiering& tiering, const Plan& plan, const PlanOptions& options,
              PlanSummary& summary) {
  const Prediction& prediction = tiering.prediction;
  summary.native_step_ms = plan.native_step_ms;
  summary.predicted_step_ms = prediction.step_ms;
  summary.stall_ms = prediction.stall_ms;
  summary.bytes_in = prediction.bytes_in;
  summary.bytes_out = prediction.bytes_out;
  summary.managed_step_ms = tiering.managed_ms;
  Crossing forced;
  if (options.budget > 0) {
    const uint64_t room = options.budget - std::min(options.budget, plan.overhead_bytes);
    forced = ForcedCrossing(profile, timeline, Unchanging(timeline, behaviour), room);
  }
  summary.bound_step_ms = BoundStepMs(options.device, plan.native_step_ms, forced);
  summary.time_reason = WhySlower(profile, timeline, tiering.cold, tiering.slabs, prediction,
                                  summary.bound_step_ms, kNearBound);
}

PlanSummary Summarize(const profile::Profile& profile, const Timeline& timeline,
                      const Behaviour& behaviour, const Tiering& tiering, const Plan& plan,
                      const PlanOptions& options) {
  PlanSummary summary;
  summary.events = profile.events.size();
  summary.sites = profile.sites.size();
  summary.steps = timeline.steps.steps;
  summary.native_peak_bytes = profile::NativePeakBytes(profile, plan.max_live_bytes);
  summary.max_live_bytes = plan.max_live_bytes;
  summary.planned_peak_bytes = plan.planned_peak_bytes;
  summary.predicted_peak_bytes = tiering.required_bytes;
  uint64_t device_live = tiering.layout.warm_live_bytes + tiering.transfers.most_device_bytes;
  // The envelope of steps that differ is no step: what counts is what was live.
  if (plan.uneven && tiering.cold.lives.empty()) device_live = timeline.recorded_live;
  if (device_live > 0) {
    summary.fragmentation = double(plan.planned_peak_bytes) / double(device_live);
  }
  summary.slab_bytes = tiering.slabs.bytes();
  summary.slabs = plan.slabs.size();
  summary.uneven = plan.uneven;
  summary.dynamic_bytes = plan.dynamic_bytes;
  SumTimes(profile, timeline, behaviour, tiering, plan, options, summary);
  summary.feasible = tiering.feasible;
  summary.infeasible_reason = tiering.infeasible_reason;
  summary.certificate = tiering.certificate;
  SumTiers(profile, timeline, tiering, summary);
  return summary;
}

// Where steps differ the dynamic part is known only when there is a plan, and with a budget what it
// takes is missing for the plan.
PlanResult PlanTimeline(const profile::Profile& profile, const Timeline& timeline,
                        const PlanOptions& options) {
  const Behaviour behaviour = Judge(profile, timeline, options.weights, options.hot_threshold);
  const StepClock clock = ReadClock(profile, timeline);
  const uint64_t max_live = MaxLiveBytes(profile, timeline);
  const uint64_t used = profile::Number(profile, "device_used_peak_bytes").value_or(0);
  const uint64_t overhead = used > max_live ? used - max_live : 0;
  TieringOptions tiering_options{.budget = options.budget,
                                 .overhead_bytes = overhead,
                                 .hot_share = options.hot_share,
                                 .warm_share = options.warm_share,
                                 .pinned = options.pinned,
                                 .excluded = options.excluded,
                                 .device = options.device};
  PlanResult result;
  for (int round = 0; round < (timeline.uneven ? kMostRounds : 1); ++round) {
    const Tiering tiering = ChooseTiers(profile, timeline, behaviour, clock, tiering_options);
    result.plan = FillPlan(profile, timeline, behaviour, tiering, options);
    Plan& plan = result.plan;
    if (plan.uneven) {
      plan.dynamic_bytes = AlignUp(Rehearse(profile, plan).dynamic_bytes, kRegionAlignment);
    }
    plan.overhead_bytes = overhead;
    plan.native_step_ms = clock.step_ms;
    plan.predicted_step_ms = tiering.prediction.step_ms;
    plan.max_live_bytes = max_live;
    plan.planned_peak_bytes =
        plan.warm_bytes + tiering.transfers.most_device_bytes + plan.dynamic_bytes;
    result.summary = Summarize(profile, timeline, behaviour, tiering, plan, options);
    result.sites = SumSites(profile, timeline, behaviour, tiering);
    // What the blocks without a place take is known only now; it was reckoned with as `counted`.
    const uint64_t counted = tiering_options.overhead_bytes - overhead;
    const uint64_t peak = tiering.required_bytes - counted + plan.dynamic_bytes;
    PlanSummary& summary = result.summary;
    summary.predicted_peak_bytes = peak;
    if (!plan.uneven) break;
    summary.feasible = options.budget == 0 || peak <= options.budget;
    if (summary.feasible) {
      summary.certificate = {};
      summary.infeasible_reason.clear();
      break;
    }
    summary.certificate.smallest_budget = peak;
    summary.infeasible_reason = CertificateText(summary.certificate, options.budget);
    tiering_options.overhead_bytes = overhead + plan.dynamic_bytes;
  }
  return result;
}

}  // namespace

absl::StatusOr<PlanResult> MakePlan(const profile::Profile& profile, const PlanOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  auto timeline = BuildTimeline(profile);
  if (!timeline.ok()) return timeline.status();
  PlanResult result = PlanTimeline(profile, *timeline, options);
  if (timeline->uneven) {
    Loosen(*timeline);
    PlanResult loose = PlanTimeline(profile, *timeline, options);
    // The envelope of what was recorded holds for no other step: it has to be worth something.
    const auto loose_peak = double(loose.plan.planned_peak_bytes);
    if (loose_peak <= kWorthAnEnvelope * double(result.plan.planned_peak_bytes)) {
      result = std::move(loose);
    }
  }
  result.summary.plan_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return result;
}

const char* TierName(Tier tier) {
  switch (tier) {
    case Tier::kHot:
      return "hot";
    case Tier::kWarm:
      return "warm";
    case Tier::kCold:
      return "cold";
    case Tier::kNative:
      return "native";
  }
  return "?";
}

const char* ClassName(BlockClass block_class) {
  switch (block_class) {
    case BlockClass::kOther:
      return "other";
    case BlockClass::kOptimizerState:
      return "optimizer state";
    case BlockClass::kParameter:
      return "parameter";
    case BlockClass::kGradient:
      return "gradient";
    case BlockClass::kActivation:
      return "activation";
  }
  return "?";
}

}  // namespace ebt::plan
