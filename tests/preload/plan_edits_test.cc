// `ebbtide plan` with edits: given on the command line, made in the file, taken over by --update;
// and what --explain says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/plan/plan_file.h"
#include "src/profile/writer.h"
#include "tests/preload/run_process.h"
#include "tests/preload/small_profile.h"

namespace ebt::test {
namespace {

using ::testing::HasSubstr;

// SmallProfile: weights are site 1, state is site 2, a step's own block is site 3.
class PlanEdits : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = FreshFolder();
    ASSERT_TRUE(profile::WriteProfile(SmallProfile(), Path("job.ebp")).ok());
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  Outcome Plan(std::vector<std::string> words) {
    words.insert(words.begin(), {Product("ebbtide"), "plan", "job.ebp"});
    return RunProcess(words, {{"LD_LIBRARY_PATH", Product("tests/simcuda")}}, folder_);
  }

  // The one line that is said where nothing is done.
  std::string Complaint(std::vector<std::string> words, int code = 125) {
    const Outcome outcome = Plan(std::move(words));
    EXPECT_EQ(outcome.code, code) << outcome;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome;
    return outcome.err;
  }

  plan::Plan Read(const std::string& name = "job.plan.json") {
    auto plan = plan::ReadPlan(Path(name));
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? *std::move(plan) : plan::Plan{};
  }

  static plan::Tier TierOf(const plan::Plan& plan, uint64_t site) {
    for (const auto* slots : {&plan.prologue, &plan.step}) {
      for (const plan::Slot& slot : *slots) {
        if (slot.site == site) return slot.tier;
      }
    }
    ADD_FAILURE() << "no slot of site " << site;
    return plan::Tier::kHot;
  }

  std::string folder_;
};

TEST_F(PlanEdits, PinsAndExclusionsOfTheCommandLineOutliveAnUpdate) {
  const Outcome first = Plan({"--pin", "0x1=cold", "--exclude", "site 0x3", "--budget", "512MiB",
                              "--beta", "7", "--hot-sigma", "0.25"});
  ASSERT_EQ(first.code, 0) << first;
  EXPECT_EQ(TierOf(Read(), 1), plan::Tier::kCold);
  EXPECT_EQ(TierOf(Read(), 3), plan::Tier::kNative);
  const Outcome updated = Plan({"--update", "job.plan.json"});
  ASSERT_EQ(updated.code, 0) << updated;
  EXPECT_THAT(updated.err, HasSubstr("kept of job.plan.json: a budget of 512.00 MiB, the weights "
                                     "of hotness, 1 pin, 1 exclusion\n"));
  const plan::Plan plan = Read();
  EXPECT_EQ(TierOf(plan, 1), plan::Tier::kCold);
  EXPECT_EQ(TierOf(plan, 3), plan::Tier::kNative);
  EXPECT_EQ(plan.budget, 512 * kMiB);
  ASSERT_TRUE(plan.hotness.has_value());
  EXPECT_EQ(plan.hotness->weights.backward, 7);
  EXPECT_EQ(plan.hotness->threshold, 0.25);
}

TEST_F(PlanEdits, EditsMadeByHandAreHonouredAndWhatIsGivenAnewWins) {
  ASSERT_EQ(Plan({"--budget", "512MiB"}).code, 0);
  nlohmann::ordered_json json;
  std::ifstream(Path("job.plan.json")) >> json;
  for (auto& site : json["sites"]) {
    if (site["id"] == "0x2") site["pin"] = "warm";
    if (site["id"] == "0x1") site["exclude"] = true;
  }
  json["sites"].push_back({{"id", "0x99"}, {"label", "gone"}, {"pin", "hot"}});
  json["cleared"].push_back({{"command", "train"},
                             {"gpu", "none"},
                             {"driver_version", 13000},
                             {"ebbtide", "0.1.0"},
                             {"steps", 3},
                             {"sites", {"0x1"}}});
  std::ofstream(Path("edited.json")) << json;
  const Outcome updated = Plan(
      {"--update", "edited.json", "-o", "new.json", "--budget", "600MiB", "--pin", "0x1=none"});
  ASSERT_EQ(updated.code, 0) << updated;
  EXPECT_THAT(updated.err, HasSubstr("no longer applies: the pin of 0x99 (not in the recording), "
                                     "the clearance of 0x1 (no longer in a slab)\n"));
  const plan::Plan plan = Read("new.json");
  EXPECT_EQ(TierOf(plan, 2), plan::Tier::kWarm);
  EXPECT_NE(TierOf(plan, 1), plan::Tier::kNative);
  EXPECT_EQ(plan.budget, 600 * kMiB);
  EXPECT_TRUE(plan.cleared.empty());
}

TEST_F(PlanEdits, ExplainSaysWhyAndWritesNoPlan) {
  const Outcome text = Plan({"--explain", "site 0x2"});
  EXPECT_EQ(text.code, 0) << text;
  EXPECT_THAT(text.out, HasSubstr("prologue[1]: "));
  EXPECT_THAT(text.out, HasSubstr("because"));
  EXPECT_FALSE(std::filesystem::exists(Path("job.plan.json")));
  const Outcome json = Plan({"--explain", "0x2", "--json", "--pin", "0x2=hot"});
  const auto object = nlohmann::json::parse(json.out, nullptr, false);
  ASSERT_TRUE(object.is_object()) << json;
  EXPECT_EQ(object["pin"], "hot");
  EXPECT_EQ(object["blocks"][0]["because"][0], "its site is pinned to hot");
}

TEST_F(PlanEdits, WhatCannotBeMeantIsOneLine) {
  EXPECT_THAT(Complaint({"--explain", "site"}), HasSubstr("may be any of 3 sites"));
  EXPECT_THAT(Complaint({"--pin", "0x7=hot"}),
              HasSubstr("--pin 0x7=hot: no site of the recording"));
  EXPECT_THAT(Complaint({"--exclude", "0x1", "--pin", "0x1=warm"}),
              HasSubstr("--pin 0x1=warm and --exclude 0x1 are of one site, 0x1"));
  EXPECT_THAT(Complaint({"--pin", "0x1=warm", "--pin", "site 0x1=hot"}), HasSubstr("one site"));
  EXPECT_THAT(Complaint({"--exclude", "nothing"}), HasSubstr("--exclude nothing"));
  EXPECT_THAT(Complaint({"--update", "job.ebp"}), HasSubstr("job.ebp"));
  EXPECT_THAT(Complaint({"--update", "nothing.json"}), HasSubstr("nothing.json"));
  EXPECT_THAT(Complaint({"-o", "."}), HasSubstr(". is a folder"));
  EXPECT_THAT(Complaint({"-o", "/nope/q.json"}),
              HasSubstr("/nope/q.json cannot be created: there is no folder /nope\n"));
}

TEST_F(PlanEdits, WhatNoRecordingGivesASenseIsABadCommandLine) {
  const auto refused = [&](const std::string& option, const std::string& value) {
    return Complaint({option, value}, 2);
  };
  for (const char* option : {"--explain", "--update", "--device", "--shares", "-o", "--exclude"}) {
    EXPECT_THAT(refused(option, ""), HasSubstr(option[1] == 'o' ? "--output" : option));
  }
  for (const char* shares : {"15/70/20", "1/2", "50/50", "a/b/c", "nan/0/100", "-1/1/100"}) {
    EXPECT_THAT(refused("--shares", shares), HasSubstr("100 in all"));
  }
  EXPECT_THAT(refused("--pin", "0x1"), HasSubstr("is not SITE=TIER"));
  EXPECT_THAT(refused("--pin", "0x1=lukewarm"), HasSubstr("none of the tiers"));
  for (const char* weight : {"--alpha", "--beta", "--gamma"}) {
    for (const char* value : {"-1", "nan", "inf", "1000001"}) {
      EXPECT_THAT(refused(weight, value), HasSubstr("from 0 to 1000000"));
    }
  }
  EXPECT_THAT(refused("--hot-sigma", "nan"), HasSubstr("from -1000000 to 1000000"));
  EXPECT_FALSE(std::filesystem::exists(Path("job.plan.json")));
}

TEST_F(PlanEdits, APlanOfAnotherJobIsNotReplaced) {
  ASSERT_EQ(Plan({}).code, 0);
  nlohmann::ordered_json json;
  std::ifstream(Path("job.plan.json")) >> json;
  for (int i = 0; i < 4; ++i) {
    json["sites"].push_back({{"id", "0x9" + std::to_string(i)}, {"label", "gone"}});
  }
  std::ofstream(Path("other.json")) << json;
  EXPECT_THAT(Complaint({"--update", "other.json"}),
              HasSubstr("other.json is of another job, or its program changed: 3 of its 7 sites"));
  EXPECT_EQ(Plan({"--update", "other.json", "-o", "new.json"}).code, 0);
}

TEST_F(PlanEdits, SharesAreOfTheBudget) {
  // Weights and state of 64 MiB each, the step's own 32: half of 160 MiB leaves one of them warm.
  ASSERT_EQ(Plan({"--shares", "0/50/50"}).code, 0);
  const plan::Plan plan = Read();
  ASSERT_TRUE(plan.hotness.has_value());
  EXPECT_EQ(plan.hotness->hot_share, 0);
  EXPECT_EQ(plan.hotness->warm_share, 0.5);
  EXPECT_LE(plan.warm_bytes, 80 * kMiB);
}

}  // namespace
}  // namespace ebt::test
