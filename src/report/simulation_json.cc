#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "src/base/units.h"
#include "src/report/simulation.h"

namespace ebt::report {
namespace {

using Json = nlohmann::ordered_json;
using plan::Baseline;
using plan::PlayedPlan;

Json Ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? Json() : Json(double(part) / double(whole));
}

Json PolicyObject(const Baseline& baseline) {
  Json out = {{"policy", plan::PolicyName(baseline.policy)},
              {"allocations", baseline.allocations},
              {"peak_live_bytes", baseline.peak_live_bytes},
              {"peak_allocated_bytes", baseline.peak_allocated_bytes},
              {"peak_reserved_bytes", baseline.peak_reserved_bytes},
              {"peak_process_bytes", baseline.peak_process_bytes},
              {"fragmentation", Ratio(baseline.peak_reserved_bytes, baseline.peak_live_bytes)},
              {"segments_made", baseline.segments_made},
              {"segments_freed", baseline.segments_freed},
              {"retries", baseline.retries},
              {"fits", baseline.fits}};
  if (!baseline.fits) {
    out["refused_bytes"] = baseline.refused_bytes;
    out["refused_event"] = baseline.refused_at;
  }
  if (baseline.policy == plan::Policy::kManaged) {
    out["moved_in_bytes"] = baseline.moved_in_bytes;
    out["moved_out_bytes"] = baseline.moved_out_bytes;
    out["fault_ms"] = baseline.fault_ms;
  }
  return out;
}

Json PlanObject(const Simulation::Played& played) {
  const PlayedPlan& figures = played.figures;
  return {{"source", played.source},
          {"from_step", played.from_step},
          {"peak_bytes", figures.peak_bytes},
          {"planned_bytes", figures.planned_bytes},
          {"dynamic_bytes", figures.dynamic_bytes},
          {"dynamic_live_bytes", figures.dynamic_live_bytes},
          {"planned_allocations", figures.planned},
          {"occupied_allocations", figures.occupied},
          {"unknown_allocations", figures.unknown},
          {"native_allocations", figures.native},
          {"fits", played.fits}};
}

// Why what was simulated does not fit; empty where it does.
std::string Reason(const Simulation& simulation) {
  if (simulation.plan && !simulation.plan->fits) {
    return fmt::format("the plan takes {} of {}", FormatSize(simulation.plan->figures.peak_bytes),
                       FormatSize(simulation.capacity_bytes));
  }
  for (const Baseline& baseline : simulation.policies) {
    if (baseline.fits) continue;
    return fmt::format("{}: no memory for {} at event {}", plan::PolicyName(baseline.policy),
                       FormatSize(baseline.refused_bytes), baseline.refused_at);
  }
  return "";
}

}  // namespace

std::string SimulationJson(const Simulation& simulation) {
  const auto& played = simulation.plan;
  const std::string reason = Reason(simulation);
  Json out = {
      {"source", simulation.source},
      {"events", simulation.events},
      {"sites", simulation.sites},
      {"steps", simulation.steps},
      {"native_peak_bytes", simulation.native_peak_bytes},
      {"max_live_bytes", simulation.max_live_bytes},
      {"budget_bytes", simulation.budget_bytes > 0 ? Json(simulation.budget_bytes) : Json()},
      {"capacity_bytes", simulation.capacity_bytes},
      {"device", simulation.device.empty() ? Json() : Json(simulation.device)},
      {"planned_peak_bytes", played ? Json(played->planned_peak_bytes) : Json()},
      {"fragmentation",
       played ? Ratio(played->figures.peak_bytes, played->figures.live_bytes) : Json()},
      {"native_step_ms", played ? Json(played->native_step_ms) : Json()},
      {"predicted_step_ms", played ? Json(played->predicted_step_ms) : Json()},
      {"feasible", reason.empty()},
      {"infeasible_reason", reason},
      {"plan", played ? PlanObject(*played) : Json()},
      {"policies", Json::array()}};
  for (const Baseline& baseline : simulation.policies) {
    out["policies"].push_back(PolicyObject(baseline));
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ebt::report
