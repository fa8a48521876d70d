#include "src/cli/coverage.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "src/base/log.h"
#include "src/cli/child.h"
#include "src/cli/gpu_survey.h"
#include "src/cli/options.h"

namespace ebt::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kWays[] = {"linked", "dlsym", "proc_v1", "proc_v2"};
constexpr const char* kServices[] = {"served", "told", "counted"};

// The functions of one family that one process called.
struct FamilyCalls {
  std::string family;
  uint64_t functions = 0;
  uint64_t by_service[std::size(kServices)] = {};  // functions
  uint64_t by_way[std::size(kWays)] = {};          // calls
};

struct Unseen {
  std::string library;
  std::vector<std::string> symbols;
};

struct ProcessCalls {
  int64_t pid = 0;
  std::string program, driver;
  std::vector<FamilyCalls> families;  // in the table's order
  std::vector<Unseen> unseen;
};

// A file of this command's own, gone with it.
class CountsFile {
 public:
  CountsFile() {
    std::error_code error;
    const auto folder = std::filesystem::temp_directory_path(error);
    path_ = (error ? std::filesystem::path("/tmp") : folder) / "ebbtide-coverage-XXXXXX";
    const int fd = mkstemp(path_.data());
    is_there_ = fd >= 0;
    if (is_there_) close(fd);
  }
  ~CountsFile() {
    if (is_there_) unlink(path_.c_str());
  }
  CountsFile(const CountsFile&) = delete;
  CountsFile& operator=(const CountsFile&) = delete;

  bool is_there() const { return is_there_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool is_there_;
};

// Standard output is standard error as long as this lives.
class OutputToErrors {
 public:
  OutputToErrors() : before_(dup(STDOUT_FILENO)) { dup2(STDERR_FILENO, STDOUT_FILENO); }
  ~OutputToErrors() {
    dup2(before_, STDOUT_FILENO);
    close(before_);
  }
  OutputToErrors(const OutputToErrors&) = delete;
  OutputToErrors& operator=(const OutputToErrors&) = delete;

 private:
  const int before_;
};

// The user's own variables: what CMD does without Ebbtide is what is to be seen.
absl::StatusOr<Environment> CountingEnvironment(const std::string& counts) {
  absl::StatusOr<Environment> environment = PreloadedEnvironment();
  if (!environment.ok()) return environment.status();
  (*environment)["EBBTIDE_MODE"] = "off";
  (*environment)["EBBTIDE_COVERAGE"] = counts;
  environment->emplace("EBBTIDE_TORCH_BACKEND", "keep");
  return environment;
}

void AddSymbol(const ordered_json& line, ProcessCalls* process) {
  const auto family = line.at("family").get<std::string>();
  if (process->families.empty() || process->families.back().family != family)
    process->families.push_back({.family = family});
  FamilyCalls& calls = process->families.back();
  ++calls.functions;
  for (size_t i = 0; i < std::size(kServices); ++i)
    calls.by_service[i] += line.at("service") == kServices[i];
  for (size_t i = 0; i < std::size(kWays); ++i)
    calls.by_way[i] += line.at(kWays[i]).get<uint64_t>();
}

// The processes in the order of their ends. CMD may have written anything into the file that its
// environment names: what is no line of ours is passed over.
std::vector<ProcessCalls> ReadCounts(const std::string& path) {
  std::vector<ProcessCalls> processes;
  std::map<int64_t, size_t> places;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    try {
      const ordered_json line = ordered_json::parse(text);
      const auto pid = line.at("pid").get<int64_t>();
      const auto [place, is_new] = places.try_emplace(pid, processes.size());
      if (is_new) processes.push_back({.pid = pid});
      ProcessCalls& process = processes[place->second];
      if (line.contains("driver")) {
        process.program = line.at("program").get<std::string>();
        process.driver = line.at("driver").get<std::string>();
      } else if (line.contains("unseen")) {
        process.unseen.push_back({line.at("unseen").get<std::string>(),
                                  line.at("symbols").get<std::vector<std::string>>()});
      } else {
        AddSymbol(line, &process);
      }
    } catch (const ordered_json::exception&) {
      continue;
    }
  }
  return processes;
}

void PrintProcess(const ProcessCalls& process) {
  fmt::print("process {}: {}, driver {}\n", process.pid, process.program, process.driver);
  if (process.families.empty()) fmt::print("  no hooked function was called\n");
  if (!process.families.empty()) {
    fmt::print("  {:<10}{:^34}   {:^49}\n", "", "functions called",
               "calls by the way they were found");
    fmt::print("  {:<10}{:>10}{:>8}{:>8}{:>8}   {:>10}{:>10}{:>13}{:>16}\n", "family", "all",
               "served", "told", "counted", "linked", "dlsym", "proc address", "proc address 2");
  }
  for (const FamilyCalls& calls : process.families) {
    fmt::print("  {:<10}{:>10}{:>8}{:>8}{:>8}   {:>10}{:>10}{:>13}{:>16}\n", calls.family,
               calls.functions, calls.by_service[0], calls.by_service[1], calls.by_service[2],
               calls.by_way[0], calls.by_way[1], calls.by_way[2], calls.by_way[3]);
  }
  for (const Unseen& unseen : process.unseen) {
    fmt::print("  {} cannot be seen: loaded with RTLD_DEEPBIND, it has past Ebbtide: {}\n",
               unseen.library, absl::StrJoin(unseen.symbols, ", "));
  }
}

void PrintTables(const std::vector<ProcessCalls>& processes) {
  if (processes.empty()) {
    const std::string missing = WhyNoDriver();
    fmt::print("No process of CMD that ended by itself used the driver{}{}\n",
               missing.empty() ? "." : ": ", missing);
    return;
  }
  for (const ProcessCalls& process : processes) PrintProcess(process);
}

ordered_json AsJson(const ProcessCalls& process) {
  ordered_json families = ordered_json::array();
  for (const FamilyCalls& calls : process.families) {
    ordered_json family = {{"family", calls.family}, {"functions", calls.functions}};
    for (size_t i = 0; i < std::size(kServices); ++i) family[kServices[i]] = calls.by_service[i];
    for (size_t i = 0; i < std::size(kWays); ++i) family["calls"][kWays[i]] = calls.by_way[i];
    families.push_back(family);
  }
  ordered_json unseen = ordered_json::array();
  for (const Unseen& library : process.unseen)
    unseen.push_back({{"library", library.library}, {"symbols", library.symbols}});
  return {{"pid", process.pid},
          {"program", process.program},
          {"driver", process.driver},
          {"families", families},
          {"unseen", unseen}};
}

void PrintJson(const std::vector<ProcessCalls>& processes, int exit_code) {
  ordered_json report = {{"exit_code", exit_code}, {"processes", ordered_json::array()}};
  for (const ProcessCalls& process : processes) report["processes"].push_back(AsJson(process));
  fmt::print("{}\n", report.dump());
}

}  // namespace

int ReportCoverage(const std::vector<std::string>& command, bool json) {
  const CountsFile counts;
  if (!counts.is_there()) {
    Log(LogLevel::kError, "{}: no file can be made there; set TMPDIR", counts.path());
    return kOwnFailure;
  }
  const absl::StatusOr<Environment> environment = CountingEnvironment(counts.path());
  if (!environment.ok()) {
    Log(LogLevel::kError, "{}", std::string(environment.status().message()));
    return kOwnFailure;
  }
  const int code = [&] {
    if (!json) return RunCommand(command, *environment);
    const OutputToErrors elsewhere;
    return RunCommand(command, *environment);
  }();
  const std::vector<ProcessCalls> processes = ReadCounts(counts.path());
  json ? PrintJson(processes, code) : PrintTables(processes);
  std::fflush(stdout);
  return code;
}

}  // namespace ebt::cli
