// `ebbtide env`: every environment variable, its default and its meaning.
#include <cstdio>

#include "src/base/config.h"
#include "src/cli/command.h"

namespace ebt::cli {
namespace {

int Env() {
  for (const EnvVar& var : EnvVars()) {
    const char* value = getenv(var.name);
    fmt::print("{}\n    {}\n    default: {}\n", var.name, var.meaning,
               *var.default_value ? var.default_value : "(empty)");
    if (value != nullptr) fmt::print("    set to:  {}\n", value);
  }
  return 0;
}

}  // namespace

void AddEnv(Invocation& invocation) {
  CLI::App* env = invocation.app.add_subcommand(
      "env", "List every environment variable, its default and its meaning");
  env->callback([&invocation] { invocation.action = Env; });
}

}  // namespace ebt::cli
