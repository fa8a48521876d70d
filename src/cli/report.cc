// `ebbtide report`: what a run log says.
#include <cstdio>

#include "src/base/log.h"
#include "src/cli/options.h"
#include "src/cli/report_files.h"
#include "src/profile/kinds.h"
#include "src/profile/reader.h"
#include "src/profile/steps.h"
#include "src/report/run_log.h"

namespace ebt::cli {
namespace {

constexpr size_t kDamageShown = 5;

struct ReportOptions {
  std::string file;
  bool json = false;
  ReportFiles files;
};

int WriteFiles(const ReportOptions& options) {
  const absl::StatusOr<profile::Profile> profile = profile::ReadProfile(options.file);
  absl::Status status = profile.status();
  if (status.ok()) {
    const std::optional<profile::Steps> steps = profile::FindSteps(*profile);
    status = WriteReportFiles(options.files, *profile, steps, profile::FindKinds(*profile, steps),
                              report::RecordedNames(*profile));
  }
  if (status.ok()) return 0;
  Log(LogLevel::kError, "{}", Message(status));
  return kOwnFailure;
}

int Report(const ReportOptions& options) {
  if (options.files.wanted()) return WriteFiles(options);
  const absl::StatusOr<report::RunLog> log = report::ReadRunLog(options.file);
  if (!log.ok()) {
    Log(LogLevel::kError, "{}", Message(log.status()));
    return kOwnFailure;
  }
  for (size_t i = 0; i < log->damage.size() && i < kDamageShown; ++i)
    Log(LogLevel::kWarning, "{}; the rest is reported", log->damage[i]);
  if (log->damage.size() > kDamageShown)
    Log(LogLevel::kWarning, "{}: {} more damaged lines", options.file,
        log->damage.size() - kDamageShown);
  fmt::print("{}", options.json ? log->last_as_json + "\n" : report::RunTable(*log));
  std::fflush(stdout);
  return 0;
}

}  // namespace

void AddReport(Invocation& invocation) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* report = invocation.app.add_subcommand("report", "Say what a run moved and waited for");
  SetSynopsis(report, "RUNLOG [--json] | PROFILE [--html FILE] [--trace FILE]");
  report->add_option("RUNLOG", options->file, "Log written by `ebbtide run --log`")->required();
  report->add_flag("--json", options->json, "Print the run and its last sample as one JSON object");
  AddReportFileOptions(report, options->files);
  report->footer("Exit code: 0; 125 when the file cannot be read or is no run log.");
  report->callback([&invocation, options] {
    if (invocation.has_command) throw CLI::ExtrasError({"--"});
    invocation.action = [options] { return Report(*options); };
  });
}

}  // namespace ebt::cli
