#include "tests/preload/front_counts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/preload/front_matrix.h"

namespace ebt::test {
namespace {

constexpr const char* kFront = "libebbtide.so";
// What an exported function of the front answers where the driver has none of that name.
constexpr const char* kNoDriver = "3";

}  // namespace

CoverageFile ReadCoverage(const std::string& path) {
  CoverageFile file;
  std::ifstream stream(path);
  EXPECT_TRUE(stream) << path;
  for (std::string text; std::getline(stream, text);) {
    const auto line = nlohmann::json::parse(text, nullptr, false);
    if (line.contains("driver")) {
      ++file.processes;
    } else if (line.contains("unseen")) {
      file.unseen[line.at("unseen")] = line.at("symbols").get<std::vector<std::string>>();
    } else {
      EXPECT_TRUE(line.contains("symbol")) << text;
      if (!line.contains("symbol")) continue;
      for (const char* way : {"linked", "dlsym", "proc_v1", "proc_v2"}) {
        if (const auto calls = line.at(way).get<uint64_t>())
          file.counts[line.at("symbol")][way] += calls;
      }
    }
  }
  return file;
}

Answers ReadAnswers(const std::string& text) {
  Answers answers;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    Answer answer;
    words >> answer.request >> answer.reached >> answer.result >> answer.file;
    if (answer.request == "=") {
      answers.totals[answer.reached] = std::stoull(answer.result);
    } else {
      answers.lines.push_back(answer);
    }
  }
  return answers;
}

Counts ExpectedCounts(const Answers& native, const std::string& way) {
  Counts counts;
  for (const Answer& answer : native.lines)
    if (IsInTable(answer.reached)) ++counts[answer.reached][way];
  return counts;
}

void ExpectSameFunctions(const Answers& native, const Answers& hooked) {
  ASSERT_EQ(native.lines.size(), hooked.lines.size());
  for (size_t i = 0; i < native.lines.size(); ++i) {
    const Answer& before = native.lines[i];
    const Answer& after = hooked.lines[i];
    ASSERT_EQ(after.request, before.request);
    // The front's exports are there for whoever asks every library.
    const bool only_ours = before.file == "-" && after.file == kFront;
    EXPECT_EQ(after.reached, before.reached) << before.request;
    EXPECT_EQ(after.result, only_ours ? kNoDriver : before.result) << before.request;
    EXPECT_EQ(after.file, only_ours || IsInTable(before.reached) ? kFront : before.file)
        << before.request;
  }
}

}  // namespace ebt::test
