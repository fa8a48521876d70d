// profiles/plan.schema.json says what the reader reads: what is written passes, what the reader
// refuses fails. Checked here by the few words of JSON Schema that the file uses.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "src/plan/plan_file.h"
#include "tests/unit/training_profile.h"
#include "tests/unit/valid_plan.h"

namespace ebt::plan {
namespace {

using nlohmann::json;

class SchemaCheck {
 public:
  explicit SchemaCheck(json schema) : root_(std::move(schema)) {}

  bool Passes(const json& value) const { return Passes(value, root_); }

 private:
  bool Passes(const json& value, const json& schema) const {
    if (schema.contains("$ref")) {
      const std::string name = schema["$ref"];
      return Passes(value, root_.at(json::json_pointer(name.substr(1))));
    }
    if (schema.contains("type") && !HasType(value, schema["type"])) return false;
    for (const auto& [word, rule] : schema.items()) {
      if (!PassesWord(value, word, rule, schema)) return false;
    }
    return true;
  }

  bool PassesWord(const json& value, const std::string& word, const json& rule,
                  const json& schema) const {
    static const std::set<std::string> kAside = {
        "$schema", "title", "description", "definitions", "additionalProperties", "type"};
    if (kAside.contains(word)) return true;
    if (word == "enum") return std::find(rule.begin(), rule.end(), value) != rule.end();
    if (word == "minimum") return value.get<double>() >= rule.get<double>();
    if (word == "maximum") return value.get<double>() <= rule.get<double>();
    if (word == "multipleOf") return std::fmod(value.get<double>(), rule.get<double>()) == 0;
    if (word == "pattern") {
      return std::regex_match(value.get<std::string>(), std::regex(rule.get<std::string>()));
    }
    if (word == "maxItems") return value.size() <= rule.get<size_t>();
    if (word == "items") {
      return std::all_of(value.begin(), value.end(),
                         [&](const json& item) { return Passes(item, rule); });
    }
    if (word == "required") {
      return std::all_of(rule.begin(), rule.end(),
                         [&](const json& key) { return value.contains(key.get<std::string>()); });
    }
    if (word == "properties") return PassesProperties(value, rule, schema);
    ADD_FAILURE() << "the schema uses a word that is not checked: " << word;
    return false;
  }

  bool PassesProperties(const json& value, const json& rule, const json& schema) const {
    for (const auto& [key, member] : value.items()) {
      if (rule.contains(key) ? !Passes(member, rule[key])
                             : schema.value("additionalProperties", true) == false) {
        return false;
      }
    }
    return true;
  }

  static bool HasType(const json& value, const json& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return value.is_number_integer();
    return type == "number" && value.is_number();
  }

  const json root_;
};

const SchemaCheck& Schema() {
  static const SchemaCheck schema(
      json::parse(std::ifstream(std::string(EBT_PROFILES) + "/plan.schema.json")));
  return schema;
}

// With slabs, streams, edits and a clearance: every key of the grammar.
Plan Full() {
  profile::Training training({.layers = 6,
                              .steps = 5,
                              .optimizer = profile::Optimizer::kLoop,
                              .weight = uint64_t{5} << 20,
                              .activation = uint64_t{20} << 20});
  for (profile::Block& block : training.profile.blocks) {
    block.stream = uint16_t(block.site % 3);
    block.free_stream = uint16_t(block.site % 2);
  }
  PlanOptions options;
  options.warm_share = 0.9;
  options.pinned = {{profile::kActivationSite, Tier::kHot}};
  options.excluded = {profile::kBatchSite};
  Plan plan = ValidPlan(training.profile, options).plan;
  plan.cleared = {{.sites = {profile::kStateSite}, .command = "train.py", .steps = 4}};
  for (Slot& slot : plan.prologue) {
    if (slot.tier != Tier::kCold) continue;
    slot.use = ColdUse::kPrefetch;
    slot.fetch_launch = 3;
    slot.evict_launch = 5;
    break;
  }
  return plan;
}

TEST(PlanSchemaTest, WhatIsWrittenPasses) {
  const json full = json::parse(PlanToJson(Full()));
  EXPECT_TRUE(Schema().Passes(full));
  EXPECT_FALSE(full["slabs"].empty());
  for (const char* text : {"\"after\":", "\"pin\":", "\"exclude\":", "\"warm_share\":", "\"use\":",
                           "\"evict_launch\":", "\"fingerprint\":", "\"persistent\":"}) {
    EXPECT_NE(full.dump().find(text), std::string::npos) << text;
  }
  EXPECT_TRUE(Schema().Passes(json::parse(PlanToJson(Plan{}))));
}

TEST(PlanSchemaTest, WhatTheReaderRefusesFails) {
  const json full = json::parse(PlanToJson(Full()));
  const std::vector<std::pair<const char*, json>> damages = {
      {"/schema", 2},
      {"/warm_bytes", 3},
      {"/budget", -1},
      {"/native_step_ms", "1"},
      {"/unknown", 1},
      {"/slab_bytes", 4096},
      {"/slabs/0/fetch_launch", -1},
      {"/slabs/0/more", 1},
      {"/cleared/0/sites/0", 2},
      {"/sites/0/id", "12"},
      {"/sites/0/pin", "native"},
      {"/sites/0/exclude", 1},
      {"/hotness/hot_share", 1.5},
      {"/hotness/delta", 1},
      {"/prologue/0/tier", "warn"},
      {"/prologue/0/class", "weights"},
      {"/prologue/0/after", json::array({-1})},
      {"/prologue/0/after", json::array({65536})},
      {"/step/0/persistant", true},
      {"/step/0/site", "0x12345678901234567"}};
  for (const auto& [pointer, wrong] : damages) {
    json damaged = full;
    damaged[json::json_pointer(pointer)] = wrong;
    EXPECT_FALSE(Schema().Passes(damaged)) << pointer;
    const auto read = PlanFromJson(damaged.dump(), "a.plan");
    EXPECT_FALSE(read.ok() && CheckPlan(*read).ok()) << pointer << " reads";
  }
}

TEST(PlanSchemaTest, EveryKeyThatIsRequiredIsMissedByBoth) {
  const json full = json::parse(PlanToJson(Full()));
  for (const char* place : {"", "/hotness", "/slabs/0", "/cleared/0", "/sites/0", "/step/0"}) {
    const json::json_pointer pointer(place);
    for (const auto& [key, value] : full[pointer].items()) {
      json damaged = full;
      damaged[pointer].erase(key);
      const auto read = PlanFromJson(damaged.dump(), "a.plan");
      // A native slot alone has no offset: the schema cannot say so.
      if (key == "offset") continue;
      EXPECT_EQ(Schema().Passes(damaged), read.ok()) << place << "/" << key << read.status();
    }
  }
}

}  // namespace
}  // namespace ebt::plan
