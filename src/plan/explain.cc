#include "src/plan/explain.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "src/base/units.h"
#include "src/plan/budget.h"
#include "src/plan/predictor.h"

namespace ebt::plan {
namespace {

const char* WhyUnplanned(Unplanned why) {
  switch (why) {
    case Unplanned::kNo:
      return "";
    case Unplanned::kProbe:
      return "huge and never touched: it was asked for to learn how much memory there is";
    case Unplanned::kExported:
      return "another process may hold memory of this site, so the driver must give it";
    case Unplanned::kOutlives:
      return "it still lives when the next step makes it anew, so one place is not enough";
    case Unplanned::kElsewhere:
      return "it is on another device than the one that is planned for";
    case Unplanned::kLoose:
      return "steps differ, and what is free at the time serves better than a place of its own";
    case Unplanned::kEmpty:
      return "it has no bytes";
  }
  return "";
}

class Explainer {
 public:
  Explainer(const profile::Profile& profile, const PlanOptions& options, const PlanResult& result,
            const Timeline& timeline)
      : profile_(profile),
        options_(options),
        result_(result),
        timeline_(timeline),
        behaviour_(Judge(profile, timeline, options.weights, options.hot_threshold)) {
    for (const Site& site : result.plan.sites) labels_[site.id] = site.label;
    for (uint32_t i = 0; i < timeline.lives.size(); ++i) {
      if (timeline.lives[i].span == Span::kPersistent) ++modules_[behaviour_.traits[i].module];
    }
  }

  Explanation Head(const Site& site) const {
    const Plan& plan = result_.plan;
    Explanation out{.site = site};
    for (const Site& planned : plan.sites) {
      if (planned.id == site.id) out.site = planned;
    }
    out.rule = {options_.weights, options_.hot_threshold, options_.hot_share, options_.warm_share};
    out.heat_mean = behaviour_.heat_mean;
    out.heat_deviation = behaviour_.heat_deviation;
    out.hot_above = behaviour_.hot_above;
    out.turn = behaviour_.turn;
    out.optimizer = behaviour_.optimizer;
    out.step_launches = plan.step_launches;
    out.budget = plan.budget;
    out.overhead_bytes = plan.overhead_bytes;
    out.device_bytes = plan.planned_peak_bytes;
    if (plan.budget > 0) out.left_bytes = int64_t(plan.budget) - int64_t(Required());
    return out;
  }

  BlockReason Of(uint32_t life, const Site& site) const {
    const Lived& lived = timeline_.lives[life];
    const Slot& slot = SlotOf(life);
    BlockReason out{.name = NameOf(life), .slot = slot, .span = lived.span};
    out.traits = behaviour_.traits[life];
    out.touches = lived.touches.size();
    out.idle_bytes = double(slot.bytes) * out.traits.idle;
    out.in_place_ms = InPlaceMs(options_.device, slot.bytes, out.touches);
    out.move_ms = FetchMs(options_.device, slot.bytes) + SendBackMs(options_.device, slot.bytes);
    const Plan& plan = result_.plan;
    if (slot.tier == Tier::kCold &&
        slot.offset < plan.warm_bytes + plan.slabs.size() * plan.slab_bytes) {
      out.slab = int64_t((slot.offset - plan.warm_bytes) / plan.slab_bytes);
    }
    if (lived.span == Span::kPersistent) out.module_blocks = modules_.at(out.traits.module);
    if (slot.tier != Tier::kNative && !slot.dynamic) FindNeighbours(life, out);
    AddReasons(life, site, out);
    return out;
  }

 private:
  const Slot& SlotOf(uint32_t life) const {
    const auto& prologue = result_.plan.prologue;
    return life < prologue.size() ? prologue[life] : result_.plan.step[life - prologue.size()];
  }

  std::string NameOf(uint32_t life) const {
    const size_t prologue = result_.plan.prologue.size();
    return life < prologue ? fmt::format("prologue[{}]", life)
                           : fmt::format("step[{}]", life - prologue);
  }

  uint64_t Required() const {
    return result_.plan.planned_peak_bytes + result_.plan.overhead_bytes;
  }

  static bool Meet(const Lived& a, const Lived& b) {
    for (const Interval& i : a.live) {
      for (const Interval& j : b.live) {
        if (!i.empty() && !j.empty() && i.begin < j.end && j.begin < i.end) return true;
      }
    }
    return false;
  }

  Neighbour NeighbourOf(uint32_t life, uint64_t gap) const {
    const Slot& slot = SlotOf(life);
    const auto label = labels_.find(slot.site);
    return {true,        slot.site,  label == labels_.end() ? "" : label->second,
            slot.offset, slot.bytes, gap};
  }

  void FindNeighbours(uint32_t life, BlockReason& out) const {
    const Lived& lived = timeline_.lives[life];
    const uint64_t end = out.slot.offset + AlignUp(out.slot.bytes, kBlockAlignment);
    for (uint32_t i = 0; i < timeline_.lives.size(); ++i) {
      const Slot& slot = SlotOf(i);
      if (i == life || slot.tier == Tier::kNative || slot.dynamic ||
          !Meet(lived, timeline_.lives[i]))
        continue;
      const uint64_t other_end = slot.offset + AlignUp(slot.bytes, kBlockAlignment);
      if (other_end <= out.slot.offset) {
        const uint64_t gap = out.slot.offset - other_end;
        if (!out.below.there || gap < out.below.gap) out.below = NeighbourOf(i, gap);
      } else if (slot.offset >= end) {
        const uint64_t gap = slot.offset - end;
        if (!out.above.there || gap < out.above.gap) out.above = NeighbourOf(i, gap);
      }
    }
  }

  void AddReasons(uint32_t life, const Site& site, BlockReason& out) const {
    const Lived& lived = timeline_.lives[life];
    auto& because = out.because;
    if (out.slot.dynamic) {
      because.push_back(WhyUnplanned(Unplanned::kLoose));
    } else if (!timeline_.Planned(lived)) {
      because.push_back(WhyUnplanned(lived.unplanned));
    } else if (options_.excluded.contains(site.id)) {
      because.push_back("its site is excluded");
    } else if (const auto pin = options_.pinned.find(site.id); pin != options_.pinned.end()) {
      because.push_back(fmt::format("its site is pinned to {}", TierName(pin->second)));
    } else if (out.slot.tier == Tier::kCold) {
      AddColdReasons(life, out);
    } else {
      AddDeviceReasons(life, out);
    }
    AddStreams(out);
  }

  std::string HeatText(const Traits& traits) const {
    return fmt::format("its heat {:.4g} is {} {:.4g} = mean {:.4g} + {:.4g} * deviation {:.4g}",
                       traits.heat, traits.hot ? "above" : "not above", behaviour_.hot_above,
                       behaviour_.heat_mean, options_.hot_threshold, behaviour_.heat_deviation);
  }

  void AddDeviceReasons(uint32_t life, BlockReason& out) const {
    auto& because = out.because;
    if (out.traits.frequency < 1 && out.span == Span::kPersistent) {
      because.push_back(fmt::format("{:.3g} of the steps touch it, so its heat weighs that much",
                                    out.traits.frequency));
    }
    because.push_back(HeatText(out.traits));
    if (out.slot.tier == Tier::kHot) {
      because.push_back(
          fmt::format("the {:.3g} % for hot blocks had room for it", 100 * options_.hot_share));
      return;
    }
    if (out.traits.hot) {
      because.push_back(fmt::format("hotter blocks had used up the {:.3g} % for hot blocks",
                                    100 * options_.hot_share));
    }
    if (profile_.blocks[timeline_.lives[life].block].kept) {
      because.push_back("a graph or the like may use it unseen: such a block moves last");
    } else if (out.slot.bytes < kSmallestCold) {
      because.push_back("it is smaller than a host page: moving it saves nothing");
    } else if (result_.plan.budget == 0) {
      because.push_back("without a budget only optimizer state goes cold");
    } else {
      because.push_back(fmt::format(
          "the budget of {} is met with {} to spare, {} for what is not planned included, by "
          "blocks that go before it",
          FormatSize(result_.plan.budget),
          FormatSize(result_.plan.budget - std::min(result_.plan.budget, Required())),
          FormatSize(result_.plan.overhead_bytes)));
    }
  }

  void AddColdReasons(uint32_t, BlockReason& out) const {
    auto& because = out.because;
    if (result_.plan.budget == 0 && out.traits.block_class == BlockClass::kOptimizerState) {
      because.push_back(fmt::format(
          "optimizer state that is idle for {:.1f} % of the step goes cold without a budget",
          100 * out.traits.idle));
    } else if (result_.plan.budget > 0) {
      because.push_back(
          fmt::format("the budget of {}, {} for what is not planned, does not hold "
                      "everything",
                      FormatSize(result_.plan.budget), FormatSize(result_.plan.overhead_bytes)));
      because.push_back(fmt::format(
          "{} idle for {:.1f} % of the step save {} at {:.4g} ms of the link",
          FormatSize(out.slot.bytes), 100 * out.traits.idle, FormatSize(uint64_t(out.idle_bytes)),
          out.slot.use == ColdUse::kPrefetch || out.slab >= 0 ? out.move_ms : out.in_place_ms));
    } else {
      because.push_back("the share of warm blocks is used up");
    }
    if (out.slab >= 0) {
      const Slab& slab = result_.plan.slabs[size_t(out.slab)];
      because.push_back(
          fmt::format("its slab {} comes before launch {} and leaves behind {}, gone "
                      "before {}",
                      out.slab, slab.fetch_launch, slab.evict_launch, slab.gone_launch));
    } else if (out.slot.use == ColdUse::kPrefetch) {
      because.push_back(fmt::format("it is fetched before launch {} and sent back behind {}",
                                    out.slot.fetch_launch, out.slot.evict_launch));
    } else {
      because.push_back(fmt::format("its {} touches are made in place", out.touches));
    }
  }

  static void AddStreams(BlockReason& out) {
    for (uint16_t stream : out.slot.after) {
      out.because.push_back(
          fmt::format("its place is behind an event of stream {}, which used it before", stream));
    }
  }

  const profile::Profile& profile_;
  const PlanOptions& options_;
  const PlanResult& result_;
  const Timeline& timeline_;
  const Behaviour behaviour_;
  absl::flat_hash_map<uint64_t, std::string> labels_;
  std::map<uint32_t, uint64_t> modules_;  // blocks of each
};

}  // namespace

absl::StatusOr<Explanation> Explain(const profile::Profile& profile, const PlanOptions& options,
                                    const PlanResult& result, const Site& site) {
  const auto timeline = BuildTimeline(profile);
  if (!timeline.ok()) return timeline.status();
  const Explainer explainer(profile, options, result, *timeline);
  Explanation out = explainer.Head(site);
  for (uint32_t i = 0; i < timeline->lives.size(); ++i) {
    const Lived& life = timeline->lives[i];
    if (!life.in_step && life.span != Span::kPersistent) continue;
    if (profile.blocks[life.block].site != site.id) continue;
    out.blocks.push_back(explainer.Of(i, site));
  }
  if (out.blocks.empty()) {
    return absl::NotFoundError(fmt::format(
        "{:#x} {} has no block that lives in or across a steady step", site.id, site.label));
  }
  return out;
}

}  // namespace ebt::plan
