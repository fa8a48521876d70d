// Plans as files: JSON that people can read, edit and diff, one slot a line.
//
//   {
//    "schema": 3,
//    "program": "python3.12[ab12cd34]:train.py", "gpu": …, "ebbtide": …, "source": …,
//    "budget": 0, "overhead_bytes": …, "warm_bytes": …, "cold_bytes": …, "step_launches": …,
//    "native_step_ms": …, "predicted_step_ms": …, "max_live_bytes": …, "planned_peak_bytes": …,
//    "hotness": {"alpha":1,"beta":2,"gamma":1,"sigma":0.5,"hot_share":0.15},
//    "slab_bytes": 33554432,
//    "slabs": [
//     {"stay_offset":0,"fetch_launch":700,"evict_launch":912,"gone_launch":61}, …
//    ],
//    "cleared": [
//     {"command":"python train.py","gpu":…,"driver_version":13000,"ebbtide":…,"steps":4,
//      "sites":["0x…", …]}, …
//    ],
//    "sites": [
//     {"id":"0x…","label":"optim/adamw.py:128 _init_group","pin":"warm"}, …
//    ],
//    "prologue": [
//     {"site":"0x…","fingerprint":"0x…","ordinal":0,"bytes":512,"stream":1,"launch":0,
//      "tier":"warm","offset":0,"persistent":true,"class":"parameter"}, …
//    ],
//    "step": [ … ]
//   }
// profiles/PLAN.md says what each key means and which may be left out, plan.schema.json beside it
// the same for programs. Numbers of 64 bits that are no sizes are hexadecimal text, so that no
// reader rounds them. Every older schema still reads.
#ifndef EBBTIDE_SRC_PLAN_PLAN_FILE_H_
#define EBBTIDE_SRC_PLAN_PLAN_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/plan/plan.h"

namespace ebt::plan {

inline constexpr uint64_t kMaxPlanFileBytes = uint64_t{256} << 20;
inline constexpr uint64_t kMaxPlanSlots = 4'000'000;  // of each sequence
inline constexpr uint64_t kMaxPlanSlabs = 1'000'000;
inline constexpr uint64_t kMaxClearances = 10'000;
inline constexpr int kOldestSchema = 1;  // that is read

std::string PlanToJson(const Plan& plan);

// The plan that `text` holds. `name` stands for the file in errors, which say where and why:
// "gpt2.plan.json: step[17].tier: "warn" is none of hot, warm, cold, native". Unknown keys are
// errors, since a misspelt one would silently mean its default. The plan's sense is CheckPlan's.
// A plan of an older schema is one of kSchemaVersion when it has been read.
absl::StatusOr<Plan> PlanFromJson(std::string_view text, const std::string& name);

// Reads at most kMaxPlanFileBytes.
absl::StatusOr<Plan> ReadPlan(const std::string& path);

// Writes a temporary file beside `path` and renames it, so that no reader sees half a plan.
absl::Status WritePlan(const Plan& plan, const std::string& path);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_PLAN_FILE_H_
