// The process's configuration, read once from the environment.
#ifndef EBBTIDE_SRC_BASE_CONFIG_H_
#define EBBTIDE_SRC_BASE_CONFIG_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/log.h"

namespace ebt {

enum class Mode { kOff, kRecord, kReplay };
enum class Cold { kAuto, kSwap, kManaged, kOff };
enum class TorchBackend { kAsync, kNative, kKeep };

// EBBTIDE_DUMP's word for no file at all.
inline constexpr std::string_view kNoDump = "off";

struct EnvVar {
  const char* name;
  const char* default_value;
  const char* meaning;
};
// Every variable of env_vars.def, in order.
const std::vector<EnvVar>& EnvVars();

struct Config {
  Mode mode = Mode::kOff;
  std::string profile_path;  // placeholders filled in
  std::string plan_path;     // placeholders filled in; may be empty
  uint64_t budget = 0;       // bytes; 0: no limit
  uint64_t host_budget = 0;  // bytes; 0: decide from what the node has
  Cold cold = Cold::kAuto;
  TorchBackend torch_backend = TorchBackend::kAsync;
  std::string run_log_path;           // placeholders filled in; empty: none is written
  std::string coverage_path;          // placeholders filled in; empty: nothing is counted
  std::string dump_path;              // placeholders filled in; empty: beside the profile
  int dump_signal = 0;                // 0: none
  std::string trial_path;             // set by `ebbtide verify`: where the trial's outcome goes
  std::vector<uint64_t> trial_sites;  // the sites on trial
  int record_steps = 0;               // 0: to the end
  std::string step_kernel;            // part of the name of what ends a step; may be empty
  bool strict = false;
  LogLevel log_level = LogLevel::kWarning;
  // One line a problem (unknown variable with the nearest known name, unreadable value with
  // what is accepted). The default stands in for what was wrong.
  std::vector<std::string> complaints;
};

// environment: "NAME=value" strings, as in environ. Never fails: see Config::complaints.
Config ParseConfig(const std::vector<std::string_view>& environment);

// Fills {rank} (RANK, OMPI_COMM_WORLD_RANK, SLURM_PROCID; else 0), {pid}, {host} and
// {program} (base name of the running program or, for an interpreter, of its script).
std::string FillPath(std::string_view pattern);

// What names a program across runs: the executable's build-id (or base name where it has
// none) and, for an interpreter, its script's or module's base name. E.g.
// "python3.12[ab12cd34]:train.py", "trainer[09fe11aa]".
std::string ProgramIdentity();

// ProgramIdentity from its parts, for tests: argv as in /proc/self/cmdline.
std::string ProgramIdentityOf(const std::string& executable, const std::vector<std::string>& argv);

// Now, as "2026-11-30T15:04:05Z".
std::string UtcNow();

// Bytes of host memory that can still be used: the smaller of MemAvailable and what the
// cgroup (v2, v1) leaves. 0 when neither can be read.
uint64_t AvailableHostMemory();

}  // namespace ebt

#endif  // EBBTIDE_SRC_BASE_CONFIG_H_
