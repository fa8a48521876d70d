#include "src/plan/summary_json.h"

#include <nlohmann/json.hpp>

namespace ebt::plan {
namespace {

using Json = nlohmann::ordered_json;

Json StallObject(const StallMs& stall) {
  return {{"fetch", stall.fetch},
          {"room", stall.room},
          {"in_place", stall.in_place},
          {"host", stall.host}};
}

Json CertificateObject(const Certificate& certificate) {
  Json out = {{"smallest_budget", certificate.smallest_budget},
              {"in_warm_up", certificate.in_warm_up},
              {"launch", certificate.launch},
              {"kernel", certificate.kernel},
              {"live_bytes", certificate.live_bytes},
              {"sites", Json::array()}};
  for (const Certificate::Blocks& blocks : certificate.sites) {
    out["sites"].push_back({{"site", blocks.label},
                            {"bytes", blocks.bytes},
                            {"blocks", blocks.blocks},
                            {"why", blocks.why}});
  }
  return out;
}

Json SummaryObject(const PlanSummary& summary) {
  Json out = {
      {"events", summary.events},
      {"sites", summary.sites},
      {"steps", summary.steps},
      {"native_peak_bytes", summary.native_peak_bytes},
      {"max_live_bytes", summary.max_live_bytes},
      {"planned_peak_bytes", summary.planned_peak_bytes},
      {"dynamic_bytes", summary.dynamic_bytes},
      {"uneven", summary.uneven},
      {"fragmentation", summary.fragmentation},
      {"slabs", summary.slabs},
      {"slab_bytes", summary.slab_bytes},
      {"native_step_ms", summary.native_step_ms},
      {"predicted_step_ms", summary.predicted_step_ms},
      {"stall_ms", StallObject(summary.stall_ms)},
      {"bytes_in", summary.bytes_in},
      {"bytes_out", summary.bytes_out},
      {"predicted_peak_bytes", summary.predicted_peak_bytes},
      {"managed_step_ms", summary.managed_step_ms},
      {"bound_step_ms", summary.bound_step_ms},
      {"time_reason", summary.time_reason},
      {"feasible", summary.feasible},
      {"infeasible_reason", summary.infeasible_reason},
      {"certificate", summary.feasible ? Json() : CertificateObject(summary.certificate)},
      {"plan_seconds", summary.plan_seconds},
  };
  for (Tier tier : {Tier::kHot, Tier::kWarm, Tier::kCold, Tier::kNative}) {
    const auto& sum = summary.tiers[size_t(tier)];
    out["tiers"][TierName(tier)] = {{"bytes", sum.bytes}, {"blocks", sum.blocks}};
  }
  return out;
}

Json AmountObject(const Amount& amount) {
  return {{"allocations", amount.blocks}, {"bytes", amount.bytes}};
}

Json RankObject(const Rank& rank) {
  const RankFigures& figures = rank.figures;
  return {{"profile", rank.source},
          {"rank", rank.number ? Json(*rank.number) : Json()},
          {"truncated", rank.truncated},
          {"program", figures.program},
          {"steps", figures.steps},
          {"step_launches", figures.launches},
          {"native_peak_bytes", figures.native_peak_bytes},
          {"total_bytes", figures.total_bytes},
          {"step", AmountObject(figures.step)},
          {"persistent", AmountObject(figures.persistent)}};
}

Json UnmatchedObject(const Unmatched& unmatched) {
  Json out = AmountObject(unmatched.amount);
  out["sites"] = Json::array();
  for (const Unmatched::Site& site : unmatched.sites) {
    Json entry = {{"site", site.label}};
    entry.update(AmountObject(site.amount));
    out["sites"].push_back(std::move(entry));
  }
  return out;
}

Json ComparisonObject(const RankComparison& comparison) {
  Json out = RankObject(comparison.rank);
  out["alike"] = comparison.alike;
  out["step"]["unmatched"] = UnmatchedObject(comparison.step);
  out["step"]["missing"] = UnmatchedObject(comparison.step_missing);
  out["persistent"]["unmatched"] = UnmatchedObject(comparison.persistent);
  out["persistent"]["missing"] = UnmatchedObject(comparison.persistent_missing);
  return out;
}

Json RanksArray(const RankSurvey& survey) {
  Json ranks = Json::array();
  for (const RankComparison& other : survey.others) ranks.push_back(ComparisonObject(other));
  for (const RankSurvey::Unread& unread : survey.unread) {
    ranks.push_back({{"profile", unread.source}, {"error", unread.reason}});
  }
  return ranks;
}

}  // namespace

std::string SummaryJson(const PlanSummary& summary, const RankSurvey* survey) {
  Json out = SummaryObject(summary);
  if (survey != nullptr) out["planned"] = RankObject(survey->planned);
  out["ranks"] = survey == nullptr ? Json::array() : RanksArray(*survey);
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ebt::plan
