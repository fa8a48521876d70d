// `ebbtide run`: CMD keeps to a plan.
#include <filesystem>
#include <fstream>
#include <string_view>

#include "src/base/log.h"
#include "src/base/units.h"
#include "src/cli/options.h"
#include "src/cli/program.h"
#include "src/plan/usable_plan.h"

namespace ebt::cli {
namespace {

struct RunOptions {
  std::string plan;
  std::string budget;
  std::string host_budget;
  std::string cold;
  std::string log;
  bool strict = false;
  std::string torch_backend;
};

std::string PlanPath(const RunOptions& options) {
  if (!options.plan.empty()) return options.plan;
  const char* set = getenv("EBBTIDE_PLAN");
  return set != nullptr ? set : "";
}

bool Strict(const RunOptions& options, const Environment& environment) {
  if (options.strict) return true;
  const auto set = environment.find("EBBTIDE_STRICT");
  if (set == environment.end()) return false;
  const std::string entry = "EBBTIDE_STRICT=" + set->second;
  return ParseConfig({entry}).strict;
}

// What speaks against this plan before CMD has even started; else whether it serves anything.
absl::StatusOr<bool> Preflight(const std::string& path, uint64_t budget, bool cold_on_device,
                               const std::vector<std::string>& command) {
  // Each rank has a plan of its own; the library reads it there.
  if (path.find('{') != std::string::npos) return true;
  const auto plan =
      plan::ReadUsablePlan(path, {IdentityOfCommand(command), budget, cold_on_device});
  if (!plan.ok()) return plan.status();
  return !plan->prologue.empty() || !plan->step.empty();
}

// Who serves nothing has no use for an allocator that shows each tensor.
std::string TorchBackendFor(const RunOptions& options, const Environment& environment,
                            bool serves) {
  const bool chosen =
      !options.torch_backend.empty() || environment.count("EBBTIDE_TORCH_BACKEND") > 0;
  return serves || chosen ? options.torch_backend : "keep";
}

uint64_t Budget(const RunOptions& options, const Environment& environment) {
  const auto set = environment.find("EBBTIDE_BUDGET");
  const std::string text = !options.budget.empty()    ? options.budget
                           : set != environment.end() ? set->second
                                                      : "";
  return ParseSize(text).value_or(0);
}

// The user named this very file, and an old run log may go; anything else that is there stays.
// With a placeholder in it nobody knows yet which one will be written.
void RemoveOldLog(const std::string& path) {
  constexpr std::string_view kStart = "{\"run\":";
  std::error_code error;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error))) return;
  std::string start(kStart.size(), '\0');
  if (std::ifstream(path).read(start.data(), std::streamsize(start.size())) && start == kStart)
    std::filesystem::remove(path, error);
}

bool ColdStaysOnDevice(const RunOptions& options, const Environment& environment) {
  const auto set = environment.find("EBBTIDE_COLD");
  return (!options.cold.empty()      ? options.cold
          : set != environment.end() ? set->second
                                     : "") == "off";
}

int Run(const RunOptions& options, const std::vector<std::string>& command) {
  std::string path = PlanPath(options);
  if (path.empty()) {
    Log(LogLevel::kError,
        "run needs a plan for now: ebbtide record, then ebbtide plan, then run --plan FILE");
    return kBadCommandLine;
  }
  path = AbsolutePath(path);
  std::vector<std::string> complaints;
  const Environment native = InheritedEnvironment(&complaints);
  const bool strict = Strict(options, native);
  absl::Status ready;
  if (strict && !complaints.empty()) ready = absl::InvalidArgumentError(complaints.front());
  if (ready.ok()) ready = RequireDriver(command);
  absl::StatusOr<bool> serves = true;
  if (ready.ok())
    serves = Preflight(path, Budget(options, native), ColdStaysOnDevice(options, native), command);
  if (ready.ok()) ready = serves.status();
  absl::StatusOr<Environment> environment =
      EnvironmentUnderEbbtide(TorchBackendFor(options, native, serves.value_or(true)));
  if (ready.ok()) ready = environment.status();
  if (!ready.ok() && strict) {
    Log(LogLevel::kError, "{}", std::string(ready.message()));
    return kOwnFailure;
  }
  if (!ready.ok()) {
    Log(LogLevel::kWarning, "{}; {} runs without Ebbtide", std::string(ready.message()),
        command[0]);
    return RunCommand(command, native);
  }
  (*environment)["EBBTIDE_MODE"] = "replay";
  (*environment)["EBBTIDE_PLAN"] = path;
  if (!options.budget.empty()) (*environment)["EBBTIDE_BUDGET"] = options.budget;
  if (!options.host_budget.empty()) (*environment)["EBBTIDE_HOST_BUDGET"] = options.host_budget;
  if (!options.cold.empty()) (*environment)["EBBTIDE_COLD"] = options.cold;
  if (!options.log.empty()) {
    (*environment)["EBBTIDE_RUN_LOG"] = AbsolutePath(options.log);
    RemoveOldLog(AbsolutePath(options.log));
  }
  if (strict) (*environment)["EBBTIDE_STRICT"] = "1";
  return RunCommand(command, *environment);
}

}  // namespace

void AddRun(Invocation& invocation) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = invocation.app.add_subcommand("run", "Run CMD and keep its memory to a plan");
  SetSynopsis(run, "[--plan FILE] [--budget SIZE] [--log FILE] [--strict] -- CMD...");
  run->add_option("--plan", options->plan,
                  "Plan to keep to, made by `ebbtide plan`; {rank} is filled in")
      ->type_name("FILE");
  AddSizeOption(run, "--budget", &options->budget,
                "Device memory that CMD may use, everything included (default: the plan's)");
  AddSizeOption(run, "--host-budget", &options->host_budget,
                "Host memory that cold blocks may use (default: half of what is free)");
  run->add_option("--cold", options->cold,
                  "How cold blocks leave the device: auto (swap what `ebbtide verify` has cleared, "
                  "managed for the rest), swap (without that check), managed, or off (they stay)")
      ->type_name("HOW")
      ->check(CLI::IsMember({"auto", "swap", "managed", "off"}));
  run->add_option("--log", options->log,
                  "Log of what is moved and waited for, for `ebbtide report`; {rank} and {pid} are "
                  "filled in")
      ->type_name("FILE");
  run->add_flag("--strict", options->strict,
                "Fail with 125 where CMD would otherwise run without Ebbtide");
  AddTorchBackendOption(run, &options->torch_backend);
  run->footer(
      "Exit code: CMD's own. What does not fit is said in one line, and CMD then runs as\n"
      "it would without Ebbtide.");
  run->callback([&invocation, run, options] {
    RequireCommand(invocation, *run);
    invocation.action = [&invocation, options] { return Run(*options, invocation.command); };
  });
}

}  // namespace ebt::cli
