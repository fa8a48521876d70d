// Options that several sub-commands share, and what they put into CMD's environment.
#ifndef EBBTIDE_SRC_CLI_OPTIONS_H_
#define EBBTIDE_SRC_CLI_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "src/cli/child.h"
#include "src/cli/command.h"

namespace ebt::cli {

// Makes the usage line of `command` read "Usage: ebbtide NAME `synopsis`": what stands behind
// "--" is none of the parser's business, so it would leave that out.
void SetSynopsis(CLI::App* command, const std::string& synopsis);

// A size such as 24GiB; anything else is a bad command line.
CLI::Option* AddSizeOption(CLI::App* command, const std::string& name, std::string* text,
                           const std::string& help);

// Checks for CLI::Option::check, whose text is why a value is refused, "" for a good one.
using ValueCheck = std::function<std::string(const std::string&)>;
// A number from `least` to `most`; "nan" is none.
ValueCheck NumberWithin(double least, double most);
// A whole number that is `least` or more.
ValueCheck WholeNumberFrom(uint64_t least);

// An empty value of any of the command's options is a bad command line: the code takes empty text
// for "not given", and what a script's unset variable meant is not known.
void RefuseEmptyValues(CLI::App* command);

// An error where `path` cannot be written for what is on disk by now; called before work begins
// whose result would be lost.
absl::Status CheckOutputFile(const std::string& path);

// --torch-backend, into *backend.
void AddTorchBackendOption(CLI::App* command, std::string* backend);

// Refuses a missing CMD as a bad command line.
void RequireCommand(const Invocation& invocation, const CLI::App& command);

// An error where `command` would find no driver. A launcher may start its programs on another
// machine: that is no error, but one line is said.
absl::Status RequireDriver(const std::vector<std::string>& command);

// This process's environment with the library in LD_PRELOAD; what is wrong with the user's own
// variables of ours is said.
absl::StatusOr<Environment> PreloadedEnvironment();

// The environment for CMD under Ebbtide: the user's own, one line for each variable of ours
// that cannot be understood, the library preloaded, the frameworks' allocators chosen.
absl::StatusOr<Environment> EnvironmentUnderEbbtide(const std::string& torch_backend);

// An absolute path, since CMD may change its folder. Placeholders stay.
std::string AbsolutePath(const std::string& path);

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_OPTIONS_H_
