#include "src/report/explain_table.h"

#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "src/base/units.h"
#include "src/report/text.h"

namespace ebt::report {
namespace {

using plan::BlockReason;
using plan::Explanation;
using plan::Neighbour;
using plan::Span;
using plan::Tier;
using Json = nlohmann::ordered_json;

constexpr size_t kLabelWidth = 56;

const char* SpanText(Span span) {
  switch (span) {
    case Span::kPersistent:
      return "across steps";
    case Span::kStep:
      return "within a step";
    case Span::kCyclic:
      return "into the next step";
    default:
      return "beyond the next step";
  }
}

void PrintHead(const Explanation& e, Text& out) {
  const char* edit = e.site.exclude ? ", excluded" : "";
  Print(out, "Site       {:#x} {}{}{}\n", e.site.id, Printable(e.site.label), edit,
        e.site.pin ? fmt::format(", pinned to {}", plan::TierName(*e.site.pin)) : "");
  Print(out, "Step       {} launches; forward up to launch {}", e.step_launches, e.turn);
  if (e.optimizer.begin < e.optimizer.end) {
    Print(out, "; optimizer: launches {} to {}", e.optimizer.begin, e.optimizer.end - 1);
  }
  const auto& weights = e.rule.weights;
  Print(out,
        "\nHeat       part of the steps * ({:.4g} * forward + {:.4g} * backward + {:.4g} * "
        "coupling)\n",
        weights.forward, weights.backward, weights.coupling);
  Print(out, "           hot above {:.4g} = mean {:.4g} + {:.4g} * deviation {:.4g}\n", e.hot_above,
        e.heat_mean, e.rule.threshold, e.heat_deviation);
  if (e.budget == 0) {
    Print(out, "Budget     none; the plan takes {} of the device\n", FormatSize(e.device_bytes));
    return;
  }
  Print(out, "Budget     {}: {} planned, {} for the rest, {} {}\n", FormatSize(e.budget),
        FormatSize(e.device_bytes), FormatSize(e.overhead_bytes),
        FormatSize(uint64_t(e.left_bytes < 0 ? -e.left_bytes : e.left_bytes)),
        e.left_bytes < 0 ? "too much" : "left");
}

void PrintNeighbour(const char* side, const Neighbour& neighbour, Text& out) {
  if (!neighbour.there) return;
  Print(out, "  {:<9}{} at {} of {:#x} {}{}\n", side, FormatSize(neighbour.bytes), neighbour.offset,
        neighbour.site, Shortened(Printable(neighbour.label), kLabelWidth),
        neighbour.gap == 0 ? "" : fmt::format(", {} apart", FormatSize(neighbour.gap)));
}

void PrintBlock(const BlockReason& block, Text& out) {
  const plan::Traits& traits = block.traits;
  const bool placed = block.slot.tier != Tier::kNative && !block.slot.dynamic;
  Print(out, "\n{}: {}, {}, {}{}\n", block.name, plan::TierName(block.slot.tier),
        plan::ClassName(traits.block_class), FormatSize(block.slot.bytes),
        placed ? fmt::format(" at {}", block.slot.offset) : "");
  Print(out, "  lives    {}", SpanText(block.span));
  if (block.module_blocks > 1) Print(out, ", one of {} of a module", block.module_blocks);
  if (block.touches > 0) {
    Print(out, "; {} touches, launches {} to {}", block.touches, traits.first, traits.last);
  }
  Print(out, "; idle for {:.1f} % of the step\n", 100 * traits.idle);
  Print(out,
        "  heat     {:.4g}: forward {:.4g}, backward {:.4g}, coupling {:.4g}, in {:.4g} of the "
        "steps\n",
        traits.heat, traits.forward, traits.backward, traits.coupling, traits.frequency);
  Print(out, "  link     in place {:.4g} ms, in and out {:.4g} ms, for {} of idle bytes\n",
        block.in_place_ms, block.move_ms, FormatSize(uint64_t(block.idle_bytes)));
  PrintNeighbour("below", block.below, out);
  PrintNeighbour("above", block.above, out);
  for (const std::string& fact : block.because) {
    Print(out, "  {:<9}{}\n", &fact == &block.because.front() ? "because" : "", fact);
  }
}

Json NeighbourObject(const Neighbour& neighbour) {
  if (!neighbour.there) return nullptr;
  return {{"site", fmt::format("{:#x}", neighbour.site)},
          {"label", neighbour.label},
          {"offset", neighbour.offset},
          {"bytes", neighbour.bytes},
          {"gap_bytes", neighbour.gap}};
}

Json BlockObject(const BlockReason& block) {
  const plan::Traits& traits = block.traits;
  Json out = {
      {"slot", block.name},
      {"tier", plan::TierName(block.slot.tier)},
      {"class", plan::ClassName(traits.block_class)},
      {"bytes", block.slot.bytes},
      {"offset",
       block.slot.tier == Tier::kNative || block.slot.dynamic ? Json() : Json(block.slot.offset)},
      {"lives", SpanText(block.span)},
      {"touches", block.touches},
      {"first_launch", traits.first},
      {"last_launch", traits.last},
      {"idle", traits.idle},
      {"heat", traits.heat},
      {"forward", traits.forward},
      {"backward", traits.backward},
      {"coupling", traits.coupling},
      {"frequency", traits.frequency},
      {"hot", traits.hot},
      {"idle_bytes", block.idle_bytes},
      {"in_place_ms", block.in_place_ms},
      {"move_ms", block.move_ms},
      {"module_blocks", block.module_blocks},
      {"slab", block.slab < 0 ? Json() : Json(block.slab)}};
  out["fetch_launch"] = block.slot.fetch_launch;
  out["evict_launch"] = block.slot.evict_launch;
  out["after"] = block.slot.after;
  out["below"] = NeighbourObject(block.below);
  out["above"] = NeighbourObject(block.above);
  out["because"] = block.because;
  return out;
}

}  // namespace

std::string ExplainTable(const Explanation& explanation) {
  Text out;
  PrintHead(explanation, out);
  for (const BlockReason& block : explanation.blocks) PrintBlock(block, out);
  return fmt::to_string(out);
}

std::string ExplainJson(const Explanation& e) {
  Json out = {{"site", fmt::format("{:#x}", e.site.id)},
              {"label", e.site.label},
              {"pin", e.site.pin ? Json(plan::TierName(*e.site.pin)) : Json()},
              {"exclude", e.site.exclude},
              {"alpha", e.rule.weights.forward},
              {"beta", e.rule.weights.backward},
              {"gamma", e.rule.weights.coupling},
              {"sigma", e.rule.threshold},
              {"heat_mean", e.heat_mean},
              {"heat_deviation", e.heat_deviation},
              {"hot_above", e.hot_above},
              {"step_launches", e.step_launches},
              {"turn", e.turn},
              {"budget", e.budget},
              {"overhead_bytes", e.overhead_bytes},
              {"planned_peak_bytes", e.device_bytes},
              {"left_bytes", e.budget == 0 ? Json() : Json(e.left_bytes)}};
  out["blocks"] = Json::array();
  for (const BlockReason& block : e.blocks) out["blocks"].push_back(BlockObject(block));
  return out.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ebt::report
