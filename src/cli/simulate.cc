// `ebbtide simulate`: what other allocators, or a plan, would have taken for a recorded job.
#include "src/base/log.h"
#include "src/base/units.h"
#include "src/cli/options.h"
#include "src/plan/device.h"
#include "src/plan/matcher.h"
#include "src/plan/planner.h"
#include "src/plan/play.h"
#include "src/plan/usable_plan.h"
#include "src/profile/metadata.h"
#include "src/profile/reader.h"
#include "src/report/simulation.h"

namespace ebt::cli {
namespace {

constexpr const char* kEveryPolicy = "all";

struct SimulateOptions {
  std::string profile;
  std::string plan;
  std::string policy = kEveryPolicy;
  std::string budget;
  std::string device;
  std::string cold = "auto";
  uint64_t plan_steps = 0;
  uint64_t from_step = 0;
  bool json = false;
};

// What `ebbtide run` makes of each allocation.
plan::PlayedPlan PlayAsRun(const profile::Profile& profile, const plan::Plan& plan,
                           const plan::PlayOptions& options) {
  uint64_t site = 0;
  plan::Matcher matcher(plan, [&site] { return site; });
  const plan::SlotFinder find = [&](const profile::Block& block) {
    site = block.site;
    return matcher.Next(block.bytes, block.fingerprint);
  };
  return plan::PlayPlan(profile, plan, find, options);
}

absl::Status Named(const std::string& path, const absl::Status& status) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", path, Message(status)));
}

// The plan that --plan names, or the one of the first --plan-steps steps.
absl::StatusOr<plan::Plan> TakePlan(const profile::Profile& profile,
                                    const SimulateOptions& options) {
  if (options.plan_steps == 0) {
    return plan::ReadUsablePlan(options.plan, {.program = profile::Text(profile, "program")});
  }
  plan::PlanOptions how;
  if (!options.device.empty()) {
    const auto device = plan::FindDevice(options.device);
    if (!device.ok()) return device.status();
    how.device = device->speeds;
  }
  if (!options.budget.empty()) how.budget = *ParseSize(options.budget);
  absl::StatusOr<plan::PlanResult> result =
      plan::MakePlan(plan::FirstSteps(profile, options.plan_steps), how);
  if (!result.ok()) return Named(options.profile, result.status());
  if (!result->summary.feasible) {
    return Named(options.profile, absl::FailedPreconditionError(result->summary.infeasible_reason));
  }
  return std::move(result->plan);
}

absl::Status AddPlayedPlan(const profile::Profile& profile, const SimulateOptions& options,
                           report::Simulation* simulation) {
  const uint64_t from = options.plan_steps > 0 ? options.plan_steps : options.from_step;
  if (from > 0 && from >= simulation->steps) {
    return absl::InvalidArgumentError(
        fmt::format("{} has {} steps, counted from 0: there is no step {} to begin with",
                    options.profile, simulation->steps, from));
  }
  const absl::StatusOr<plan::Plan> plan = TakePlan(profile, options);
  if (!plan.ok()) return plan.status();
  plan::PlayOptions play;
  play.cold_on_device = options.cold == "off";
  if (from > 0) play.from_event = plan::StepBegin(profile, from);
  report::Simulation::Played played;
  played.source =
      options.plan_steps > 0 ? fmt::format("planned on the first {} steps", from) : options.plan;
  played.from_step = from;
  played.planned_peak_bytes = plan->planned_peak_bytes;
  played.native_step_ms = plan->native_step_ms;
  played.predicted_step_ms = plan->predicted_step_ms;
  played.figures = PlayAsRun(profile, *plan, play);
  played.fits = played.figures.peak_bytes <= simulation->capacity_bytes;
  simulation->plan = played;
  return absl::OkStatus();
}

int Failed(const absl::Status& status) {
  Log(LogLevel::kError, "{}", std::string(status.message()));
  return kOwnFailure;
}

int Simulate(const SimulateOptions& options) {
  const absl::StatusOr<profile::Profile> profile = profile::ReadProfile(options.profile);
  if (!profile.ok()) return Failed(profile.status());
  const uint64_t budget = options.budget.empty() ? 0 : *ParseSize(options.budget);
  report::Simulation simulation = report::DescribeRecording(*profile, options.profile, budget);
  if (!options.device.empty()) {
    const auto device = plan::FindDevice(options.device);
    if (!device.ok()) return Failed(device.status());
    report::SetDevice(*profile, *device, &simulation);
  }
  for (plan::Policy policy : plan::kPolicies) {
    if (options.policy != kEveryPolicy && options.policy != plan::PolicyName(policy)) continue;
    simulation.policies.push_back(
        plan::PlayBaseline(*profile, policy, {.capacity = simulation.capacity_bytes}));
  }
  if (!options.plan.empty() || options.plan_steps > 0) {
    const absl::Status played = AddPlayedPlan(*profile, options, &simulation);
    if (!played.ok()) return Failed(played);
  }
  fmt::print("{}", options.json ? report::SimulationJson(simulation) + "\n"
                                : report::SimulationTable(simulation));
  std::fflush(stdout);
  return 0;
}

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names = {kEveryPolicy};
  for (plan::Policy policy : plan::kPolicies) names.emplace_back(plan::PolicyName(policy));
  return names;
}

}  // namespace

void AddSimulate(Invocation& invocation) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* simulate = invocation.app.add_subcommand(
      "simulate", "Play a recording through other allocators, or through a plan");
  SetSynopsis(simulate,
              "PROFILE [--plan FILE | --plan-steps N] [--policy NAME] [--budget SIZE] [--device "
              "NAME] [--json]");
  simulate->add_option("PROFILE", options->profile, "Profile written by `ebbtide record`")
      ->required();
  CLI::Option* plan =
      simulate
          ->add_option("--plan", options->plan,
                       "Plan to keep to: of this recording, or of another run of the program")
          ->type_name("FILE");
  simulate
      ->add_option("--plan-steps", options->plan_steps,
                   "Plan the first N steps of the recording, and play the plan on the others")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->excludes(plan);
  simulate
      ->add_option("--cold", options->cold,
                   "auto: cold blocks of the plan are on the host (default); off: they stay on the "
                   "device")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "off"}));
  simulate
      ->add_option("--from-step", options->from_step,
                   "First step, counted from 0, that the plan's figures are about (default: 0, "
                   "and all before it)")
      ->type_name("N")
      ->needs(plan);
  simulate
      ->add_option("--policy", options->policy,
                   "native: PyTorch's caching allocator; expandable: the same with expandable "
                   "segments; pool: the driver's stream-ordered pool; managed: all in managed "
                   "memory; all (default)")
      ->type_name("NAME")
      ->check(CLI::IsMember(PolicyNames()));
  AddSizeOption(simulate, "--budget", &options->budget,
                "Device memory that the process may use (default: what the device has)");
  simulate
      ->add_option("--device", options->device,
                   "Device to run on: a name that is built in, or a file that `ebbtide doctor "
                   "--measure` wrote (default: the recorded one)")
      ->type_name("NAME");
  simulate->add_flag("--json", options->json, "Print one JSON object");
  simulate->footer(
      "What libraries allocate beside the framework counts in \"process\" alone. Equal input "
      "gives\n"
      "equal figures.\n"
      "Exit code: 0; 125 when the profile or the plan cannot be used.");
  simulate->callback([&invocation, options] {
    if (invocation.has_command) throw CLI::ExtrasError({"--"});
    invocation.action = [options] { return Simulate(*options); };
  });
}

}  // namespace ebt::cli
