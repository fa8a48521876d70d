#include "src/report/html.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "src/report/names.h"
#include "tests/page/job.h"
#include "tests/unit/page_columns.h"
#include "tests/unit/training_profile.h"

namespace ebt::report {
namespace {

using nlohmann::json;
using profile::Kind;
using profile::Profile;
using profile::ProfileBuilder;

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string PageOf(const Profile& profile, const std::vector<Kind>& kinds = {}) {
  return HtmlPage(profile, profile::FindSteps(profile), kinds, NamesOf(profile));
}

// The JSON in the element with this id, as a browser would cut it out.
json DataOf(const std::string& page, const std::string& id) {
  const std::string open = "<script type=\"application/json\" id=\"" + id + "\">";
  const size_t begin = page.find(open);
  if (begin == std::string::npos) return nullptr;
  const size_t text = begin + open.size();
  return json::parse(page.substr(text, page.find("</", text) - text), nullptr, false);
}

std::vector<uint64_t> ColumnOf(const json& recording, const std::string& name) {
  return Numbers(FromBase64(recording["columns"][name].get<std::string>()));
}

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Weights 4 MiB, a batch of 2 MiB; at the end of forward 4 activations of 2 MiB. State (8 MiB) is
// there from the first step's end on, gradients of 1 MiB come in backward: each replaces 2 MiB. The
// most is live when the first gradient is made: 4 + 2 + 8 + 8 + 1, and 512 bytes of the loss.
TEST(HtmlTest, TheSummarySaysThePeakAndWhatItConsistsOf) {
  const profile::Training training({.layers = 4, .steps = 5});
  const Profile& profile = training.profile;
  std::vector<Kind> kinds;
  for (const profile::Block& block : profile.blocks)
    kinds.push_back(block.site == profile::kWeightSite       ? Kind::kParameter
                    : block.site == profile::kActivationSite ? Kind::kActivation
                    : block.site == profile::kStateSite      ? Kind::kOptimizerState
                                                             : Kind::kUnknown);
  const json summary = DataOf(PageOf(profile, kinds), "summary");
  ASSERT_TRUE(summary.is_object());
  EXPECT_EQ(summary["steps"]["launches"], 14);
  EXPECT_DOUBLE_EQ(summary["steps"]["median_ms"].get<double>(), 14);
  const json& space = summary["spaces"][0];
  EXPECT_EQ(space["peak_bytes"], 23 * kMiB + 512);
  const json& parts = space["kinds"];
  EXPECT_EQ(parts[size_t(Kind::kParameter)]["bytes"], 4 * kMiB);
  EXPECT_EQ(parts[size_t(Kind::kOptimizerState)]["bytes"], 8 * kMiB);
  EXPECT_EQ(parts[size_t(Kind::kActivation)]["bytes"], 8 * kMiB);
  EXPECT_EQ(parts[size_t(Kind::kUnknown)]["bytes"], 3 * kMiB + 512);
  const json& top = space["top_sites"];
  ASSERT_EQ(top.size(), 6u);
  // Of equally large ones that with the smaller number is first.
  EXPECT_EQ(top[0]["name"], "nn/modules/gelu.py:34 forward");
  EXPECT_EQ(top[0]["blocks"], 4);
  EXPECT_EQ(top[1]["bytes"], 8 * kMiB);
}

TEST(HtmlTest, TheColumnsHoldTheBlocks) {
  const page::Job job = page::MakeJob({.layers = 3, .steps = 3});
  const json recording = DataOf(PageOf(job.profile, job.kinds), "recording");
  const size_t blocks = job.profile.blocks.size();
  const std::vector<uint64_t> alloc = ColumnOf(recording, "alloc"),
                              life = ColumnOf(recording, "life"),
                              bytes = ColumnOf(recording, "bytes"),
                              site = ColumnOf(recording, "site"),
                              kind = ColumnOf(recording, "kind");
  ASSERT_EQ(alloc.size(), blocks);
  ASSERT_EQ(kind.size(), blocks);
  uint64_t at = 0;
  for (const profile::Block& block : job.profile.blocks) {
    at += alloc[block.id];
    EXPECT_EQ(at, block.alloc_at);
    if (block.free_at == profile::kNever) {
      EXPECT_EQ(life[block.id], 0u);
    } else {
      EXPECT_EQ(at + life[block.id], block.free_at);
    }
    EXPECT_EQ(bytes[block.id], (block.bytes + 511) / 512);
    EXPECT_EQ(kind[block.id], uint64_t(job.kinds[block.id]));
    const json& found = recording["sites"][site[block.id]];
    EXPECT_EQ(std::stoull(found["id"].get<std::string>(), nullptr, 16), block.site);
  }
  EXPECT_FALSE(recording["columns"].contains("space")) << "one device needs none";
  const json& stack = recording["sites"][0]["frames"];
  EXPECT_EQ(recording["texts"][stack[2].get<size_t>()],
            "/home/user/job/model.py:20 Block.__init__");
}

TEST(HtmlTest, WhatARecordingSaysIsNeverMarkup) {
  const std::string evil =
      "</script><img src=x onerror=alert(1)>\xe2\x80\xa8\xe2\x80\xa9'\"&<!--\\";
  ProfileBuilder builder;
  builder.Launch(0, {builder.Alloc(512, 1)});
  Profile& profile = builder.profile;
  profile.metadata = {{"program", evil}, {evil, "argv"}, {"argv", "\xff\xc3"}};
  profile.functions.push_back({0, evil});
  profile.sites.push_back({1, {{callsite::Frame::Kind::kPython, evil, 3, evil, ""}}});
  profile.events.push_back({.kind = profile::EventKind::kPhase, .phase = evil});
  const std::string empty = PageOf(Profile()), page = PageOf(profile);
  for (const char* part : {"<script", "</script", "<img", "<!--", "onerror"}) {
    const size_t more = std::string(part) == "onerror" ? CountOf(page, "onerror") : 0;
    EXPECT_EQ(CountOf(page, part), CountOf(empty, part) + more) << part;
  }
  const size_t data = page.find("id=\"summary\">"), end = page.find("</script>", data);
  for (size_t i = data + 13; i < end; ++i) {
    EXPECT_LT(static_cast<unsigned char>(page[i]), 0x80);
    EXPECT_TRUE(page[i] != '<' && page[i] != '&' && page[i] != '>');
  }
  const json summary = DataOf(page, "summary"), recording = DataOf(page, "recording");
  EXPECT_EQ(summary["metadata"]["program"], evil);
  EXPECT_EQ(summary["metadata"][evil], "argv");
  EXPECT_EQ(summary["metadata"]["argv"], "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(recording["functions"][0], ShortName(evil));
  EXPECT_EQ(recording["phases"][0][1], evil);
  EXPECT_EQ(recording["texts"][0], evil + ":3 " + evil);
}

TEST(HtmlTest, ThePageNamesNothingOutsideItself) {
  const std::string page = PageOf(Profile());
  for (const char* part : {"http:", "https:", "src=", "url(", "import ", "innerHTML", "eval("})
    EXPECT_EQ(CountOf(page, part), 0u) << part;
  EXPECT_EQ(CountOf(page, "href="), CountOf(page, "href=\"#memory\""));
  EXPECT_EQ(CountOf(page, "default-src 'none'; script-src 'sha256-"), 1u);
}

// The figures that are promised: below 10 MiB with 1e5 blocks.
TEST(HtmlTest, AHundredThousandBlocksAreAFewMebibytes) {
  const page::Job job = page::MakeJob({.layers = 96, .steps = 75});
  ASSERT_GT(job.profile.blocks.size(), 100'000u);
  EXPECT_LT(PageOf(job.profile, job.kinds).size(), 10 * kMiB);
}

TEST(HtmlTest, SeveralDevicesAreToldApart) {
  ProfileBuilder builder;
  builder.Alloc(512, 1);
  builder.Alloc(1024, 1);
  builder.profile.blocks[1].device = 1;
  const std::string page = PageOf(builder.profile);
  EXPECT_EQ(DataOf(page, "summary")["spaces"][0]["name"], "device 1");
  EXPECT_EQ(ColumnOf(DataOf(page, "recording"), "space"), (std::vector<uint64_t>{1, 0}));
}

TEST(HtmlTest, TheFileHoldsThePage) {
  const std::string path =
      testing::TempDir() + "ebt_html_test_" + std::to_string(getpid()) + ".html";
  const profile::Training training({});
  const auto steps = profile::FindSteps(training.profile);
  const ReadableNames names = NamesOf(training.profile);
  ASSERT_TRUE(WriteHtml(training.profile, steps, {}, names, path).ok());
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), HtmlPage(training.profile, steps, {}, names));
  unlink(path.c_str());
}

TEST(HtmlTest, AFileThatCannotBeWrittenIsNamed) {
  const Profile profile;
  const ReadableNames names = NamesOf(profile);
  absl::Status status = WriteHtml(profile, std::nullopt, {}, names, "/nowhere/page.html");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("/nowhere/page.html"), std::string::npos);
  if (access("/dev/full", W_OK) != 0) return;
  status = WriteHtml(profile, std::nullopt, {}, names, "/dev/full");
  EXPECT_NE(status.message().find("/dev/full: cannot be written: No space"), std::string::npos);
}

}  // namespace
}  // namespace ebt::report
