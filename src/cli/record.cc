// `ebbtide record`: CMD runs as always, and leaves a profile.
#include "src/base/log.h"
#include "src/cli/gpu_survey.h"
#include "src/cli/options.h"
#include "src/cli/profiles.h"

namespace ebt::cli {
namespace {

struct RecordOptions {
  std::string output;
  int steps = 0;
  std::string torch_backend;
};

// What the user asked for, else what the environment says, else the default.
std::string ProfilePattern(const RecordOptions& options, const Environment& environment) {
  if (!options.output.empty()) return options.output;
  const auto set = environment.find("EBBTIDE_PROFILE");
  if (set != environment.end() && !set->second.empty()) return set->second;
  for (const EnvVar& var : EnvVars()) {
    if (std::string_view(var.name) == "EBBTIDE_PROFILE") return var.default_value;
  }
  return "ebbtide-{pid}.ebp";
}

// Shorter to read, and to type, where it lies below the present folder.
std::string RelativeToHere(const std::string& path) {
  std::error_code error;
  const std::string relative = std::filesystem::proximate(path, error).string();
  return error || relative.rfind("..", 0) == 0 ? path : relative;
}

// The user named this very file. With a placeholder in it nobody knows yet which one will be
// written, and what is there stays.
void RemoveOldProfile(const std::string& path) {
  std::error_code error;
  if (path.find('{') == std::string::npos && std::filesystem::is_regular_file(path, error))
    std::filesystem::remove(path, error);
}

int Record(const RecordOptions& options, const std::vector<std::string>& command) {
  absl::StatusOr<Environment> environment = EnvironmentUnderEbbtide(options.torch_backend);
  if (!environment.ok()) {
    Log(LogLevel::kError, "{}", std::string(environment.status().message()));
    return kOwnFailure;
  }
  const std::string pattern = AbsolutePath(ProfilePattern(options, *environment));
  const auto folder = std::filesystem::path(pattern).parent_path();
  if (std::error_code error; folder.string().find('{') == std::string::npos &&
                             !std::filesystem::is_directory(folder, error)) {
    Log(LogLevel::kError,
        "{}: there is no such folder for the profile; create it, or choose "
        "another with -o",
        folder.string());
    return kOwnFailure;
  }
  if (const absl::Status driver = RequireDriver(command); !driver.ok()) {
    Log(LogLevel::kWarning, "{}; {} runs without Ebbtide", Message(driver), command[0]);
    std::vector<std::string> complaints;  // said already
    return RunCommand(command, InheritedEnvironment(&complaints));
  }
  RemoveOldProfile(pattern);
  (*environment)["EBBTIDE_MODE"] = "record";
  (*environment)["EBBTIDE_PROFILE"] = pattern;
  if (options.steps > 0) (*environment)["EBBTIDE_STEPS"] = std::to_string(options.steps);

  // A coarse clock may date a file to shortly before it was opened.
  const auto since = std::filesystem::file_time_type::clock::now() - std::chrono::milliseconds(50);
  const int code = RunCommand(command, *environment);
  if (code == kNotFound || code == kNotExecutable) return code;

  std::vector<std::string> profiles = ProfilesWritten(pattern, since);
  for (std::string& path : profiles) path = RelativeToHere(path);
  if (profiles.empty() && WhyNoDriver().empty()) {
    Log(LogLevel::kWarning, "no profile was written: no process of {} used CUDA", command[0]);
  }
  DescribeProfiles(profiles);
  return code;
}

}  // namespace

void AddRecord(Invocation& invocation) {
  auto options = std::make_shared<RecordOptions>();
  CLI::App* record = invocation.app.add_subcommand(
      "record", "Run CMD as always and write a profile of its GPU memory");
  SetSynopsis(record, "[-o FILE] [--steps N] -- CMD...");
  record
      ->add_option("-o,--output", options->output,
                   "Profile to write; {rank}, {pid}, {host} and {program} are filled in "
                   "(default ebbtide-{program}-{pid}.ebp)")
      ->type_name("FILE");
  record
      ->add_option("--steps", options->steps,
                   "Stop recording after N steady steps; CMD runs on (default: to the end)")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  AddTorchBackendOption(record, &options->torch_backend);
  record->footer("Exit code: CMD's own. Next: ebbtide plan FILE --budget SIZE");
  record->callback([&invocation, record, options] {
    RequireCommand(invocation, *record);
    invocation.action = [&invocation, options] { return Record(*options, invocation.command); };
  });
}

}  // namespace ebt::cli
