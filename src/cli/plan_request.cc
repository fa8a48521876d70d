#include "src/cli/plan_request.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "src/base/log.h"
#include "src/base/units.h"
#include "src/cli/device_option.h"
#include "src/cli/options.h"
#include "src/plan/hotness.h"
#include "src/plan/plan_file.h"
#include "src/plan/validator.h"

namespace ebt::cli {
namespace {

// "15/70/15": of the budget that hot, warm and cold blocks have, in per cent. The cold ones get
// what is left over, so theirs may be left out.
absl::Status ReadShares(const std::string& text, plan::PlanOptions* options) {
  const std::vector<std::string> parts = absl::StrSplit(text, '/');
  double sum = 0;
  std::vector<double> shares;
  for (const std::string& part : parts) {
    double percent = 0;
    const bool number = absl::SimpleAtod(part, &percent) && std::isfinite(percent);
    if (!number || percent < 0) break;
    sum += percent;
    shares.push_back(percent / 100);
  }
  const bool all = shares.size() == parts.size() && (parts.size() == 2 || parts.size() == 3);
  if (!all || sum > 100 + 1e-9 || (parts.size() == 3 && sum < 100 - 1e-9)) {
    return absl::InvalidArgumentError(
        fmt::format("--shares {}: not HOT/WARM/COLD, three numbers that are 100 in all", text));
  }
  options->hot_share = shares[0];
  options->warm_share = shares[1];
  return absl::OkStatus();
}

absl::Status AddEdits(const PlanWords& words, const std::vector<plan::Site>& sites,
                      plan::PlanOptions* options) {
  for (const std::string& pin : words.pins) {
    if (absl::Status status = plan::AddPin(sites, pin, options); !status.ok()) {
      return absl::InvalidArgumentError(fmt::format("--pin {}: {}", pin, Message(status)));
    }
  }
  for (const std::string& site : words.exclusions) {
    if (absl::Status status = plan::AddExclusion(sites, site, options); !status.ok()) {
      return absl::InvalidArgumentError(fmt::format("--exclude {}: {}", site, Message(status)));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadOld(const PlanWords& words, const std::vector<plan::Site>& sites,
                     PlanRequest* request) {
  if (words.update.empty()) return absl::OkStatus();
  absl::StatusOr<plan::Plan> old = plan::ReadPlan(words.update);
  if (!old.ok()) return old.status();
  if (const absl::Status sense = plan::CheckPlan(*old); !sense.ok()) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", words.update, Message(sense)));
  }
  request->update = plan::TakeOver(*old, sites, &request->options);
  request->old = *std::move(old);
  return absl::OkStatus();
}

void AddEditOptions(CLI::App& plan, PlanWords& words) {
  plan.add_option("--update", words.update,
                  "Take over the budget, weights, pins, exclusions and clearances of this plan "
                  "where they are not given anew; it is replaced unless -o names another")
      ->type_name("PLAN");
  plan.add_option("--pin", words.pins,
                  "Where a site's blocks lie: hot, warm or cold; none lifts an older edit")
      ->type_name("SITE=TIER")
      ->expected(1)
      ->take_all();
  plan.add_option("--exclude", words.exclusions, "Leave a site's blocks to the driver")
      ->type_name("SITE")
      ->expected(1)
      ->take_all();
}

void AddHotnessOptions(CLI::App& plan, PlanWords& words) {
  const auto add = [&](const char* name, std::optional<double>& number, const char* help) {
    plan.add_option(name, number, help)->type_name("X")->check([](const std::string& text) {
      double value = 0;
      const bool good = absl::SimpleAtod(text, &value) && std::isfinite(value);
      return good ? "" : fmt::format("{} is not a number", text);
    });
  };
  add("--alpha", words.alpha, "Heat of a touch in forward (default: 1)");
  add("--beta", words.beta, "Heat of a touch behind it (default: 2)");
  add("--gamma", words.gamma,
      "Heat of being touched together with hot blocks (default: 1; of several devices 4)");
  add("--hot-sigma", words.sigma,
      "Standard deviations above the mean heat from which a block is hot (default: 0.5)");
  plan.add_option("--shares", words.shares,
                  "Of the budget for hot, warm and cold blocks, in per cent (default: 15 for hot "
                  "ones, and the budget decides)")
      ->type_name("H/W/C");
}

}  // namespace

void AddPlanWords(CLI::App& plan, PlanWords& words) {
  AddSizeOption(&plan, "--budget", &words.budget,
                "Device memory that the process may use, everything included (default: no limit)");
  AddDeviceOption(&plan, &words.device);
  AddEditOptions(plan, words);
  AddHotnessOptions(plan, words);
}

absl::StatusOr<PlanRequest> ReadPlanRequest(const PlanWords& words, const profile::Profile& profile,
                                            bool several_ranks) {
  PlanRequest request;
  plan::PlanOptions& options = request.options;
  options.weights = plan::DefaultWeights(profile, several_ranks);
  const std::vector<plan::Site> sites = plan::RecordedSites(profile);
  if (absl::Status status = ReadOld(words, sites, &request); !status.ok()) return status;
  if (!words.budget.empty()) options.budget = *ParseSize(words.budget);
  options.weights.forward = words.alpha.value_or(options.weights.forward);
  options.weights.backward = words.beta.value_or(options.weights.backward);
  options.weights.coupling = words.gamma.value_or(options.weights.coupling);
  options.hot_threshold = words.sigma.value_or(options.hot_threshold);
  if (!words.shares.empty()) {
    if (absl::Status status = ReadShares(words.shares, &options); !status.ok()) return status;
  }
  if (absl::Status status = AddEdits(words, sites, &options); !status.ok()) return status;
  if (request.old) plan::CountKept(*request.old, options, &request.update);
  const auto device = ChooseDevice(words.device, profile, &request.device_note);
  if (!device.ok()) return device.status();
  options.device = *device;
  return request;
}

}  // namespace ebt::cli
