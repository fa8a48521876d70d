// A recording as one HTML file that opens from disk, needs no network and asks for nothing.
#ifndef EBBTIDE_SRC_REPORT_HTML_H_
#define EBBTIDE_SRC_REPORT_HTML_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/profile/kinds.h"
#include "src/profile/steps.h"
#include "src/profile/types.h"
#include "src/report/readable_names.h"

namespace ebt::report {

// The page: memory over time by kind, the blocks, the flame graph of a moment, the sites. What a
// recording says (names, command lines, paths) is data to it, whatever the characters. A block
// takes about 25 bytes of it and a touch about 2.
std::string HtmlPage(const profile::Profile& profile, const std::optional<profile::Steps>& steps,
                     const std::vector<profile::Kind>& kinds, const ReadableNames& names);

// Writes it to `path`, replacing what is there. The error names the file and the reason.
// `kinds`: of each block; a block beyond them is unknown.
absl::Status WriteHtml(const profile::Profile& profile, const std::optional<profile::Steps>& steps,
                       const std::vector<profile::Kind>& kinds, const ReadableNames& names,
                       const std::string& path);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_HTML_H_
