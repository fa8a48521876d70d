// Files that `ebbtide report` makes of a recording.
#ifndef EBBTIDE_SRC_CLI_REPORT_FILES_H_
#define EBBTIDE_SRC_CLI_REPORT_FILES_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/profile/kinds.h"
#include "src/profile/steps.h"
#include "src/profile/types.h"
#include "src/report/readable_names.h"

namespace ebt::cli {

struct ReportFiles {
  std::string html;       // empty: none
  std::string trace;      // empty: none
  std::string trace_min;  // a size; empty: as small as the trace has room for
  bool wanted() const { return !html.empty() || !trace.empty(); }
};

// Adds --html, --trace and --trace-min to the command; `files` must outlive it.
void AddReportFileOptions(CLI::App* command, ReportFiles& files);

// Writes those that are wanted and says where they are. The first error ends it.
absl::Status WriteReportFiles(const ReportFiles& files, const profile::Profile& profile,
                              const std::optional<profile::Steps>& steps,
                              const std::vector<profile::Kind>& kinds,
                              const report::ReadableNames& names);

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_REPORT_FILES_H_
