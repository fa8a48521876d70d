#include "src/plan/plan_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "src/plan/validator.h"

namespace ebt::plan {
namespace {

using nlohmann::ordered_json;

constexpr uint64_t kMiB = uint64_t{1} << 20;

Plan Small() {
  Plan plan;
  plan.program = "train.py";
  plan.gpu = "NVIDIA \"H200\"";
  plan.ebbtide = "0.1.0";
  plan.source = "run.ebt";
  plan.budget = 24 * kMiB;
  plan.overhead_bytes = 12345;
  plan.warm_bytes = 4 * kMiB;
  plan.cold_bytes = 2 * kMiB;
  plan.step_launches = 9;
  plan.native_step_ms = 12.25;
  plan.predicted_step_ms = 13.5;
  plan.max_live_bytes = 5 * kMiB;
  plan.planned_peak_bytes = 4 * kMiB + 512;
  plan.slab_bytes = 2 * kMiB;
  plan.slabs = {{.stay_offset = 2 * kMiB, .fetch_launch = 7, .evict_launch = 8, .gone_launch = 3}};
  plan.cleared = {{.sites = {0xfedcba9876543210u, 2},
                   .command = "train.py --batch 8",
                   .gpu = "NVIDIA \"H200\"",
                   .driver_version = 13000,
                   .ebbtide = "0.1.0",
                   .steps = 4}};
  plan.hotness = {{.forward = 1, .backward = 2.5, .coupling = 4}, 0.75, 0.125, 0.5};
  plan.sites = {{0xfedcba9876543210u, "optim/adamw.py:128 _init_group", Tier::kCold},
                {2, "ü\n"},
                {5, "x", std::nullopt, true}};
  plan.prologue = {{.site = 0xfedcba9876543210u,
                    .fingerprint = 0xffffffffffffffffu,
                    .ordinal = 3,
                    .bytes = 1000,
                    .stream = 7,
                    .launch = 11,
                    .tier = Tier::kCold,
                    .offset = 4 * kMiB,
                    .persistent = true,
                    .block_class = BlockClass::kOptimizerState,
                    .use = ColdUse::kPrefetch,
                    .fetch_launch = 2,
                    .evict_launch = 8,
                    .after = {0, 65535}}};
  plan.step = {{.site = 2, .bytes = 512, .tier = Tier::kHot},
               {.site = 2,
                .ordinal = 1,
                .bytes = 512,
                .launch = 4,
                .offset = 512,
                .block_class = BlockClass::kGradient},
               {.site = 5, .bytes = 1, .launch = 5, .tier = Tier::kNative}};
  return plan;
}

void ExpectEqual(const std::vector<Slot>& a, const std::vector<Slot>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].site, b[i].site);
    EXPECT_EQ(a[i].fingerprint, b[i].fingerprint);
    EXPECT_EQ(a[i].ordinal, b[i].ordinal);
    EXPECT_EQ(a[i].bytes, b[i].bytes);
    EXPECT_EQ(a[i].stream, b[i].stream);
    EXPECT_EQ(a[i].launch, b[i].launch);
    EXPECT_EQ(a[i].tier, b[i].tier);
    EXPECT_EQ(a[i].offset, b[i].offset);
    EXPECT_EQ(a[i].persistent, b[i].persistent);
    EXPECT_EQ(a[i].block_class, b[i].block_class);
    EXPECT_EQ(a[i].use, b[i].use);
    EXPECT_EQ(a[i].fetch_launch, b[i].fetch_launch);
    EXPECT_EQ(a[i].evict_launch, b[i].evict_launch);
    EXPECT_EQ(a[i].after, b[i].after);
  }
}

void ExpectEqual(const Plan& a, const Plan& b) {
  EXPECT_EQ(a.schema, b.schema);
  EXPECT_EQ(a.program, b.program);
  EXPECT_EQ(a.gpu, b.gpu);
  EXPECT_EQ(a.ebbtide, b.ebbtide);
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.budget, b.budget);
  EXPECT_EQ(a.overhead_bytes, b.overhead_bytes);
  EXPECT_EQ(a.warm_bytes, b.warm_bytes);
  EXPECT_EQ(a.cold_bytes, b.cold_bytes);
  EXPECT_EQ(a.step_launches, b.step_launches);
  EXPECT_EQ(a.native_step_ms, b.native_step_ms);
  EXPECT_EQ(a.predicted_step_ms, b.predicted_step_ms);
  EXPECT_EQ(a.max_live_bytes, b.max_live_bytes);
  EXPECT_EQ(a.planned_peak_bytes, b.planned_peak_bytes);
  ASSERT_EQ(a.sites.size(), b.sites.size());
  for (size_t i = 0; i < a.sites.size(); ++i) {
    EXPECT_EQ(a.sites[i].id, b.sites[i].id);
    EXPECT_EQ(a.sites[i].label, b.sites[i].label);
    EXPECT_EQ(a.sites[i].pin, b.sites[i].pin);
    EXPECT_EQ(a.sites[i].exclude, b.sites[i].exclude);
  }
  ASSERT_EQ(a.hotness.has_value(), b.hotness.has_value());
  if (a.hotness) {
    EXPECT_EQ(a.hotness->weights.forward, b.hotness->weights.forward);
    EXPECT_EQ(a.hotness->weights.backward, b.hotness->weights.backward);
    EXPECT_EQ(a.hotness->weights.coupling, b.hotness->weights.coupling);
    EXPECT_EQ(a.hotness->threshold, b.hotness->threshold);
    EXPECT_EQ(a.hotness->hot_share, b.hotness->hot_share);
    EXPECT_EQ(a.hotness->warm_share, b.hotness->warm_share);
  }
  ExpectEqual(a.prologue, b.prologue);
  ExpectEqual(a.step, b.step);
  EXPECT_EQ(a.slab_bytes, b.slab_bytes);
  ASSERT_EQ(a.slabs.size(), b.slabs.size());
  for (size_t i = 0; i < a.slabs.size(); ++i) {
    EXPECT_EQ(a.slabs[i].stay_offset, b.slabs[i].stay_offset);
    EXPECT_EQ(a.slabs[i].fetch_launch, b.slabs[i].fetch_launch);
    EXPECT_EQ(a.slabs[i].evict_launch, b.slabs[i].evict_launch);
    EXPECT_EQ(a.slabs[i].gone_launch, b.slabs[i].gone_launch);
  }
  ASSERT_EQ(a.cleared.size(), b.cleared.size());
  for (size_t i = 0; i < a.cleared.size(); ++i) {
    EXPECT_EQ(a.cleared[i].sites, b.cleared[i].sites);
    EXPECT_EQ(a.cleared[i].command, b.cleared[i].command);
    EXPECT_EQ(a.cleared[i].gpu, b.cleared[i].gpu);
    EXPECT_EQ(a.cleared[i].driver_version, b.cleared[i].driver_version);
    EXPECT_EQ(a.cleared[i].ebbtide, b.cleared[i].ebbtide);
    EXPECT_EQ(a.cleared[i].steps, b.cleared[i].steps);
  }
}

std::string ErrorOf(std::string_view text) {
  auto plan = PlanFromJson(text, "a.plan");
  return plan.ok() ? "no error" : std::string(plan.status().message());
}

TEST(PlanFileTest, PlanSurvivesTheWayThroughText) {
  auto plan = PlanFromJson(PlanToJson(Small()), "a.plan");
  ASSERT_TRUE(plan.ok()) << plan.status();
  ExpectEqual(*plan, Small());
}

TEST(PlanFileTest, EmptyPlanSurvivesToo) {
  auto plan = PlanFromJson(PlanToJson({}), "a.plan");
  ASSERT_TRUE(plan.ok()) << plan.status();
  ExpectEqual(*plan, {});
}

// As the first version wrote it.
constexpr char kSchemaOne[] = R"({
 "schema": 1,
 "program": "train.py",
 "gpu": "NVIDIA H200",
 "ebbtide": "0.1.0",
 "source": "run.ebp",
 "budget": 0,
 "overhead_bytes": 12345,
 "warm_bytes": 2097152,
 "cold_bytes": 2097152,
 "step_launches": 9,
 "max_live_bytes": 1512,
 "planned_peak_bytes": 2097152,
 "native_step_ms": 12.25,
 "predicted_step_ms": 13.5,
 "sites": [
  {"id":"0x2","label":"optim/adamw.py:128 _init_group"}
 ],
 "prologue": [
  {"site":"0x2","fingerprint":"0x20","ordinal":0,"bytes":1000,"launch":3,"tier":"cold","offset":2097152,"persistent":true,"class":"optimizer_state"}
 ],
 "step": [
  {"site":"0x3","ordinal":0,"bytes":512,"launch":4,"tier":"warm","offset":512}
 ]
}
)";

TEST(PlanFileTest, PlanOfTheFirstSchemaStillReadsAndHasNoSlabs) {
  auto plan = PlanFromJson(kSchemaOne, "a.plan");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->schema, 3);
  EXPECT_EQ(plan->cold_bytes, 2 * kMiB);
  ASSERT_EQ(plan->prologue.size(), 1u);
  EXPECT_EQ(plan->prologue[0].offset, 2 * kMiB);
  EXPECT_EQ(plan->prologue[0].block_class, BlockClass::kOptimizerState);
  ASSERT_EQ(plan->step.size(), 1u);
  EXPECT_EQ(plan->slab_bytes, 0u);
  EXPECT_TRUE(plan->slabs.empty());
  EXPECT_TRUE(plan->cleared.empty());
  EXPECT_TRUE(CheckPlan(*plan).ok()) << CheckPlan(*plan);
  EXPECT_FALSE(plan->hotness.has_value());
  EXPECT_NE(PlanToJson(*plan).find("\"schema\": 3"), std::string::npos);
}

// As the second version wrote it.
constexpr char kSchemaTwo[] = R"({
 "schema": 2,
 "program": "train.py",
 "gpu": "NVIDIA H200",
 "ebbtide": "0.1.0",
 "source": "run.ebp",
 "budget": 25769803776,
 "overhead_bytes": 12345,
 "warm_bytes": 4194304,
 "cold_bytes": 2097152,
 "step_launches": 9,
 "max_live_bytes": 1512,
 "planned_peak_bytes": 4194304,
 "native_step_ms": 12.25,
 "predicted_step_ms": 13.5,
 "slab_bytes": 2097152,
 "slabs": [
  {"stay_offset":2097152,"fetch_launch":7,"evict_launch":8,"gone_launch":3}
 ],
 "cleared": [
  {"command":"train.py","gpu":"NVIDIA H200","driver_version":13000,"ebbtide":"0.1.0","steps":4,"sites":["0x2"]}
 ],
 "sites": [
  {"id":"0x2","label":"optim/adamw.py:128 _init_group"}
 ],
 "prologue": [
  {"site":"0x2","fingerprint":"0x20","ordinal":0,"bytes":1000,"launch":3,"tier":"cold","offset":4194304,"persistent":true,"class":"optimizer_state"}
 ],
 "step": [
  {"site":"0x3","ordinal":0,"bytes":512,"stream":1,"launch":4,"tier":"warm","offset":512}
 ]
}
)";

TEST(PlanFileTest, PlanOfTheSecondSchemaStillReadsAndHasNoEdits) {
  auto plan = PlanFromJson(kSchemaTwo, "a.plan");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->schema, 3);
  EXPECT_EQ(plan->budget, uint64_t{24} << 30);
  ASSERT_EQ(plan->slabs.size(), 1u);
  EXPECT_EQ(plan->slabs[0].gone_launch, 3u);
  ASSERT_EQ(plan->cleared.size(), 1u);
  EXPECT_EQ(plan->cleared[0].sites, std::vector<uint64_t>{2});
  ASSERT_EQ(plan->sites.size(), 1u);
  EXPECT_FALSE(plan->sites[0].pin.has_value());
  EXPECT_FALSE(plan->sites[0].exclude);
  ASSERT_EQ(plan->step.size(), 1u);
  EXPECT_EQ(plan->step[0].stream, 1);
  EXPECT_TRUE(plan->step[0].after.empty());
  EXPECT_FALSE(plan->hotness.has_value());
  EXPECT_TRUE(CheckPlan(*plan).ok()) << CheckPlan(*plan);
}

// As this version writes it.
constexpr char kSchemaThree[] = R"({
 "schema": 3,
 "program": "train.py",
 "gpu": "NVIDIA H200",
 "ebbtide": "0.1.0",
 "source": "run.ebp",
 "budget": 0,
 "overhead_bytes": 12345,
 "warm_bytes": 2097152,
 "cold_bytes": 0,
 "step_launches": 9,
 "max_live_bytes": 1512,
 "planned_peak_bytes": 2097152,
 "native_step_ms": 12.25,
 "predicted_step_ms": 13.5,
 "hotness": {"alpha":1,"beta":2,"gamma":4,"sigma":0.5,"hot_share":0.15,"warm_share":0.7},
 "slab_bytes": 0,
 "slabs": [
 ],
 "cleared": [
 ],
 "sites": [
  {"id":"0x2","label":"optim/adamw.py:128 _init_group","pin":"warm"},
  {"id":"0x3","label":"x","exclude":true}
 ],
 "prologue": [
  {"site":"0x2","fingerprint":"0x20","ordinal":0,"bytes":1000,"launch":3,"tier":"warm","offset":0,"persistent":true,"class":"optimizer_state"}
 ],
 "step": [
  {"site":"0x3","ordinal":0,"bytes":512,"stream":1,"launch":4,"tier":"warm","offset":1024,"after":[0,2]}
 ]
}
)";

TEST(PlanFileTest, PlanOfTheThirdSchemaReadsAndIsWrittenTheSame) {
  auto plan = PlanFromJson(kSchemaThree, "a.plan");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->sites[0].pin, Tier::kWarm);
  EXPECT_TRUE(plan->sites[1].exclude);
  EXPECT_EQ(plan->step[0].after, (std::vector<uint16_t>{0, 2}));
  ASSERT_TRUE(plan->hotness.has_value());
  EXPECT_EQ(plan->hotness->weights.coupling, 4);
  EXPECT_EQ(plan->hotness->warm_share, 0.7);
  EXPECT_TRUE(CheckPlan(*plan).ok()) << CheckPlan(*plan);
  EXPECT_EQ(ordered_json::parse(PlanToJson(*plan)), ordered_json::parse(kSchemaThree));
}

TEST(PlanFileTest, NegativeZeroIsZero) {
  std::string text = kSchemaThree;
  text.replace(text.find("\"alpha\":1"), 9, "\"alpha\":-0.0");
  const auto plan = PlanFromJson(text, "a.plan");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto again = PlanFromJson(PlanToJson(*plan), "a.plan");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(PlanToJson(*again), PlanToJson(*plan));
}

TEST(PlanFileTest, OlderSchemasHaveNoKeysOfTheThird) {
  for (const char* key : {"\"pin\":\"warm\"", "\"exclude\":true"}) {
    std::string text = kSchemaTwo;
    text.replace(text.find("\"label\""), 0, std::string(key) + ",");
    EXPECT_NE(ErrorOf(text).find("sites[0]."), std::string::npos) << ErrorOf(text);
  }
}

TEST(PlanFileTest, EverySlabAndClearanceIsALine) {
  const std::string text = PlanToJson(Small());
  EXPECT_NE(text.find("\n  {\"stay_offset\":2097152,\"fetch_launch\":7,\"evict_launch\":8,"
                      "\"gone_launch\":3}\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n  {\"command\":\"train.py --batch 8\",\"gpu\":\"NVIDIA \\\"H200\\\"\","
                      "\"driver_version\":13000,\"ebbtide\":\"0.1.0\",\"steps\":4,"
                      "\"sites\":[\"0xfedcba9876543210\",\"0x2\"]}\n"),
            std::string::npos)
      << text;
}

TEST(PlanFileTest, EverySlotIsALine) {
  const std::string text = PlanToJson(Small());
  EXPECT_NE(text.find("\n  {\"site\":\"0x2\",\"ordinal\":0,\"bytes\":512,\"launch\":0,"
                      "\"tier\":\"hot\",\"offset\":0},\n"),
            std::string::npos)
      << text;
}

TEST(PlanFileTest, BytesThatAreNoUtf8StillMakeJson) {
  Plan plan = Small();
  plan.program = "a\xff";
  EXPECT_TRUE(PlanFromJson(PlanToJson(plan), "a.plan").ok());
}

TEST(PlanFileTest, ErrorsSayWhereAndWhy) {
  auto damaged = [](auto damage) {
    ordered_json json = ordered_json::parse(PlanToJson(Small()));
    damage(json);
    return ErrorOf(json.dump());
  };
  EXPECT_EQ(damaged([](auto& j) { j["step"][1]["tier"] = "warn"; }),
            "a.plan: step[1].tier: \"warn\" is none of hot, warm, cold, native");
  EXPECT_EQ(damaged([](auto& j) { j["prologue"][0].erase("bytes"); }),
            "a.plan: prologue[0].bytes: is missing");
  EXPECT_EQ(damaged([](auto& j) { j["step"][1].erase("offset"); }),
            "a.plan: step[1].offset: is missing");
  EXPECT_EQ(damaged([](auto& j) { j["step"][0]["persistant"] = true; }),
            "a.plan: step[0].persistant: is not a key that is known here");
  EXPECT_EQ(damaged([](auto& j) { j["step"][0]["bytes"] = -1; }),
            "a.plan: step[0].bytes: -1 is out of range");
  EXPECT_EQ(damaged([](auto& j) { j["step"][0]["stream"] = 65536; }),
            "a.plan: step[0].stream: 65536 is out of range");
  EXPECT_EQ(damaged([](auto& j) { j["step"][0]["site"] = "0x1g"; }),
            "a.plan: step[0].site: \"0x1g\" is not a hexadecimal number such as \"0x1f\"");
  EXPECT_EQ(damaged([](auto& j) { j["schema"] = 4; }),
            "a.plan: schema: 4 is none of the versions 1 to 3 that this Ebbtide reads: plan again");
  EXPECT_EQ(damaged([](auto& j) { j["schema"] = 0; }),
            "a.plan: schema: 0 is none of the versions 1 to 3 that this Ebbtide reads: plan again");
  EXPECT_EQ(damaged([](auto& j) { j["schema"] = 1; }),
            "a.plan: sites[0].pin: is not a key that is known here");
  EXPECT_EQ(damaged([](auto& j) { j["sites"][0]["pin"] = "up"; }),
            "a.plan: sites[0].pin: \"up\" is none of hot, warm, cold, native");
  EXPECT_EQ(damaged([](auto& j) { j["sites"][0]["exclude"] = 1; }),
            "a.plan: sites[0].exclude: 1 is not true or false");
  EXPECT_EQ(damaged([](auto& j) { j["prologue"][0]["after"] = 1; }),
            "a.plan: prologue[0].after: 1 is not a list");
  EXPECT_EQ(damaged([](auto& j) { j["prologue"][0]["after"][1] = 65536; }),
            "a.plan: prologue[0].after: 65536 is out of range");
  EXPECT_EQ(damaged([](auto& j) { j["prologue"][0]["after"][1] = -1; }),
            "a.plan: prologue[0].after: -1 is not a small number");
  EXPECT_EQ(damaged([](auto& j) { j["hotness"]["alpha"] = "1"; }),
            "a.plan: hotness.alpha: \"1\" is not a number");
  EXPECT_EQ(damaged([](auto& j) { j["hotness"]["delta"] = 1; }),
            "a.plan: hotness.delta: is not a key that is known here");
  EXPECT_EQ(damaged([](auto& j) { j["hotness"] = 1; }), "a.plan: hotness: is not an object");
  EXPECT_EQ(damaged([](auto& j) { j["slabs"][0]["gone_launch"] = -1; }),
            "a.plan: slabs[0].gone_launch: -1 is out of range");
  EXPECT_EQ(damaged([](auto& j) { j["slabs"][0]["site"] = 1; }),
            "a.plan: slabs[0].site: is not a key that is known here");
  EXPECT_EQ(damaged([](auto& j) { j["cleared"][0]["sites"][1] = 2; }),
            "a.plan: cleared[0].sites: 2 is not a hexadecimal number such as \"0x1f\"");
  EXPECT_EQ(damaged([](auto& j) { j["step"] = 1; }), "a.plan: step: 1 is not a list");
  EXPECT_EQ(damaged([](auto& j) { j["step"][2] = 1; }), "a.plan: step[2]: is not an object");
  EXPECT_EQ(damaged([](auto& j) { j["native_step_ms"] = -2; }),
            "a.plan: native_step_ms: -2 is not a duration");
  EXPECT_EQ(damaged([](auto& j) { j["sites"][1]["label"] = ordered_json::array(); }),
            "a.plan: sites[1].label: is not text");
  const std::string cut = ErrorOf("{\"schema\": 1,");  // 13 bytes; the key is missed at the next
  EXPECT_EQ(cut.find("a.plan: line 1, byte 14: not JSON: unexpected end of input"), 0u) << cut;
  EXPECT_EQ(ErrorOf("[]"), "a.plan: is not an object");
}

TEST(PlanFileTest, SyntaxErrorsSpeakOfTheFileAndNotOfTheParser) {
  const std::string syntax = ErrorOf("{\n \"schema\": 1\n \"budget\": 0}");  // no comma
  EXPECT_EQ(syntax.find("a.plan: line 3, byte "), 0u) << syntax;
  const std::string number = ErrorOf("{\"native_step_ms\": 1e999}");
  EXPECT_EQ(number, "a.plan: not JSON: number overflow parsing '1e999'");
  for (const std::string& error :
       {syntax, number, ErrorOf(""), ErrorOf("\xff"), ErrorOf(std::string(1000, '"'))}) {
    EXPECT_EQ(error.find("json.exception"), std::string::npos) << error;
    EXPECT_LT(error.size(), 200u) << error;
  }
  EXPECT_LT(ErrorOf('"' + std::string(100'000, 'x')).size(), 200u) << "quotes what it cannot end";
}

// Puts a wrong value into `json`'s member at `pointer` and expects an error that names it.
void ExpectDamageIsFound(const ordered_json& whole, const ordered_json::json_pointer& pointer) {
  for (const ordered_json& wrong :
       {ordered_json(nullptr), ordered_json::array({1}), ordered_json({{"x", 1}}),
        ordered_json(-5.5), ordered_json("\x01")}) {
    ordered_json json = whole;
    if (pointer.back() == "after" && wrong.is_array()) continue;  // [1] is a list of streams
    const bool text = json[pointer].is_string() && wrong.is_string();
    json[pointer] = wrong;
    const std::string key = pointer.back();
    const bool free_text = key == "program" || key == "gpu" || key == "ebbtide" ||
                           key == "source" || key == "label" || key == "command";
    if (text && free_text) continue;
    const std::string error = ErrorOf(json.dump());
    EXPECT_NE(error.find(key), std::string::npos) << pointer.to_string() << ": " << error;
  }
  ordered_json json = whole;
  json[pointer.parent_pointer()].erase(pointer.back());
  const std::string error = ErrorOf(json.dump());
  const std::string key = pointer.back();
  const bool of_slab = pointer.to_string().rfind("/slabs/", 0) == 0;
  const bool optional =
      !of_slab && (key == "fingerprint" || key == "stream" || key == "persistent" ||
                   key == "class" || key == "use" || key == "fetch_launch" ||
                   key == "evict_launch" || key == "pin" || key == "after" || key == "hotness");
  EXPECT_NE(error.find(optional ? "no error" : key + ": is missing"), std::string::npos) << error;
}

TEST(PlanFileTest, EveryDamagedFieldIsAnError) {
  const ordered_json whole = ordered_json::parse(PlanToJson(Small()));
  for (const auto& [key, value] : whole.items()) {
    const ordered_json::json_pointer pointer("/" + key);
    ExpectDamageIsFound(whole, pointer);
    if (!value.is_array()) continue;
    for (const auto& [member, ignored] : value[0].items()) {
      ExpectDamageIsFound(whole, pointer / 0 / member);
    }
  }
}

TEST(PlanFileTest, EveryTruncationIsAnError) {
  const std::string text = PlanToJson(Small());
  for (size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_NE(ErrorOf(text.substr(0, length)), "no error") << length;
  }
}

TEST(PlanFileTest, DeepNestingIsRefused) {
  EXPECT_NE(ErrorOf(std::string(100'000, '[')).find("nested"), std::string::npos);
}

TEST(PlanFileTest, WrittenFileReadsBackAndLeavesNothingElse) {
  char folder[] = "/tmp/plan_file_test.XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/a.plan";
  ASSERT_TRUE(WritePlan(Small(), path).ok());
  ASSERT_TRUE(WritePlan(Small(), path).ok());  // over the old one
  auto plan = ReadPlan(path);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ExpectEqual(*plan, Small());
  EXPECT_EQ(unlink(path.c_str()), 0);
  EXPECT_EQ(rmdir(folder), 0) << "a temporary file was left behind";
}

TEST(PlanFileTest, FilesThatCannotBeReadOrWrittenSayWhich) {
  const std::string path = "/nonexistent/a.plan";
  EXPECT_EQ(ReadPlan(path).status().message(),
            "/nonexistent/a.plan: cannot be opened: No such file or directory");
  EXPECT_NE(WritePlan({}, path).message().find("/nonexistent/a.plan"), std::string::npos);
  EXPECT_NE(ReadPlan("/tmp").status().message().find("/tmp: cannot be read"), std::string::npos);
}

TEST(PlanFileTest, TwentyThousandSlotsReadQuickly) {
  Plan plan = Small();
  for (uint32_t i = 0; i < 20'000; ++i) {
    Slot slot = plan.step[1];
    slot.ordinal = i + 2;
    plan.step.push_back(slot);
  }
  const std::string text = PlanToJson(plan);
  EXPECT_LT(text.size(), 4 * kMiB);
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(PlanFromJson(text, "a.plan").ok());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  RecordProperty("milliseconds", int(took.count() * 1e3));
  EXPECT_LT(took.count(), 5) << "even unoptimized and on a busy machine";
}

}  // namespace
}  // namespace ebt::plan
