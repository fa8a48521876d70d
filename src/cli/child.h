// Starting CMD: in which environment, and what its end means for our exit code.
#ifndef EBBTIDE_SRC_CLI_CHILD_H_
#define EBBTIDE_SRC_CLI_CHILD_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/config.h"

namespace ebt::cli {

// The variables that CMD will see.
using Environment = std::map<std::string, std::string>;

// This process's environment, less the EBBTIDE_ entries that cannot be understood: each of
// those has been appended to `complaints`, so that the library need not repeat it.
Environment InheritedEnvironment(std::vector<std::string>* complaints);

// libebbtide.so of this very command: beside it in a build folder, in ../lib of an installation.
absl::StatusOr<std::string> FindLibrary();

// Puts `library` in front of what LD_PRELOAD already names.
absl::Status Preload(const std::string& library, Environment* environment);

// Asks PyTorch and JAX for the stream-ordered allocator, which shows every tensor to the
// driver, unless the user has chosen one (or `backend` says to leave them alone).
void ChooseFrameworkAllocators(TorchBackend backend, Environment* environment);

// Starts `command` (found through PATH), passes SIGINT, SIGTERM, SIGHUP and SIGQUIT on to it
// and waits. Returns its exit code, 128+N if signal N ended it, 126 or 127 (one line says why)
// if it could not be started, 125 if not even a process could be had.
int RunCommand(const std::vector<std::string>& command, const Environment& environment);

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_CHILD_H_
