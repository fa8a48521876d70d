// A plan file is untrusted: whatever the bytes, reading it ends in a plan or in one error. What was
// read and passes CheckPlan reads the same again, can be held against a recording, and can be
// updated: the plan that comes of that is whole and keeps what it says it keeps.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "src/plan/edits.h"
#include "src/plan/plan_file.h"
#include "src/plan/planner.h"
#include "src/plan/validator.h"
#include "tests/unit/training_profile.h"

namespace {

using ebt::plan::Plan;
using ebt::profile::Profile;

// Three layers whose state lies in slabs; blocks of two streams.
const Profile& Recording() {
  static const Profile recording = [] {
    ebt::profile::Training training({.layers = 3,
                                     .steps = 4,
                                     .optimizer = ebt::profile::Optimizer::kLoop,
                                     .weight = uint64_t{5} << 20,
                                     .activation = uint64_t{20} << 20});
    for (auto& block : training.profile.blocks) {
      block.stream = uint16_t(block.site % 2);
      block.free_stream = uint16_t(block.site % 3 == 0);
    }
    return training.profile;
  }();
  return recording;
}

void ReadAgain(const Plan& plan) {
  const std::string written = ebt::plan::PlanToJson(plan);
  const auto again = ebt::plan::PlanFromJson(written, "again");
  if (!again.ok() || ebt::plan::PlanToJson(*again) != written) abort();
}

void UpdateIt(const Plan& old) {
  ebt::plan::PlanOptions options;
  const auto sites = ebt::plan::RecordedSites(Recording());
  ebt::plan::Update update = ebt::plan::TakeOver(old, sites, &options);
  ebt::plan::CountKept(old, options, &update);
  auto result = ebt::plan::MakePlan(Recording(), options);
  if (!result.ok()) abort();
  Plan& plan = result->plan;
  if (result->summary.feasible && !ebt::plan::ValidatePlan(Recording(), plan).ok()) abort();
  ebt::plan::KeepClearances(old, &plan, &update);
  if (!ebt::plan::CheckPlan(plan).ok()) abort();
  if (plan.budget != old.budget) abort();
  uint64_t pins = 0, exclusions = 0, cleared = 0;
  for (const auto& site : plan.sites) pins += site.pin.has_value(), exclusions += site.exclude;
  for (const auto& clearance : plan.cleared) cleared += clearance.sites.size();
  if (pins != update.pins || exclusions != update.exclusions || cleared != update.cleared) abort();
  if (ebt::plan::UpdateText(update, "old").find('\n') != std::string::npos) abort();
  ReadAgain(plan);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = ebt::plan::PlanFromJson(text, "fuzz");
  if (!plan.ok()) {
    if (plan.status().message().empty()) abort();
    return 0;
  }
  if (!ebt::plan::CheckPlan(*plan).ok()) return 0;
  ReadAgain(*plan);
  const absl::Status valid = ebt::plan::ValidatePlan(Recording(), *plan);
  if (!valid.ok() && valid.message().empty()) abort();
  UpdateIt(*plan);
  return 0;
}
