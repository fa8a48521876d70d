#include "src/report/html.h"

#include <nlohmann/json.hpp>

#include "src/report/html_page.h"
#include "src/report/page_data.h"
#include "src/report/report_file.h"

namespace ebt::report {

std::string HtmlPage(const profile::Profile& profile, const std::optional<profile::Steps>& steps,
                     const std::vector<profile::Kind>& kinds, const ReadableNames& names) {
  const MemorySpaces memory = FindMemorySpaces(profile, steps, kinds);
  const GpuTimes times(profile);
  const PageSource source{profile, steps, kinds, names, memory, times};
  std::string page(kPageHead);
  page += "<script type=\"application/json\" id=\"summary\">";
  page += ScriptText(PageSummary(source));
  page += "</script>\n<script type=\"application/json\" id=\"recording\">";
  page += ScriptText(PageRecording(source));
  page += "</script>\n";
  page += kPageTail;
  return page;
}

absl::Status WriteHtml(const profile::Profile& profile, const std::optional<profile::Steps>& steps,
                       const std::vector<profile::Kind>& kinds, const ReadableNames& names,
                       const std::string& path) {
  ReportFile file(path);
  file.Write(HtmlPage(profile, steps, kinds, names));
  return file.Close();
}

}  // namespace ebt::report
