#include "src/cli/options.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "src/base/log.h"
#include "src/base/units.h"
#include "src/cli/gpu_survey.h"
#include "src/cli/program.h"

namespace ebt::cli {
namespace {

class SynopsisFormatter : public CLI::Formatter {
 public:
  explicit SynopsisFormatter(std::string synopsis) : synopsis_(std::move(synopsis)) {}
  std::string make_usage(const CLI::App* app, std::string) const override {
    return fmt::format("Usage: ebbtide {} {}\n", app->get_name(), synopsis_);
  }

 private:
  std::string synopsis_;
};

}  // namespace

void SetSynopsis(CLI::App* command, const std::string& synopsis) {
  command->formatter(std::make_shared<SynopsisFormatter>(synopsis));
}

CLI::Option* AddSizeOption(CLI::App* command, const std::string& name, std::string* text,
                           const std::string& help) {
  return command->add_option(name, *text, help)
      ->type_name("SIZE")
      ->check(
          [](const std::string& value) {
            const absl::StatusOr<uint64_t> size = ParseSize(value);
            return size.ok() ? std::string() : std::string(size.status().message());
          },
          "", "");
}

ValueCheck NumberWithin(double least, double most) {
  return [least, most](const std::string& text) {
    double value = 0;
    // Of nan both comparisons are false.
    const bool good = absl::SimpleAtod(text, &value) && value >= least && value <= most;
    return good ? ""
                : fmt::format("\"{}\" is not a number from {:.0f} to {:.0f}", text, least, most);
  };
}

ValueCheck WholeNumberFrom(uint64_t least) {
  return [least](const std::string& text) {
    uint64_t value = 0;
    const bool good = absl::SimpleAtoi(text, &value) && value >= least;
    return good ? "" : fmt::format("\"{}\" is not a whole number from {}", text, least);
  };
}

void RefuseEmptyValues(CLI::App* command) {
  for (CLI::Option* option : command->get_options()) {
    if (option->get_positional() || option->get_items_expected_max() == 0) continue;
    option->check(
        [](const std::string& value) {
          return value.empty() ? "the value is empty; give one, or leave the option out"
                               : std::string();
        },
        "", "");
  }
}

absl::Status CheckOutputFile(const std::string& path) {
  std::error_code error;
  const std::filesystem::path output = path;
  if (std::filesystem::is_directory(output, error) || !output.has_filename()) {
    return absl::InvalidArgumentError(fmt::format("{} is a folder: name a file in it", path));
  }
  if (std::filesystem::exists(output, error)) return absl::OkStatus();
  const std::filesystem::path folder = output.has_parent_path() ? output.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, error)) {
    return absl::NotFoundError(
        fmt::format("{} cannot be created: there is no folder {}", path, folder.string()));
  }
  if (access(folder.c_str(), W_OK) != 0) {
    return absl::PermissionDeniedError(
        fmt::format("{} cannot be created: {}", path, strerror(errno)));
  }
  return absl::OkStatus();
}

void AddTorchBackendOption(CLI::App* command, std::string* backend) {
  command
      ->add_option("--torch-backend", *backend,
                   "async: ask PyTorch and JAX for the stream-ordered allocator unless you chose "
                   "one (default); native or keep: leave them alone")
      ->type_name("NAME")
      ->check(CLI::IsMember({"async", "native", "keep"}));
}

void RequireCommand(const Invocation& invocation, const CLI::App& command) {
  if (invocation.command.empty()) {
    throw CLI::RequiredError(
        fmt::format("ebbtide {0}: a command behind \"--\" (ebbtide {0} -- python train.py)",
                    command.get_name()));
  }
}

absl::Status RequireDriver(const std::vector<std::string>& command) {
  const std::string missing = WhyNoDriver();
  if (missing.empty()) return absl::OkStatus();
  const std::string problem = fmt::format(
      "{}; install NVIDIA's driver, or mount it into the container (`ebbtide doctor` tells more)",
      missing);
  if (!IdentityOfCommand(command).empty()) return absl::UnavailableError(problem);
  Log(LogLevel::kWarning, "{}; what {} starts on this machine runs without Ebbtide", problem,
      command[0]);
  return absl::OkStatus();
}

absl::StatusOr<Environment> PreloadedEnvironment() {
  std::vector<std::string> complaints;
  Environment environment = InheritedEnvironment(&complaints);
  for (const std::string& complaint : complaints) Log(LogLevel::kWarning, "{}", complaint);
  const absl::StatusOr<std::string> library = FindLibrary();
  if (!library.ok()) return library.status();
  if (absl::Status status = Preload(*library, &environment); !status.ok()) return status;
  return environment;
}

absl::StatusOr<Environment> EnvironmentUnderEbbtide(const std::string& torch_backend) {
  absl::StatusOr<Environment> preloaded = PreloadedEnvironment();
  if (!preloaded.ok()) return preloaded.status();
  Environment environment = *std::move(preloaded);
  if (!torch_backend.empty()) environment["EBBTIDE_TORCH_BACKEND"] = torch_backend;
  const auto chosen = environment.find("EBBTIDE_TORCH_BACKEND");
  const std::string entry =
      "EBBTIDE_TORCH_BACKEND=" + (chosen == environment.end() ? "" : chosen->second);
  ChooseFrameworkAllocators(ParseConfig({entry}).torch_backend, &environment);
  return environment;
}

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.string();
}

}  // namespace ebt::cli
