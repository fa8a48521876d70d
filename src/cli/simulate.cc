// `ebbtide simulate`: what other allocators, or a plan, would have taken for a recorded job.
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "src/base/log.h"
#include "src/base/units.h"
#include "src/cli/options.h"
#include "src/cli/profiles.h"
#include "src/plan/device.h"
#include "src/plan/matcher.h"
#include "src/plan/planner.h"
#include "src/plan/usable_plan.h"
#include "src/profile/metadata.h"
#include "src/profile/reader.h"
#include "src/report/simulation.h"
#include "src/simulate/play.h"

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

// A plan of another job is played all the same, but its figures then mean little.
void WarnOfAnotherJob(const std::string& path, const plan::Matcher& matcher) {
  const uint64_t all = matcher.matched() + matcher.missed();
  if (matcher.matched() * 2 >= all) return;
  Log(LogLevel::kWarning,
      "{}: the plan knows {} of {} allocations: it was made from another job, or its arguments "
      "changed",
      path, matcher.matched(), all);
}

// What `ebbtide run` makes of each allocation. path: the plan's, "" where it has no file.
simulate::PlayedPlan PlayAsRun(const profile::Profile& profile, const plan::Plan& plan,
                               const std::string& path, const simulate::PlayOptions& options) {
  uint64_t site = 0;
  plan::Matcher matcher(plan, [&site] { return site; });
  const simulate::SlotFinder find = [&](const profile::Block& block) {
    site = block.site;
    return matcher.Next(block.bytes, block.fingerprint);
  };
  const simulate::PlayedPlan played = simulate::PlayPlan(profile, plan, find, options);
  if (!path.empty()) WarnOfAnotherJob(path, matcher);
  return played;
}

absl::Status InRecording(const std::string& path, const absl::Status& status) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", path, Message(status)));
}

// Of a plan in a version of the format that is not read, both the reader and who asked it say to
// plan again.
absl::Status AdviceOnce(const absl::Status& status) {
  absl::string_view message = status.message();
  if (!absl::StrContains(message, ": plan again; ")) return status;
  absl::ConsumeSuffix(&message, "; make the plan anew with `ebbtide plan`");
  return absl::Status(status.code(), message);
}

// The plan that --plan names, or the one of the first --plan-steps steps.
absl::StatusOr<plan::Plan> TakePlan(const profile::Profile& profile,
                                    const SimulateOptions& options) {
  if (options.plan_steps == 0) {
    absl::StatusOr<plan::Plan> plan =
        plan::ReadUsablePlan(options.plan, {.program = profile::Text(profile, "program")});
    if (!plan.ok()) return AdviceOnce(plan.status());
    return plan;
  }
  plan::PlanOptions how;
  if (!options.device.empty()) {
    const auto device = plan::FindDevice(options.device);
    if (!device.ok()) return device.status();
    how.device = device->speeds;
  }
  if (!options.budget.empty()) how.budget = *ParseSize(options.budget);
  absl::StatusOr<plan::PlanResult> result =
      plan::MakePlan(simulate::FirstSteps(profile, options.plan_steps), how);
  const std::string steps = fmt::format("--plan-steps {} of the {} steps of {}", options.plan_steps,
                                        simulate::CountSteps(profile), options.profile);
  if (!result.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}; or plan more of the steps", steps, Message(result.status())));
  }
  if (!result->summary.feasible) {
    return InRecording(steps, absl::FailedPreconditionError(result->summary.infeasible_reason));
  }
  return std::move(result->plan);
}

absl::Status AddPlayedPlan(const profile::Profile& profile, const SimulateOptions& options,
                           report::Simulation* simulation) {
  const uint64_t from = options.plan_steps > 0 ? options.plan_steps : options.from_step;
  if (options.plan_steps > 0 && from >= simulation->steps) {
    return absl::InvalidArgumentError(
        fmt::format("--plan-steps {}: {} has {} steps, and one at least must be left to play on",
                    from, options.profile, simulation->steps));
  }
  if (from > 0 && from >= simulation->steps) {
    return absl::InvalidArgumentError(
        fmt::format("{} has {} steps, counted from 0: there is no step {} to begin with",
                    options.profile, simulation->steps, from));
  }
  const absl::StatusOr<plan::Plan> plan = TakePlan(profile, options);
  if (!plan.ok()) return plan.status();
  simulate::PlayOptions play;
  play.cold_on_device = options.cold == "off";
  if (from > 0) play.from_event = simulate::StepBegin(profile, from);
  report::Simulation::Played played;
  played.source =
      options.plan_steps > 0 ? fmt::format("planned on the first {} steps", from) : options.plan;
  played.from_step = from;
  played.planned_peak_bytes = plan->planned_peak_bytes;
  played.native_step_ms = plan->native_step_ms;
  played.predicted_step_ms = plan->predicted_step_ms;
  played.figures = PlayAsRun(profile, *plan, options.plan, play);
  played.fits = played.figures.peak_bytes <= simulation->capacity_bytes;
  simulation->plan = played;
  return absl::OkStatus();
}

int Simulate(const SimulateOptions& options) {
  const absl::StatusOr<profile::Profile> profile = profile::ReadProfile(options.profile);
  if (!profile.ok()) return Fail(profile.status());
  const std::string cut = CutNote(*profile, options.profile);
  if (profile->events.empty()) {
    return Fail(absl::InvalidArgumentError(
        fmt::format("{} holds no events: record the program again{}", options.profile,
                    cut.empty() ? "" : " (" + cut + ")")));
  }
  if (!cut.empty()) Log(LogLevel::kWarning, "{}", cut);
  const uint64_t budget = options.budget.empty() ? 0 : *ParseSize(options.budget);
  report::Simulation simulation = report::DescribeRecording(*profile, options.profile, budget);
  if (!options.device.empty()) {
    const auto device = plan::FindDevice(options.device);
    if (!device.ok()) return Fail(device.status());
    report::SetDevice(*profile, *device, &simulation);
  }
  for (simulate::Policy policy : simulate::kPolicies) {
    if (options.policy != kEveryPolicy && options.policy != simulate::PolicyName(policy)) continue;
    simulation.policies.push_back(
        simulate::PlayBaseline(*profile, policy, {.capacity = simulation.capacity_bytes}));
  }
  if (!options.plan.empty() || options.plan_steps > 0) {
    const absl::Status played = AddPlayedPlan(*profile, options, &simulation);
    if (!played.ok()) return Fail(played);
  }
  fmt::print("{}", options.json ? report::SimulationJson(simulation) + "\n"
                                : report::SimulationTable(simulation));
  std::fflush(stdout);
  return 0;
}

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names = {kEveryPolicy};
  for (simulate::Policy policy : simulate::kPolicies)
    names.emplace_back(simulate::PolicyName(policy));
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
      ->check(WholeNumberFrom(1))
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
      ->check(WholeNumberFrom(0))
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
