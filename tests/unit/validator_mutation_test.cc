// Valid plans are damaged at random places. Whatever the damage did, the validator's answer must be
// the one that plain counting (plan_oracle.h) gives: a plan that is still whole passes, and of a
// broken one the rule that is named is one of those which it breaks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/profile/reader.h"
#include "tests/unit/plan_oracle.h"
#include "tests/unit/training_profile.h"
#include "tests/unit/valid_plan.h"

namespace ebt::plan {
namespace {

using profile::Optimizer;
using profile::Training;
using Range = PlanOracle::Range;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A plan under damage: what it touched is where the oracle looks again.
class Patient {
 public:
  Patient(Plan plan, uint32_t seed) : plan(std::move(plan)), random(seed) {}

  uint64_t Below(uint64_t end) { return end == 0 ? 0 : random() % end; }
  bool Coin() { return Below(2) == 0; }

  void Dirty(const Slot& slot) { Dirty(slot.offset, slot.bytes); }
  void Dirty(uint64_t offset, uint64_t bytes) {
    dirty.emplace_back(offset, offset + (bytes + 511) / 512 * 512);
  }

  // Any slot that passes, with its place noted; nullptr where there is none.
  Slot* Pick(const std::function<bool(const Slot&)>& passes) {
    std::vector<Slot*> slots;
    for (auto* sequence : {&plan.prologue, &plan.step}) {
      for (Slot& slot : *sequence) {
        if (passes(slot)) slots.push_back(&slot);
      }
    }
    if (slots.empty()) return nullptr;
    Slot* slot = slots[Below(slots.size())];
    Dirty(*slot);
    return slot;
  }
  Slot* PickAny() {
    return Pick([](const Slot&) { return true; });
  }
  Slot* PickPlanned() {
    return Pick([](const Slot& slot) { return slot.tier != Tier::kNative; });
  }
  Slab* PickSlab() {
    if (plan.slabs.empty()) return nullptr;
    Slab& slab = plan.slabs[Below(plan.slabs.size())];
    Dirty(slab.stay_offset, plan.slab_bytes);
    return &slab;
  }

  Plan plan;
  std::vector<Range> dirty;
  std::mt19937_64 random;
};

// One kind of damage. seeds: the rule that it is meant to break, and must break at least once where
// it can be done at all. false: this plan has nothing to damage so.
struct Damage {
  const char* name;
  std::string seeds;
  std::function<bool(Patient&)> act;
};

bool MoveSlot(Patient& p) {
  Slot* slot = p.PickPlanned();
  if (slot == nullptr) return false;
  const bool cold = slot->tier == Tier::kCold;
  const uint64_t region = cold ? p.plan.cold_bytes : p.plan.warm_bytes;
  if (region <= slot->bytes) return false;
  slot->offset = (cold ? p.plan.warm_bytes : 0) + p.Below((region - slot->bytes) / 512 + 1) * 512;
  p.Dirty(*slot);
  return true;
}

bool MoveOntoAnother(Patient& p) {
  Slot* slot = p.PickPlanned();
  const Slot* other = p.PickPlanned();
  if (slot == nullptr || other == nullptr || slot == other) return false;
  slot->offset = other->offset;
  p.Dirty(*slot);
  return true;
}

bool NudgeSlot(Patient& p) {
  Slot* slot = p.PickPlanned();
  if (slot == nullptr) return false;
  slot->offset += p.Coin() ? 512 : -512;
  p.Dirty(*slot);
  return true;
}

bool Misalign(Patient& p) {
  Slot* slot = p.PickPlanned();
  if (slot == nullptr) return false;
  slot->offset += 1 + p.Below(511);
  return true;
}

bool LeaveRegion(Patient& p) {
  Slot* slot = p.PickPlanned();
  if (slot == nullptr) return false;
  const bool cold = slot->tier == Tier::kCold;
  const uint64_t end = p.plan.warm_bytes + (cold ? p.plan.cold_bytes : 0);
  slot->offset = cold && p.Coin() ? p.plan.warm_bytes - 512 : (end - slot->bytes) / 512 * 512 + 512;
  return true;
}

bool ChangeTier(Patient& p) {
  Slot* slot = p.PickAny();
  slot->tier = Tier(p.Below(4));
  p.Dirty(*slot);
  return true;
}

bool TightenBudget(Patient& p) {
  const uint64_t all = p.plan.planned_peak_bytes + p.plan.overhead_bytes;
  p.plan.budget = all - 2 + p.Below(4);  // one side of it or the other
  return true;
}

bool UnderstatePeak(Patient& p) {
  p.plan.planned_peak_bytes += p.Below(1024) - 512;
  return true;
}

bool IsFetched(const Slot& slot) { return slot.fetch_launch >= 0; }

bool FetchLate(Patient& p) {
  Slot* slot = p.Pick(IsFetched);
  if (slot == nullptr) return false;
  slot->fetch_launch = int64_t(p.Below(p.plan.step_launches));
  return true;
}

bool EvictEarly(Patient& p) {
  Slot* slot = p.Pick(IsFetched);
  if (slot == nullptr) return false;
  slot->evict_launch = int64_t(p.Below(p.plan.step_launches));
  return true;
}

bool NeverFetch(Patient& p) {
  Slot* slot = p.Pick(IsFetched);
  if (slot == nullptr) return false;
  slot->fetch_launch = -1;
  if (p.Coin()) slot->evict_launch = -1;
  return true;
}

bool FetchInPlaceBlock(Patient& p) {
  Slot* slot = p.Pick([](const Slot& s) { return s.tier == Tier::kCold && !IsFetched(s); });
  if (slot == nullptr) return false;
  slot->use = ColdUse::kPrefetch;
  slot->fetch_launch = int64_t(p.Below(p.plan.step_launches + 1));
  slot->evict_launch = int64_t(p.Below(p.plan.step_launches + 1));
  p.plan.planned_peak_bytes += p.Coin() ? slot->bytes + 512 : 0;
  return true;
}

bool ShiftSlab(Patient& p) {
  Slab* slab = p.PickSlab();
  if (slab == nullptr) return false;
  uint32_t* const fields[] = {&slab->fetch_launch, &slab->evict_launch, &slab->gone_launch};
  *fields[p.Below(3)] = uint32_t(p.Below(p.plan.step_launches));
  return true;
}

bool FetchSlabLate(Patient& p) {
  Slab* slab = p.PickSlab();
  if (slab == nullptr) return false;
  slab->fetch_launch = slab->evict_launch;
  return true;
}

bool MoveStay(Patient& p) {
  Slab* slab = p.PickSlab();
  if (slab == nullptr) return false;
  slab->stay_offset = p.Below(p.plan.warm_bytes / p.plan.slab_bytes + 1) * p.plan.slab_bytes;
  if (p.Below(8) == 0) slab->stay_offset += 512;
  p.Dirty(slab->stay_offset, p.plan.slab_bytes);
  return true;
}

bool ResizeSlabs(Patient& p) {
  if (p.plan.slabs.empty()) return false;
  p.Dirty(0, uint64_t{1} << 50);
  if (p.Coin()) {
    p.plan.slab_bytes *= 2;
  } else {
    p.plan.slabs.pop_back();
  }
  return true;
}

bool ForgetStream(Patient& p) {
  Slot* slot = p.Pick([](const Slot& s) { return !s.after.empty(); });
  if (slot == nullptr) return false;
  slot->after.erase(slot->after.begin() + int64_t(p.Below(slot->after.size())));
  return true;
}

bool AddStream(Patient& p) {
  Slot* slot = p.PickAny();
  slot->after.push_back(uint16_t(p.Below(4)));
  return true;
}

bool OtherAllocation(Patient& p) {
  Slot* slot = p.PickAny();
  switch (p.Below(6)) {
    case 0:
      slot->site += 1;
      break;
    case 1:
      slot->bytes -= 1;
      break;
    case 2:
      slot->launch += 1;
      break;
    case 3:
      slot->ordinal += 1;
      break;
    case 4:
      slot->stream += 1;
      break;
    default:
      slot->fingerprint += 1;
  }
  return true;
}

bool DropSlot(Patient& p) {
  auto& slots = p.Coin() ? p.plan.prologue : p.plan.step;
  slots.erase(slots.begin() + int64_t(p.Below(slots.size())));
  return true;
}

bool RepeatSlot(Patient& p) {
  auto& slots = p.Coin() ? p.plan.prologue : p.plan.step;
  const size_t at = p.Below(slots.size());
  slots.insert(slots.begin() + int64_t(at), Slot(slots[at]));
  return true;
}

bool SwapSlots(Patient& p) {
  auto& slots = p.Coin() ? p.plan.prologue : p.plan.step;
  Slot& a = slots[p.Below(slots.size())];
  Slot& b = slots[p.Below(slots.size())];
  p.Dirty(a), p.Dirty(b);
  std::swap(a, b);
  return true;
}

bool FlipPersistence(Patient& p) {
  Slot* slot = p.PickAny();
  slot->persistent = !slot->persistent;
  return true;
}

bool OtherStepLength(Patient& p) {
  p.plan.step_launches += p.Coin() ? 1 : -1;
  return true;
}

bool OddRegion(Patient& p) {
  (p.Coin() ? p.plan.warm_bytes : p.plan.cold_bytes) += 512 * (1 + p.Below(4095));
  p.Dirty(0, uint64_t{1} << 50);
  return true;
}

bool EditAgainstTheSlots(Patient& p) {
  if (p.plan.sites.empty()) return false;
  Site& site = p.plan.sites[p.Below(p.plan.sites.size())];
  if (p.Coin()) site.pin = Tier(p.Below(4));
  if (p.Coin()) site.exclude = true;
  return true;
}

const std::vector<Damage>& AllDamage() {
  static const std::vector<Damage> all = {
      {"move", "overlap", MoveSlot},
      {"onto another", "overlap", MoveOntoAnother},
      {"nudge", "overlap", NudgeSlot},
      {"misalign", "alignment", Misalign},
      {"leave region", "bounds", LeaveRegion},
      {"tier", "bounds", ChangeTier},
      {"budget", "budget", TightenBudget},
      {"peak", "budget", UnderstatePeak},
      {"fetch late", "touch", FetchLate},
      {"evict early", "touch", EvictEarly},
      {"never fetch", "touch", NeverFetch},
      {"fetch in place", "", FetchInPlaceBlock},
      {"slab times", "", ShiftSlab},
      {"slab late", "touch", FetchSlabLate},
      {"stay", "overlap", MoveStay},
      {"slab size", "", ResizeSlabs},
      {"forget stream", "stream", ForgetStream},
      {"add stream", "", AddStream},
      {"other allocation", "sequence", OtherAllocation},
      {"drop", "sequence", DropSlot},
      {"repeat", "duplicate", RepeatSlot},
      {"swap", "", SwapSlots},
      {"persistence", "persistent", FlipPersistence},
      {"step length", "sequence", OtherStepLength},
      {"region", "region", OddRegion},
      {"edits", "edit", EditAgainstTheSlots},
  };
  return all;
}

std::string RuleOf(const absl::Status& status) {
  const std::string text(status.message());
  const size_t begin = text.find('"') + 1;
  return status.ok() ? "" : text.substr(begin, text.find('"', begin) - begin);
}

std::string Text(const PlanOracle::Rules& rules) {
  std::string text;
  for (const std::string& rule : rules) text += rule + " ";
  return text;
}

// Over all plans of the test: how often each kind of damage broke which rule, "" where none.
using Tally = std::map<std::string, std::map<std::string, int>>;

void DamageOften(const profile::Profile& profile, const Plan& plan, int times, Tally& tally) {
  const PlanOracle oracle(profile);
  ASSERT_EQ(Text(oracle.Broken(plan, {PlanOracle::kEverything})), "");
  const absl::Status whole = ValidatePlan(profile, plan);
  ASSERT_TRUE(whole.ok()) << whole;
  for (const Damage& damage : AllDamage()) {
    for (int i = 0; i < times; ++i) {
      Patient patient(plan, uint32_t(i));
      if (!damage.act(patient)) continue;
      const PlanOracle::Rules broken = oracle.Broken(patient.plan, patient.dirty);
      const absl::Status status = ValidatePlan(profile, patient.plan);
      const std::string rule = RuleOf(status);
      ++tally[damage.name][rule];
      ASSERT_EQ(status.ok(), broken.empty())
          << damage.name << " " << i << ": " << status << "; counted: " << Text(broken);
      ASSERT_TRUE(status.ok() || broken.contains(rule))
          << damage.name << " " << i << ": " << status << "; counted: " << Text(broken);
    }
  }
}

// Blocks of three streams, some of them freed on another one than they were made on; every step
// alike.
void SpreadOverStreams(profile::Profile& profile) {
  for (profile::Block& block : profile.blocks) {
    block.stream = uint16_t(block.site % 3);
    block.free_stream = uint16_t(block.site * block.site % 3);
    if (block.site == profile::kActivationSite) block.free_stream = 2;
  }
}

std::vector<Training> Trainings() {
  std::vector<Training> all;
  all.emplace_back(profile::TrainingShape{.layers = 3, .steps = 5});
  all.emplace_back(profile::TrainingShape{.layers = 5,
                                          .steps = 4,
                                          .optimizer = Optimizer::kForeach,
                                          .frees_gradients = false,
                                          .weight = 3 * kMiB + 512,
                                          .activation = 5 * kMiB + 4096});
  // With slabs: 10 MiB of state a layer, and room for it to come and go.
  all.emplace_back(profile::TrainingShape{.layers = 6,
                                          .steps = 5,
                                          .optimizer = Optimizer::kLoop,
                                          .weight = 5 * kMiB,
                                          .activation = 20 * kMiB});
  for (size_t i = 0, plain = all.size(); i < plain; ++i) {
    all.push_back(all[i]);
    SpreadOverStreams(all.back().profile);
  }
  return all;
}

// Without a budget, and with those that can be met.
std::vector<Plan> PlansOf(const profile::Profile& profile) {
  std::vector<Plan> plans;
  const PlanResult free = ValidPlan(profile, {});
  plans.push_back(free.plan);
  for (double part : {0.9, 0.7, 0.5}) {
    PlanOptions options;
    options.budget = uint64_t(part * double(free.summary.native_peak_bytes));
    const PlanResult result = ValidPlan(profile, options);
    if (result.summary.feasible) plans.push_back(result.plan);
  }
  return plans;
}

// The same with every cold block that lives across steps fetched for its touches alone.
Plan WithFetches(const profile::Profile& profile, Plan plan) {
  const PlanOracle oracle(profile);
  for (size_t i = 0; i < plan.prologue.size(); ++i) {
    Slot& slot = plan.prologue[i];
    const auto touches = oracle.TouchesOf(i);
    if (slot.tier != Tier::kCold || !slot.persistent || !touches) continue;
    slot.use = ColdUse::kPrefetch;
    std::tie(slot.fetch_launch, slot.evict_launch) = *touches;
    plan.planned_peak_bytes += (slot.bytes + 511) / 512 * 512;
  }
  return plan;
}

void ExpectEverySeedFound(const Tally& tally) {
  for (const auto& [name, rules] : tally) {
    for (const auto& [rule, times] : rules) {
      testing::Test::RecordProperty(name + ": " + (rule.empty() ? "still valid" : rule), times);
    }
  }
  for (const Damage& damage : AllDamage()) {
    const auto found = tally.find(damage.name);
    ASSERT_NE(found, tally.end()) << damage.name << " was never done";
    if (damage.seeds.empty()) continue;
    EXPECT_GT(found->second.count(damage.seeds), 0u)
        << damage.name << " never broke " << damage.seeds;
  }
}

TEST(ValidatorMutationTest, EveryDamageOfGeneratedPlansIsFoundOrIsNone) {
  Tally tally;
  for (const Training& training : Trainings()) {
    std::vector<Plan> plans = PlansOf(training.profile);
    plans.push_back(WithFetches(training.profile, plans.front()));
    for (const Plan& plan : plans) {
      DamageOften(training.profile, plan, 30, tally);
      if (HasFatalFailure()) return;
    }
  }
  ExpectEverySeedFound(tally);
}

TEST(ValidatorMutationTest, EveryDamageOfRecordedPlansIsFoundOrIsNone) {
  Tally tally;
  for (const char* name : {"gpt2-small", "resnet50", "vit-l"}) {
    const auto profile = profile::ReadProfile(std::string(EBT_PROFILES) + "/" + name + ".ebp");
    ASSERT_TRUE(profile.ok()) << profile.status();
    for (const Plan& plan : PlansOf(*profile)) {
      DamageOften(*profile, plan, 2, tally);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace ebt::plan
