// The `ebbtide` command: a file a sub-command, each of which adds itself to the parser.
#ifndef EBBTIDE_SRC_CLI_COMMAND_H_
#define EBBTIDE_SRC_CLI_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "src/cli/exit_codes.h"

namespace ebt::cli {

// One parsed command line.
struct Invocation {
  CLI::App app;
  // What stands behind "--", word for word: the parser never sees it.
  std::vector<std::string> command;
  bool has_command = false;
  // What the chosen sub-command does; returns the exit code.
  std::function<int()> action;
};

void AddRecord(Invocation& invocation);
void AddPlan(Invocation& invocation);
void AddRun(Invocation& invocation);
void AddVerify(Invocation& invocation);
void AddSimulate(Invocation& invocation);
void AddReport(Invocation& invocation);
void AddDoctor(Invocation& invocation);
void AddEnv(Invocation& invocation);

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_COMMAND_H_
