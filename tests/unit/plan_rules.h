// What a plan must be by itself, said a second time: for plan_oracle.h.
#ifndef EBBTIDE_TESTS_UNIT_PLAN_RULES_H_
#define EBBTIDE_TESTS_UNIT_PLAN_RULES_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/plan/plan.h"

namespace ebt::plan {

using PlanRules = std::set<std::string>;

inline constexpr uint64_t kTooManyBytes = uint64_t{1} << 44;
inline constexpr uint64_t kPlaceUnit = 512, kRegionUnit = uint64_t{2} << 20;

inline void CountPlace(const Plan& plan, const Slot& slot, PlanRules& rules) {
  if (slot.bytes > kTooManyBytes) rules.insert("size");
  if (slot.tier == Tier::kNative) return;
  if (slot.bytes == 0) rules.insert("size");
  if (slot.offset % kPlaceUnit != 0) rules.insert("alignment");
  const bool cold = slot.tier == Tier::kCold;
  const uint64_t begin = cold ? plan.warm_bytes : 0;
  const uint64_t end = cold ? plan.warm_bytes + plan.cold_bytes : plan.warm_bytes;
  if (slot.offset < begin || slot.offset > end || end - slot.offset < slot.bytes) {
    rules.insert("bounds");
  }
  const bool in_slab = slot.offset < plan.warm_bytes + plan.slab_bytes * plan.slabs.size();
  if (cold && in_slab && !slot.persistent) rules.insert("slabs");
}

inline void CountWindow(const Plan& plan, const Slot& slot, PlanRules& rules) {
  const bool windowed = slot.fetch_launch != -1 || slot.evict_launch != -1;
  if (slot.tier != Tier::kCold || slot.use == ColdUse::kInPlace) {
    if (windowed || (slot.tier != Tier::kCold && slot.use != ColdUse::kInPlace)) {
      rules.insert("prefetch");
    }
    return;
  }
  for (int64_t launch : {slot.fetch_launch, slot.evict_launch}) {
    if (launch < -1 || launch >= int64_t(plan.step_launches)) rules.insert("launch");
  }
  if ((slot.fetch_launch == -1) != (slot.evict_launch == -1) ||
      slot.fetch_launch > slot.evict_launch) {
    rules.insert("prefetch");
  }
}

inline void CountSlots(const Plan& plan, const std::vector<Slot>& slots, bool step,
                       PlanRules& rules) {
  std::set<std::pair<uint64_t, uint32_t>> seen;
  uint32_t before = 0;
  for (const Slot& slot : slots) {
    if (!seen.insert({slot.site, slot.ordinal}).second) rules.insert("duplicate");
    if (slot.launch < before) rules.insert("order");
    before = slot.launch;
    if (step && slot.launch >= plan.step_launches) rules.insert("launch");
    if (step && slot.persistent) rules.insert("persistent");
    for (size_t i = 1; i < slot.after.size(); ++i) {
      if (slot.after[i - 1] >= slot.after[i]) rules.insert("stream");
    }
    CountPlace(plan, slot, rules);
    CountWindow(plan, slot, rules);
  }
}

inline void CountSlabs(const Plan& plan, PlanRules& rules) {
  if (plan.slabs.empty() && plan.slab_bytes == 0) return;
  bool power = false;
  for (uint64_t bytes = kRegionUnit; bytes <= 16 * kRegionUnit; bytes *= 2) {
    power |= bytes == plan.slab_bytes;
  }
  if (!power || plan.slabs.empty()) {
    rules.insert("slabs");
    return;
  }
  if (plan.warm_bytes % plan.slab_bytes != 0) rules.insert("slabs");
  if (plan.slabs.size() * plan.slab_bytes > plan.cold_bytes) rules.insert("slabs");
  for (const Slab& slab : plan.slabs) {
    if (slab.stay_offset % plan.slab_bytes != 0) rules.insert("slabs");
    if (slab.stay_offset >= plan.warm_bytes) rules.insert("slabs");
    bool within = true;
    for (uint32_t launch : {slab.fetch_launch, slab.evict_launch, slab.gone_launch}) {
      within &= launch < plan.step_launches;
    }
    if (!within) {
      rules.insert("launch");
      continue;
    }
    // Goes round from the fetch: the evict must be met before the end of the stay.
    uint32_t launch = slab.fetch_launch;
    while (launch != slab.evict_launch && launch != slab.gone_launch) {
      launch = (launch + 1) % plan.step_launches;
      if (launch == slab.fetch_launch) break;
    }
    const bool gone_at_evict = slab.gone_launch == slab.evict_launch;
    const bool gone_at_fetch = slab.gone_launch == slab.fetch_launch;
    if (launch != slab.evict_launch || gone_at_evict || gone_at_fetch) rules.insert("slabs");
  }
}

// Rules that a plan breaks by itself, whatever it was made from.
inline PlanRules RulesBrokenByItself(const Plan& plan) {
  PlanRules rules;
  if (plan.schema != kSchemaVersion) rules.insert("schema");
  for (uint64_t bytes : {plan.warm_bytes, plan.cold_bytes}) {
    if (bytes % kRegionUnit != 0) rules.insert("region");
  }
  for (uint64_t bytes : {plan.warm_bytes, plan.cold_bytes, plan.budget, plan.overhead_bytes,
                         plan.max_live_bytes, plan.planned_peak_bytes}) {
    if (bytes > kTooManyBytes) rules.insert("region");
  }
  CountSlots(plan, plan.prologue, false, rules);
  CountSlots(plan, plan.step, true, rules);
  CountSlabs(plan, rules);
  std::set<uint64_t> seen;
  for (const Site& site : plan.sites) {
    if (!seen.insert(site.id).second) rules.insert("duplicate");
    if (site.pin == Tier::kNative || (site.pin && site.exclude)) rules.insert("edit");
  }
  return rules;
}

}  // namespace ebt::plan

#endif  // EBBTIDE_TESTS_UNIT_PLAN_RULES_H_
