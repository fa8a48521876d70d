#include <algorithm>

#include "src/base/log.h"
#include "src/cli/command.h"
#include "src/cli/options.h"

namespace ebt::cli {

int Fail(const absl::Status& status) {
  Log(LogLevel::kError, "{}", Message(status));
  return kOwnFailure;
}

namespace {

constexpr const char* kDescription =
    "Records where a GPU program allocates and what touches it when, plans a home for every\n"
    "block, and keeps to that plan in later runs: less device memory, the same results.";

constexpr const char* kFooter =
    "Exit codes: CMD's own (128+N when signal N ended it); 125 Ebbtide failed, 126 CMD is not\n"
    "executable, 127 CMD was not found, 2 bad command line.\n"
    "`ebbtide COMMAND --help` tells more; `ebbtide env` lists the environment variables.";

// Splits argv at the first "--". A "--" further on belongs to CMD.
void SplitAtCommand(int argc, char** argv, std::vector<std::string>* own, Invocation* invocation) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto split = std::find(words.begin(), words.end(), "--");
  own->assign(words.begin(), split);
  // The parser takes its words from the back.
  std::reverse(own->begin(), own->end());
  invocation->has_command = split != words.end();
  if (invocation->has_command) invocation->command.assign(split + 1, words.end());
}

int Main(int argc, char** argv) {
  Invocation invocation;
  CLI::App& app = invocation.app;
  app.name("ebbtide");
  app.description(kDescription);
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("ebbtide ") + EBBTIDE_VERSION);
  app.require_subcommand(1);
  AddRecord(invocation);
  AddPlan(invocation);
  AddPack(invocation);
  AddRun(invocation);
  AddVerify(invocation);
  AddSimulate(invocation);
  AddReport(invocation);
  AddDoctor(invocation);
  AddEnv(invocation);
  for (CLI::App* command : app.get_subcommands({})) RefuseEmptyValues(command);

  std::vector<std::string> own;
  SplitAtCommand(argc, argv, &own, &invocation);
  try {
    app.parse(std::move(own));
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ExtrasError& error) {
    Log(LogLevel::kError, "{}; CMD goes behind \"--\"; see `ebbtide --help`", error.what());
    return kBadCommandLine;
  } catch (const CLI::ParseError& error) {
    Log(LogLevel::kError, "{}; see `ebbtide --help`", error.what());
    return kBadCommandLine;
  }
  return invocation.action();
}

}  // namespace
}  // namespace ebt::cli

int main(int argc, char** argv) {
  try {
    return ebt::cli::Main(argc, argv);
  } catch (const std::exception& error) {
    ebt::Log(ebt::LogLevel::kError, "{}", error.what());
    return ebt::cli::kOwnFailure;
  }
}
