#include "src/report/run_log.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "src/base/units.h"
#include "src/report/text.h"

namespace ebt::report {
namespace {

using nlohmann::json;

constexpr int kSchema = 1;
constexpr size_t kMostLineBytes = 1 << 20;
constexpr char kProfileStart[] =
    "\x89"
    "EBTP";

std::string TextOf(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// 0 for what is missing, no number, negative or not finite.
double NumberOf(const json& value) {
  if (!value.is_number()) return 0;
  const double number = value.get<double>();
  return std::isfinite(number) && number >= 0 ? number : 0;
}

uint64_t CountOf(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return 0;
  return static_cast<uint64_t>(std::min(NumberOf(*found), 9e18));
}

// "" or why this is the start of no run log.
std::string NotARunLog(const std::string& first_line) {
  if (first_line.rfind(kProfileStart, 0) == 0)
    return "is a profile, not a run log; `ebbtide plan` reads it";
  const json line = json::parse(first_line, nullptr, false);
  if (line.is_object() && line.contains("run") && line["run"].is_object()) {
    const uint64_t schema = CountOf(line["run"], "schema");
    if (schema == kSchema) return "";
    return fmt::format("is a run log of schema {}, and this Ebbtide reads {}", schema, kSchema);
  }
  if (first_line.rfind('{', 0) == 0 && line.is_discarded())
    return "is not a run log (a plan perhaps); `ebbtide run --log FILE` writes one";
  return "is not a run log; `ebbtide run --log FILE` writes one";
}

void TakeRun(const json& run, RunLog* log) {
  log->program = TextOf(run, "program");
  log->plan = TextOf(run, "plan");
  log->gpu = TextOf(run, "gpu");
  log->ebbtide = TextOf(run, "ebbtide");
  log->driver_version = static_cast<int>(std::min<uint64_t>(CountOf(run, "driver"), 1'000'000));
  log->budget = CountOf(run, "budget");
  log->cold_swap = CountOf(run, "cold_swap");
  log->cold_managed = CountOf(run, "cold_managed");
  log->cold_off = CountOf(run, "cold_off");
  log->pid = static_cast<int64_t>(CountOf(run, "pid"));
  log->time = static_cast<int64_t>(CountOf(run, "time"));
}

// What is wrong with the line; "": nothing.
std::string TakeLine(const std::string& text, const json& run, RunLog* log) {
  if (text.size() > kMostLineBytes) return "is longer than any line of a run log";
  const json line = json::parse(text, nullptr, false);
  if (line.is_discarded()) return "is cut off or no JSON";
  if (!line.is_object() || line.size() != 1) return "is no line of a run log";
  const std::string kind = line.begin().key();
  const json& body = line.begin().value();
  if (kind == "run") return "begins a second run";
  if (!body.is_object() || (kind != "sample" && kind != "end"))
    return "is neither a sample nor the end";
  log->last.clear();
  for (const auto& [name, value] : body.items()) log->last[name] = NumberOf(value);
  ++log->samples;
  log->ended = log->ended || kind == "end";
  log->last_as_json =
      json{{"run", run}, {kind, body}}.dump(-1, ' ', false, json::error_handler_t::replace);
  return "";
}

double PerStep(const RunLog& log, double amount) {
  const double steps = log.Number("steps");
  return steps > 0 ? amount / steps : 0;
}

std::string Size(double bytes) { return FormatSize(static_cast<uint64_t>(bytes)); }

void PrintHead(const RunLog& log, Text& out) {
  const std::time_t time = static_cast<std::time_t>(log.time);
  std::tm when{};
  char date[32] = "";
  if (gmtime_r(&time, &when) != nullptr) strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &when);
  Print(out, "Run        {}, pid {}, {}\n", log.program, log.pid, date);
  Print(out, "Plan       {}, budget {}\n", log.plan,
        log.budget > 0 ? FormatSize(log.budget) : "none");
  Print(out, "Device     {}, driver {}.{}\n", log.gpu, log.driver_version / 1000,
        log.driver_version % 1000 / 10);
  Print(out, "Cold       swapped {}, managed {}, left on the device {}\n",
        FormatSize(log.cold_swap), FormatSize(log.cold_managed), FormatSize(log.cold_off));
  const double seconds = log.Number("t_s");
  Print(out, "Steps      {:.0f} in {:.1f} s ({:.2f} ms each){}\n", log.Number("steps"), seconds,
        PerStep(log, seconds * 1e3),
        log.ended ? "" : "; the end is missing: the process runs on, or was killed");
  Print(out, "Served     {:.0f} allocations on plan, {:.0f} beside it, {:.0f} by the driver\n",
        log.Number("planned"), log.Number("dynamic"), log.Number("native"));
}

void PrintPeaks(const RunLog& log, Text& out) {
  Print(out, "\n{:<28}{:>12}\n", "Peak", "bytes");
  const std::pair<const char*, const char*> rows[] = {
      {"warm", "peak_warm"},
      {"cold, on the device", "peak_cold_on_device"},
      {"cold, on the host", "peak_cold_on_host"},
      {"device, all that we hold", "peak_device_bytes"}};
  for (const auto& [label, name] : rows)
    Print(out, "{:<28}{:>12}\n", label, Size(log.Number(name)));
  Print(out, "{:<28}{:>12}\n", "on the device at the end", Size(log.Number("device_bytes")));
}

void PrintTraffic(const RunLog& log, Text& out) {
  const double seconds = log.Number("t_s");
  Print(out, "\n{:<28}{:>12}{:>12}{:>9}\n", "Link", "total", "a step", "GB/s");
  const std::pair<const char*, const char*> rows[] = {{"swapped in", "bytes_in"},
                                                      {"swapped out", "bytes_out"},
                                                      {"managed in", "managed_in"},
                                                      {"managed out", "managed_out"}};
  for (const auto& [label, name] : rows) {
    const double bytes = log.Number(name);
    Print(out, "{:<28}{:>12}{:>12}{:>9.2f}\n", label, Size(bytes), Size(PerStep(log, bytes)),
          seconds > 0 ? bytes / seconds / 1e9 : 0);
  }
}

void PrintFetches(const RunLog& log, Text& out) {
  // Begun ones and those given up together are what the plan asked for.
  const double given_up = log.Number("missed_room") + log.Number("missed_busy");
  const double planned = log.Number("fetches") + given_up;
  Print(out, "\n{:<28}{:>12}{:>12}\n", "Planned fetches", "slabs", "share");
  const std::pair<const char*, const char*> rows[] = {{"begun", "fetches"},
                                                      {"begun, and touched there", "hits"},
                                                      {"given up: no room", "missed_room"},
                                                      {"given up: still in use", "missed_busy"}};
  for (const auto& [label, name] : rows) {
    const double slabs = log.Number(name);
    Print(out, "{:<28}{:>12.0f}{:>10.1f} %\n", label, slabs,
          planned > 0 ? 100 * slabs / planned : 0);
  }
  Print(out, "Touches off plan: {:.0f}; in place on the host now: {:.0f} slabs\n",
        log.Number("off_plan"), log.Number("in_place_slabs"));
}

void PrintWaits(const RunLog& log, Text& out) {
  Print(out, "\n{:<28}{:>12}{:>12}{:>12}\n", "Waits", "count", "ms", "ms a step");
  struct Row {
    const char *label, *count, *ms;
  };
  const Row rows[] = {{"device: copy in (sampled)", "waits_arrival", "waits_arrival_ms"},
                      {"device: copy out (sampled)", "waits_departure", "waits_departure_ms"},
                      {"host: room for a block", "waits_room", "host_room_ms"},
                      {"host: copy in to be issued", "", "host_issue_ms"},
                      {"host: touches off plan", "off_plan", "host_off_plan_ms"}};
  for (const Row& row : rows) {
    const std::string count =
        *row.count == '\0' ? "-" : fmt::format("{:.0f}", log.Number(row.count));
    const double ms = log.Number(row.ms);
    Print(out, "{:<28}{:>12}{:>12.2f}{:>12.3f}\n", row.label, count, ms, PerStep(log, ms));
  }
}

}  // namespace

double RunLog::Number(const std::string& name) const {
  const auto found = last.find(name);
  return found == last.end() ? 0 : found->second;
}

absl::StatusOr<RunLog> ReadRunLog(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::UnavailableError(fmt::format("{}: cannot be opened: {}", path, strerror(errno)));
  }
  RunLog log;
  json run;
  std::string line;
  for (uint64_t number = 1; std::getline(file, line); ++number) {
    if (number == 1) {
      if (const std::string why = NotARunLog(line); !why.empty())
        return absl::InvalidArgumentError(fmt::format("{} {}", path, why));
      run = json::parse(line, nullptr, false)["run"];
      TakeRun(run, &log);
      continue;
    }
    const std::string problem = TakeLine(line, run, &log);
    if (!problem.empty()) log.damage.push_back(fmt::format("{}:{}: {}", path, number, problem));
  }
  if (file.bad()) return absl::UnavailableError(fmt::format("{}: cannot be read", path));
  if (run.is_null()) return absl::InvalidArgumentError(fmt::format("{} is empty", path));
  if (log.samples == 0)
    return absl::FailedPreconditionError(fmt::format(
        "{}: no sample yet: one comes every ten seconds, and at the end of the run", path));
  return log;
}

std::string RunTable(const RunLog& log) {
  Text out;
  PrintHead(log, out);
  PrintPeaks(log, out);
  PrintTraffic(log, out);
  PrintFetches(log, out);
  PrintWaits(log, out);
  return fmt::to_string(out);
}

}  // namespace ebt::report
