// What a command line will become once it is executed.
#ifndef EBBTIDE_SRC_CLI_PROGRAM_H_
#define EBBTIDE_SRC_CLI_PROGRAM_H_

#include <string>
#include <vector>

namespace ebt::cli {

// The ProgramIdentity that `command` will have: found through PATH, "#!" lines followed as the
// kernel does. Empty where that says nothing about the process that will use the GPU: a
// launcher (shell, env, mpirun, torchrun, ...) or a program that cannot be found.
std::string IdentityOfCommand(const std::vector<std::string>& command);

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_PROGRAM_H_
