// `ebbtide pack` on tables whose best packing is known, and on what is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/plan/pack_csv.h"
#include "tests/preload/run_process.h"
#include "tests/unit/perfect_packing.h"

namespace ebt::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Live at once: 3 + 4 from 1 to 2, 4 + 3 from 2 to 3.
constexpr const char* kSmall = "lower,id,upper,size\n0,a,2,3\n1,b,3,4\n2,c,4,3\n";

class PackCommand : public testing::Test {
 protected:
  void SetUp() override { folder_ = FreshFolder(); }

  Outcome Pack(std::vector<std::string> words) {
    words.insert(words.begin(), {Product("ebbtide"), "pack"});
    return RunProcess(words, {}, folder_);
  }
  std::string Put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
    return name;
  }
  std::string Get(const std::string& name) {
    std::stringstream text;
    text << std::ifstream(folder_ + "/" + name, std::ios::binary).rdbuf();
    return text.str();
  }

  std::string folder_;
};

TEST_F(PackCommand, PeakAndBoundArePrintedAndOffsetsWritten) {
  const Outcome outcome = Pack({Put("t.csv", kSmall), "--json", "-o", "out.csv"});
  ASSERT_EQ(outcome.code, 0) << outcome;
  const json out = json::parse(outcome.out);
  EXPECT_EQ(out["peak"], 7);
  EXPECT_EQ(out["lower_bound"], 7);
  EXPECT_EQ(out["items"], 3);
  EXPECT_EQ(out["fits"], true);
  EXPECT_TRUE(out["seconds"].is_number());
  const std::string written = Get("out.csv");
  // b lies above or below the two others, which share a place.
  EXPECT_TRUE(written == "lower,id,upper,size,offset\n0,a,2,3,4\n1,b,3,4,0\n2,c,4,3,4\n" ||
              written == "lower,id,upper,size,offset\n0,a,2,3,0\n1,b,3,4,3\n2,c,4,3,0\n")
      << written;
}

TEST_F(PackCommand, WithoutJsonPeopleReadTheSameNumbers) {
  const Outcome outcome = Pack({Put("t.csv", kSmall)});
  ASSERT_EQ(outcome.code, 0) << outcome;
  EXPECT_THAT(outcome.out, HasSubstr("peak         7\nlower bound  7\n"));
}

TEST_F(PackCommand, ACutUpSquareFitsIntoItsCapacity) {
  const plan::PerfectPacking perfect =
      plan::Cutter({.seed = 12, .pieces = 120, .dropped_percent = 5}).Cut();
  std::string text = "id,lower,upper,size\n";
  for (size_t i = 0; i < perfect.items.size(); ++i) {
    const plan::Item& item = perfect.items[i];
    text += std::to_string(i) + "," + std::to_string(item.live[0].begin) + "," +
            std::to_string(item.live[0].end) + "," + std::to_string(item.bytes) + "\n";
  }
  const std::string capacity = std::to_string(perfect.capacity);
  const Outcome outcome = Pack({Put("t.csv", text), "--capacity", capacity, "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome;
  EXPECT_LE(json::parse(outcome.out)["peak"], perfect.capacity);
}

TEST_F(PackCommand, ACapacityBelowTheBoundIsOneLine) {
  const Outcome outcome = Pack({Put("t.csv", kSmall), "--capacity", "6", "-o", "out.csv"});
  EXPECT_EQ(outcome.code, 1) << outcome;
  EXPECT_EQ(outcome.err, "ebbtide: t.csv: cannot fit into 6: 7 are live at once\n");
  EXPECT_EQ(Get("out.csv"), "");
}

TEST_F(PackCommand, WhatIsNoTableIsRefusedWithItsLine) {
  Outcome outcome = Pack({Put("t.csv", "id,lower,upper,size\n0,4,2,1\n")});
  EXPECT_EQ(outcome.code, 125) << outcome;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "ebbtide: t.csv:2: upper 2 is not above lower 4\n");
  outcome = Pack({"none.csv"});
  EXPECT_EQ(outcome.code, 125) << outcome;
  EXPECT_EQ(outcome.err, "ebbtide: none.csv: cannot be opened: No such file or directory\n");
}

TEST_F(PackCommand, NumbersThatMeanNothingAreABadCommandLine) {
  Put("t.csv", kSmall);
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--seconds", "nan"}, {"--seconds", "-1"}, {"--capacity", "0"}, {"-o", ""}}) {
    const Outcome outcome = Pack({"t.csv", words[0], words[1]});
    EXPECT_EQ(outcome.code, 2) << outcome;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(words[0] == "-o" ? "--output" : words[0]));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome;
  }
}

TEST_F(PackCommand, WhatCannotBeWrittenIsSaidBeforeTheSearch) {
  Outcome outcome = Pack({Put("t.csv", kSmall), "-o", "."});
  EXPECT_EQ(outcome.code, 125) << outcome;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "ebbtide: . is a folder: name a file in it\n");
  outcome = Pack({"t.csv", "-o", "none/out.csv"});
  EXPECT_EQ(outcome.code, 125) << outcome;
  EXPECT_EQ(outcome.err, "ebbtide: none/out.csv cannot be created: there is no folder none\n");
}

TEST_F(PackCommand, TheTableIsNeverOverwritten) {
  const Outcome outcome = Pack({Put("t.csv", kSmall), "-o", "./t.csv"});
  EXPECT_EQ(outcome.code, 125) << outcome;
  EXPECT_EQ(Get("t.csv"), kSmall);
}

}  // namespace
}  // namespace ebt::test
