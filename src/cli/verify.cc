// `ebbtide verify`: which cold sites are reached only through pointers that launches and copies
// name, so that their blocks may leave their addresses between two uses.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "src/base/log.h"
#include "src/base/units.h"
#include "src/cli/bisect.h"
#include "src/cli/options.h"
#include "src/cli/program.h"
#include "src/cli/progress.h"
#include "src/cli/trial_run.h"
#include "src/plan/clearance.h"
#include "src/plan/plan_file.h"
#include "src/plan/usable_plan.h"

namespace ebt::cli {
namespace {

struct VerifyOptions {
  std::string plan;
  int steps = 3;
  int timeout = 600;
  std::string torch_backend;
};

int Fail(const absl::Status& status, const std::string& stderr_tail) {
  if (!stderr_tail.empty()) {
    Log(LogLevel::kError, "the last lines of CMD's stderr:");
    fmt::print(stderr, "{}{}", stderr_tail, stderr_tail.back() == '\n' ? "" : "\n");
  }
  Log(LogLevel::kError, "{}; nothing was cleared", Message(status));
  return kOwnFailure;
}

// As one could type it.
std::string CommandLine(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) {
    const bool plain =
        !word.empty() && word.find_first_not_of(
                             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "-_=+./,:@%^") == std::string::npos;
    std::string quoted = "'";
    for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += (line.empty() ? "" : " ") + (plain ? word : quoted + "'");
  }
  return line;
}

std::string LabelOf(const plan::Plan& plan, uint64_t site) {
  for (const plan::Site& known : plan.sites) {
    if (known.id == site && !known.label.empty()) return known.label;
  }
  return fmt::format("site {:#x}", site);
}

std::string ReasonOf(const Refusal& refusal, const std::string& program) {
  const TrialFault& fault = refusal.fault;
  if (refusal.untouched) return "no launch or copy of this run named it";
  if (fault.kind == "captured")
    return fmt::format("{} keeps its address for later use", fault.launch);
  if (fault.kind == "exit") return fmt::format("{} ends with {}", program, fault.error);
  return fmt::format("{} reaches it without naming it ({})",
                     fault.launch.empty() ? "something" : fault.launch, fault.error);
}

absl::StatusOr<TrialJob> PrepareJob(const VerifyOptions& options, const std::string& path,
                                    const std::vector<std::string>& command) {
  absl::StatusOr<Environment> environment = EnvironmentUnderEbbtide(options.torch_backend);
  if (!environment.ok()) return environment.status();
  if (absl::Status driver = RequireDriver(command); !driver.ok()) return driver;
  (*environment)["EBBTIDE_MODE"] = "replay";
  (*environment)["EBBTIDE_PLAN"] = path;
  // What is on trial is decided here, whatever the user's runs do.
  environment->erase("EBBTIDE_COLD");
  environment->erase("EBBTIDE_RUN_LOG");
  return TrialJob{command, *std::move(environment), static_cast<uint64_t>(options.steps),
                  std::chrono::seconds(options.timeout)};
}

void PrintFindings(const plan::Plan& plan, const Findings& findings, const TrialJob& job,
                   const TrialContext& context) {
  uint64_t bytes = 0;
  for (uint64_t site : findings.cleared) bytes += plan::SwappableBytes(plan, site);
  fmt::print("cleared  {} of {} sites, {}\n", findings.cleared.size(),
             findings.cleared.size() + findings.refused.size(), FormatSize(bytes));
  for (uint64_t site : findings.cleared)
    fmt::print("  {:>11}  {}\n", FormatSize(plan::SwappableBytes(plan, site)), LabelOf(plan, site));
  if (!findings.refused.empty()) fmt::print("refused\n");
  for (const Refusal& refusal : findings.refused) {
    fmt::print("  {:>11}  {}\n               {}\n",
               FormatSize(plan::SwappableBytes(plan, refusal.site)), LabelOf(plan, refusal.site),
               ReasonOf(refusal, job.command[0]));
  }
  if (findings.cleared.empty()) return;
  fmt::print(
      "Cleared is not proved. {} step{} of this command with this input, on {}, reached these\n"
      "blocks only through pointers that launches and copies named. A step that does something\n"
      "else (evaluation, a checkpoint, another input) was not seen, nor was an access from the "
      "host.\n",
      findings.steps, findings.steps == 1 ? "" : "s", context.gpu);
}

// Better now than after the trial: a plan is replaced by a new file in its folder.
absl::Status RequireWritable(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (access(folder.c_str(), W_OK) == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      folder, ": cannot be written to (", strerror(errno),
      "), and the outcome goes into the plan there: copy the plan to a folder of yours"));
}

// Into the file as it is by now. before: the plan whose sites were on trial.
absl::Status WriteFindings(const std::string& path, const plan::Plan& before,
                           const Findings& findings, const TrialJob& job,
                           const TrialContext& context) {
  absl::StatusOr<plan::Plan> plan = plan::ReadPlan(path);
  if (!plan.ok()) return plan.status();
  if (plan->program != before.program ||
      plan::SwappableSites(*plan) != plan::SwappableSites(before))
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": another plan lies there by now; it was left alone: verify again"));
  plan::Clearance clearance;
  clearance.sites = findings.cleared;
  clearance.command = CommandLine(job.command);
  clearance.gpu = context.gpu;
  clearance.driver_version = context.driver_version;
  clearance.ebbtide = EBBTIDE_VERSION;
  clearance.steps = static_cast<uint32_t>(findings.steps);
  std::vector<uint64_t> refused;
  for (const Refusal& refusal : findings.refused) {
    if (!refusal.untouched) refused.push_back(refusal.site);
  }
  plan::AddClearance(std::move(clearance), refused, &*plan);
  return plan::WritePlan(*plan, path);
}

int Verify(const VerifyOptions& options, const std::vector<std::string>& command) {
  const std::string path = AbsolutePath(options.plan);
  if (path.find('{') != std::string::npos) {
    Log(LogLevel::kError, "{}: verify looks at one plan; name the file of one rank", options.plan);
    return kBadCommandLine;
  }
  const absl::StatusOr<plan::Plan> plan =
      plan::ReadUsablePlan(path, {IdentityOfCommand(command), 0});
  if (!plan.ok()) return Fail(plan.status(), "");
  const std::vector<uint64_t> sites = plan::SwappableSites(*plan);
  if (sites.empty()) {
    fmt::print("nothing to verify: no cold block of {} has a slab to be swapped in\n",
               options.plan);
    return 0;
  }
  if (absl::Status writable = RequireWritable(path); !writable.ok()) return Fail(writable, "");
  const absl::StatusOr<TrialJob> job = PrepareJob(options, path, command);
  if (!job.ok()) return Fail(job.status(), "");
  const absl::StatusOr<TrialFolder> folder = TrialFolder::Make();
  if (!folder.ok()) return Fail(folder.status(), "");

  CatchInterrupts();
  TrialContext context;
  Progress progress("trial");
  int runs = 0;
  const absl::StatusOr<Findings> findings =
      FindHiddenAccesses(sites, [&](const std::vector<uint64_t>& on_trial) {
        progress.Show(
            fmt::format("run {}: {} of {} sites on trial", ++runs, on_trial.size(), sites.size()));
        return RunTrial(*job, *folder, on_trial, &context);
      });
  progress.Done();
  if (InterruptedBy() != 0) return 128 + InterruptedBy();
  if (!findings.ok()) return Fail(findings.status(), context.stderr_tail);

  PrintFindings(*plan, *findings, *job, context);
  std::fflush(stdout);
  if (absl::Status written = WriteFindings(path, *plan, *findings, *job, context); !written.ok()) {
    return Fail(written, "");
  }
  Log(LogLevel::kWarning, "wrote {}; next: ebbtide run --plan {} -- CMD...", options.plan,
      options.plan);
  return 0;
}

}  // namespace

void AddVerify(Invocation& invocation) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* verify = invocation.app.add_subcommand(
      "verify", "Run CMD with cold blocks unmapped, to find out which may be swapped");
  SetSynopsis(verify, "--plan FILE [--steps N] [--timeout SECONDS] -- CMD...");
  verify->add_option("--plan", options->plan, "Plan whose cold sites are looked at; written back")
      ->required()
      ->type_name("FILE");
  verify->add_option("--steps", options->steps, "Steps to watch in each run (default 3)")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  verify->add_option("--timeout", options->timeout, "Longest time of each run (default 600)")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 1'000'000));
  AddTorchBackendOption(verify, &options->torch_backend);
  verify->footer(
      "CMD is started once, more often if it fails, and is ended (SIGTERM) when it has been\n"
      "watched: let it write nothing that you need. Its output is not shown.\n"
      "Exit code: 0, whether or not sites were refused; 125 when CMD could not be watched.");
  verify->callback([&invocation, verify, options] {
    RequireCommand(invocation, *verify);
    invocation.action = [&invocation, options] { return Verify(*options, invocation.command); };
  });
}

}  // namespace ebt::cli
