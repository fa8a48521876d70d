// `ebbtide plan`: a profile becomes a plan.
#include "src/plan/plan.h"

#include <cstdio>
#include <filesystem>

#include "absl/strings/strip.h"
#include "src/base/log.h"
#include "src/base/units.h"
#include "src/cli/options.h"
#include "src/cli/progress.h"
#include "src/plan/plan_file.h"
#include "src/plan/planner.h"
#include "src/plan/validator.h"
#include "src/profile/reader.h"
#include "src/report/plan_table.h"

namespace ebt::cli {
namespace {

struct PlanCommandOptions {
  std::string profile;
  std::string budget;
  std::string output;
  bool json = false;
};

std::string DefaultOutput(const std::string& profile) {
  return std::string(absl::StripSuffix(profile, ".ebp")) + ".plan.json";
}

int Fail(const absl::Status& status) {
  Log(LogLevel::kError, "{}", std::string(status.message()));
  return kOwnFailure;
}

int MakeAndWrite(const PlanCommandOptions& options) {
  Progress progress("reading " + options.profile);
  const absl::StatusOr<profile::Profile> profile = profile::ReadProfile(options.profile);
  if (!profile.ok()) return Fail(profile.status());
  // Part of the one line that comes at the end, whichever that is.
  const std::string cut =
      profile->truncated ? fmt::format(" ({} ends early: the process was killed, or the file cut)",
                                       options.profile)
                         : "";

  plan::PlanOptions plan_options;
  plan_options.source = options.profile;
  if (!options.budget.empty()) plan_options.budget = *ParseSize(options.budget);
  progress.Show("planning");
  const absl::StatusOr<plan::PlanResult> result = plan::MakePlan(*profile, plan_options);
  if (!result.ok()) {
    return Fail(absl::InvalidArgumentError(
        fmt::format("{}: {}{}", options.profile, Message(result.status()), cut)));
  }
  const bool feasible = result->summary.feasible;
  if (feasible) {
    progress.Show("checking");
    if (absl::Status status = plan::ValidatePlan(*profile, result->plan); !status.ok()) {
      return Fail(absl::InternalError(
          fmt::format("the plan broke a rule and was not written: {}; please report it with {}",
                      std::string(status.message()), options.profile)));
    }
  }
  progress.Done();

  if (options.json) {
    fmt::print("{}\n", plan::SummaryJson(result->summary));
  } else {
    fmt::print("{}", report::PlanTable(*result));
  }
  std::fflush(stdout);
  if (!feasible) {
    return Fail(absl::FailedPreconditionError(
        fmt::format("no plan was written: {}{}", result->summary.infeasible_reason, cut)));
  }
  const std::string output =
      options.output.empty() ? DefaultOutput(options.profile) : options.output;
  std::error_code error;
  if (std::filesystem::equivalent(output, options.profile, error)) {
    return Fail(absl::InvalidArgumentError(
        fmt::format("{} is the profile: name another file for the plan", output)));
  }
  if (absl::Status status = plan::WritePlan(result->plan, output); !status.ok()) {
    return Fail(status);
  }
  const char* const verify = result->plan.slabs.empty() ? "" : "ebbtide verify --plan ";
  Log(LogLevel::kWarning, "wrote {}{}; next: {}{}ebbtide run --plan {} -- CMD...", output, cut,
      verify, *verify == '\0' ? "" : output + " -- CMD..., then ", output);
  return 0;
}

}  // namespace

void AddPlan(Invocation& invocation) {
  auto options = std::make_shared<PlanCommandOptions>();
  CLI::App* plan =
      invocation.app.add_subcommand("plan", "Turn a profile into a plan, and say what it promises");
  SetSynopsis(plan, "PROFILE [--budget SIZE] [-o FILE] [--json]");
  plan->add_option("PROFILE", options->profile, "Profile written by `ebbtide record`")->required();
  AddSizeOption(plan, "--budget", &options->budget,
                "Device memory that the process may use, everything included (default: no limit)");
  plan->add_option("-o,--output", options->output,
                   "Plan to write (default: PROFILE with .plan.json for .ebp)")
      ->type_name("FILE");
  plan->add_flag("--json", options->json, "Print the summary as one JSON object");
  plan->footer("Exit code: 0; 125 when the profile cannot be read or the budget cannot be met.");
  plan->callback([&invocation, options] {
    if (invocation.has_command) throw CLI::ExtrasError({"--"});
    invocation.action = [options] { return MakeAndWrite(*options); };
  });
}

}  // namespace ebt::cli
