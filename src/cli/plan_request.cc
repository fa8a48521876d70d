#include "src/cli/plan_request.h"

#include <array>
#include <cmath>
#include <map>

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

// Of --alpha, --beta, --gamma and --hot-sigma. Heats are sums over all touches of a recording:
// with larger weights they would lose what tells two blocks apart.
constexpr double kMostHeat = 1e6;

struct Shares {
  double hot = 0, warm = 0;  // cold blocks get what is left over
};

// "15/70/15": of the budget that hot, warm and cold blocks have, in per cent.
std::optional<Shares> ReadShares(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '/');
  if (parts.size() != 3) return std::nullopt;
  double sum = 0;
  std::array<double, 3> percent{};
  for (size_t i = 0; i < percent.size(); ++i) {
    // Of nan the comparison is false.
    if (!absl::SimpleAtod(parts[i], &percent[i]) || !(percent[i] >= 0)) return std::nullopt;
    sum += percent[i];
  }
  if (std::abs(sum - 100) > 1e-9) return std::nullopt;
  return Shares{percent[0] / 100, percent[1] / 100};
}

// Why `pin` is not SITE=TIER, whatever the recording holds; "" where it is.
std::string WhyNoPin(const std::string& pin) {
  const size_t equals = pin.rfind('=');
  if (equals == pin.npos || equals == 0) return fmt::format("\"{}\" is not SITE=TIER", pin);
  const std::string tier = pin.substr(equals + 1);
  if (tier == "hot" || tier == "warm" || tier == "cold" || tier == "none") return "";
  return fmt::format("\"{}\": \"{}\" is none of the tiers hot, warm, cold, nor none", pin, tier);
}

// The edits of one command line. Two of one site that differ are refused: which one was meant is
// not known.
class EditReader {
 public:
  explicit EditReader(const std::vector<plan::Site>& sites) : sites_(sites) {}

  absl::Status Pin(const std::string& pin, plan::PlanOptions* options) {
    const size_t equals = pin.rfind('=');
    const absl::Status alone =
        Alone("--pin " + pin, pin.substr(0, equals), "pin" + pin.substr(equals));
    return alone.ok() ? Named("--pin " + pin, plan::AddPin(sites_, pin, options)) : alone;
  }

  absl::Status Exclude(const std::string& site, plan::PlanOptions* options) {
    const absl::Status alone = Alone("--exclude " + site, site, "exclude");
    return alone.ok() ? Named("--exclude " + site, plan::AddExclusion(sites_, site, options))
                      : alone;
  }

 private:
  struct Edit {
    std::string words, what;
  };

  static absl::Status Named(const std::string& words, const absl::Status& status) {
    if (status.ok()) return status;
    return absl::InvalidArgumentError(fmt::format("{}: {}", words, Message(status)));
  }

  // An error where another edit of that site asks for something else.
  absl::Status Alone(const std::string& words, const std::string& name, const std::string& what) {
    const auto site = plan::FindSite(sites_, name);
    if (!site.ok()) return Named(words, site.status());
    const auto [first, added] = edits_.try_emplace(site->id, Edit{words, what});
    if (added || first->second.what == what) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("{} and {} are of one site, {:#x}: give one",
                                                  first->second.words, words, site->id));
  }

  const std::vector<plan::Site>& sites_;
  std::map<uint64_t, Edit> edits_;  // by site
};

absl::Status AddEdits(const PlanWords& words, const std::vector<plan::Site>& sites,
                      plan::PlanOptions* options) {
  EditReader reader(sites);
  for (const std::string& pin : words.pins) {
    if (absl::Status status = reader.Pin(pin, options); !status.ok()) return status;
  }
  for (const std::string& site : words.exclusions) {
    if (absl::Status status = reader.Exclude(site, options); !status.ok()) return status;
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
      ->take_all()
      ->check([](const std::string& pin) { return WhyNoPin(pin); });
  plan.add_option("--exclude", words.exclusions, "Leave a site's blocks to the driver")
      ->type_name("SITE")
      ->expected(1)
      ->take_all();
}

void AddHotnessOptions(CLI::App& plan, PlanWords& words) {
  const auto add = [&](const char* name, std::optional<double>& number, const char* help,
                       double least = 0) {
    plan.add_option(name, number, help)->type_name("X")->check(NumberWithin(least, kMostHeat));
  };
  add("--alpha", words.alpha, "Heat of a touch in forward (default: 1)");
  add("--beta", words.beta, "Heat of a touch behind it (default: 2)");
  add("--gamma", words.gamma,
      "Heat of being touched together with hot blocks (default: 1; of several devices 4)");
  add("--hot-sigma", words.sigma,
      "Standard deviations above the mean heat from which a block is hot (default: 0.5)",
      -kMostHeat);
  plan.add_option("--shares", words.shares,
                  "Of the budget for hot, warm and cold blocks, in per cent (default: 15 for hot "
                  "ones, and the budget decides)")
      ->type_name("H/W/C")
      ->check([](const std::string& text) {
        return ReadShares(text) ? ""
                                : fmt::format(
                                      "\"{}\" is not HOT/WARM/COLD, three numbers that are "
                                      "100 in all",
                                      text);
      });
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
    const std::optional<Shares> shares = ReadShares(words.shares);
    options.hot_share = shares->hot;
    options.warm_share = shares->warm;
  }
  if (absl::Status status = AddEdits(words, sites, &options); !status.ok()) return status;
  if (request.old) plan::CountKept(*request.old, options, &request.update);
  const auto device = ChooseDevice(words.device, profile, &request.device_note);
  if (!device.ok()) return device.status();
  options.device = *device;
  return request;
}

}  // namespace ebt::cli
