// Options that several sub-commands share, and what they put into CMD's environment.
#ifndef EBBTIDE_SRC_CLI_OPTIONS_H_
#define EBBTIDE_SRC_CLI_OPTIONS_H_

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
