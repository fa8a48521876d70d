#include "src/cli/report_files.h"

#include "src/base/log.h"
#include "src/base/units.h"
#include "src/cli/options.h"
#include "src/report/html.h"
#include "src/report/trace.h"

namespace ebt::cli {

void AddReportFileOptions(CLI::App* command, ReportFiles& files) {
  command->add_option("--html", files.html,
                      "Write the recording as one HTML page that needs no network");
  CLI::Option* trace = command->add_option(
      "--trace", files.trace, "Write the recording as a trace for Perfetto or chrome://tracing");
  AddSizeOption(command, "--trace-min", &files.trace_min,
                "Smallest block that is a slice of the trace; by default the 60000 largest are")
      ->needs(trace);
}

absl::Status WriteReportFiles(const ReportFiles& files, const profile::Profile& profile,
                              const std::optional<profile::Steps>& steps,
                              const std::vector<profile::Kind>& kinds,
                              const report::ReadableNames& names) {
  if (!files.html.empty()) {
    absl::Status status = report::WriteHtml(profile, steps, kinds, names, files.html);
    if (!status.ok()) return status;
    Log(LogLevel::kWarning, "wrote {}: open it in a browser", files.html);
  }
  if (!files.trace.empty()) {
    report::TraceOptions options;
    if (!files.trace_min.empty()) options.min_block_bytes = *ParseSize(files.trace_min);
    absl::Status status = report::WriteTrace(profile, steps, kinds, names, files.trace, options);
    if (!status.ok()) return status;
    Log(LogLevel::kWarning, "wrote {}: open it in ui.perfetto.dev or chrome://tracing",
        files.trace);
  }
  return absl::OkStatus();
}

}  // namespace ebt::cli
