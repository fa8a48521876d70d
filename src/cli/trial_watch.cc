#include "src/cli/trial_watch.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace ebt::cli {
namespace {

using nlohmann::json;

std::vector<uint64_t> SitesOf(const json& line, const char* key) {
  std::vector<uint64_t> sites;
  const auto list = line.find(key);
  if (list == line.end() || !list->is_array()) return sites;
  for (const json& site : *list) {
    if (site.is_string()) {
      sites.push_back(strtoull(site.get_ref<const std::string&>().c_str(), nullptr, 16));
    }
  }
  return sites;
}

std::string TextOf(const json& line, const char* key) {
  const auto text = line.find(key);
  return text != line.end() && text->is_string() ? text->get<std::string>() : "";
}

}  // namespace

void TrialWatch::Add(std::string_view text) {
  rest_ += text;
  size_t begin = 0;
  for (size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    TakeLine(std::string_view(rest_).substr(begin, end - begin));
  }
  rest_.erase(0, begin);
}

void TrialWatch::TakeLine(std::string_view text) {
  const json line = json::parse(text.begin(), text.end(), nullptr, false);
  if (!line.is_object() || !line.contains("pid") || !line["pid"].is_number_integer()) return;
  Process& process = processes_[line["pid"].get<int64_t>()];
  if (line.contains("gpu") && gpu_.empty()) {
    gpu_ = TextOf(line, "gpu");
    const auto driver = line.find("driver");
    if (driver != line.end() && driver->is_number_integer()) driver_version_ = driver->get<int>();
  }
  for (uint64_t site : SitesOf(line, "touched")) {
    if (sites_.count(site) != 0) process.touched.insert(site);
  }
  if (line.contains("fault") && !fault_) {
    fault_ = TrialFault{TextOf(line, "fault"), TextOf(line, "launch"), TextOf(line, "error"),
                        SitesOf(line, "sites")};
  }
  const auto steps = line.find("steps");
  if (steps == line.end() || !steps->is_number_unsigned()) return;
  process.steps = std::max(process.steps, steps->get<uint64_t>());
  if (!process.base && process.touched.size() == sites_.size()) process.base = process.steps;
}

uint64_t TrialWatch::WatchedSteps() const {
  std::optional<uint64_t> fewest;
  for (const auto& [pid, process] : processes_) {
    // A process that has none of the blocks says nothing about them.
    if (process.touched.empty() && !sites_.empty()) continue;
    const uint64_t watched = process.base ? process.steps - *process.base : 0;
    fewest = std::min(fewest.value_or(watched), watched);
  }
  return fewest.value_or(0);
}

std::vector<uint64_t> TrialWatch::Untouched() const {
  std::vector<uint64_t> untouched;
  for (uint64_t site : sites_) {
    const bool touched = std::any_of(
        processes_.begin(), processes_.end(),
        [site](const auto& process) { return process.second.touched.count(site) != 0; });
    if (!touched) untouched.push_back(site);
  }
  return untouched;
}

}  // namespace ebt::cli
