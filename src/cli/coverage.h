// `ebbtide doctor --coverage`: what a command calls of the driver, and by which way.
#ifndef EBBTIDE_SRC_CLI_COVERAGE_H_
#define EBBTIDE_SRC_CLI_COVERAGE_H_

#include <string>
#include <vector>

#include "src/cli/command.h"

namespace ebt::cli {

// Runs `command` natively with its calls counted, then prints a table for each process of it that
// used the driver, or all of them as one JSON object; CMD's standard output goes to standard error
// then. Returns CMD's exit code, 125 where nothing could be counted.
int ReportCoverage(const std::vector<std::string>& command, bool json);

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_COVERAGE_H_
