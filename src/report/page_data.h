// What the HTML page of a recording is told: two JSON objects.
#ifndef EBBTIDE_SRC_REPORT_PAGE_DATA_H_
#define EBBTIDE_SRC_REPORT_PAGE_DATA_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/profile/kinds.h"
#include "src/profile/steps.h"
#include "src/profile/types.h"
#include "src/report/gpu_times.h"
#include "src/report/memory_spaces.h"
#include "src/report/readable_names.h"

namespace ebt::report {

struct PageSource {
  const profile::Profile& profile;
  const std::optional<profile::Steps>& steps;
  const std::vector<profile::Kind>& kinds;
  const ReadableNames& names;
  const MemorySpaces& memory;
  const GpuTimes& times;
};

// The numbers that the page shows as text: for whoever reads the file without a browser, and for
// tests.
nlohmann::json PageSummary(const PageSource& source);

// The recording itself: columns (block_columns.h), names, steps.
nlohmann::json PageRecording(const PageSource& source);

// As text that may stand in a <script> element of any kind: ASCII without '<', '>' and '&'.
// Bytes that are not UTF-8 become U+FFFD.
std::string ScriptText(const nlohmann::json& json);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_PAGE_DATA_H_
