#include "src/plan/plan_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "src/plan/planner.h"

namespace ebt::plan {
namespace {

// A JSON string literal; bytes that are no UTF-8 become U+FFFD.
std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The words of the file. They are not those for people: a file's words never change.
const char* ClassWord(BlockClass block_class) {
  return block_class == BlockClass::kOptimizerState ? "optimizer_state" : ClassName(block_class);
}

const char* UseWord(ColdUse use) { return use == ColdUse::kPrefetch ? "prefetch" : "in_place"; }

using Text = fmt::memory_buffer;

void AddSlot(const Slot& slot, Text& out) {
  auto to = std::back_inserter(out);
  fmt::format_to(to, "  {{\"site\":\"{:#x}\"", slot.site);
  if (slot.fingerprint != 0) fmt::format_to(to, ",\"fingerprint\":\"{:#x}\"", slot.fingerprint);
  fmt::format_to(to, ",\"ordinal\":{},\"bytes\":{}", slot.ordinal, slot.bytes);
  if (slot.stream != 0) fmt::format_to(to, ",\"stream\":{}", slot.stream);
  fmt::format_to(to, ",\"launch\":{},\"tier\":\"{}\"", slot.launch, TierName(slot.tier));
  if (slot.tier != Tier::kNative && !slot.dynamic) {
    fmt::format_to(to, ",\"offset\":{}", slot.offset);
  }
  if (slot.dynamic) fmt::format_to(to, ",\"dynamic\":true");
  if (slot.persistent) fmt::format_to(to, ",\"persistent\":true");
  if (slot.block_class != BlockClass::kOther) {
    fmt::format_to(to, ",\"class\":\"{}\"", ClassWord(slot.block_class));
  }
  if (slot.use != ColdUse::kInPlace) fmt::format_to(to, ",\"use\":\"{}\"", UseWord(slot.use));
  if (slot.fetch_launch != -1) fmt::format_to(to, ",\"fetch_launch\":{}", slot.fetch_launch);
  if (slot.evict_launch != -1) fmt::format_to(to, ",\"evict_launch\":{}", slot.evict_launch);
  if (!slot.after.empty()) fmt::format_to(to, ",\"after\":[{}]", fmt::join(slot.after, ","));
  if (slot.room_bytes != 0) fmt::format_to(to, ",\"room_bytes\":{}", slot.room_bytes);
  fmt::format_to(to, "}}");
}

void AddSlab(const Slab& slab, Text& out) {
  fmt::format_to(std::back_inserter(out),
                 "  {{\"stay_offset\":{},\"fetch_launch\":{},\"evict_launch\":{},"
                 "\"gone_launch\":{}}}",
                 slab.stay_offset, slab.fetch_launch, slab.evict_launch, slab.gone_launch);
}

void AddSite(const Site& site, Text& out) {
  auto to = std::back_inserter(out);
  fmt::format_to(to, "  {{\"id\":\"{:#x}\",\"label\":{}", site.id, Quoted(site.label));
  if (site.pin) fmt::format_to(to, ",\"pin\":\"{}\"", TierName(*site.pin));
  if (site.exclude) fmt::format_to(to, ",\"exclude\":true");
  fmt::format_to(to, "}}");
}

void AddHotness(const HotnessRule& rule, Text& out) {
  auto to = std::back_inserter(out);
  fmt::format_to(to,
                 " \"hotness\": {{\"alpha\":{},\"beta\":{},\"gamma\":{},\"sigma\":{},"
                 "\"hot_share\":{}",
                 rule.weights.forward, rule.weights.backward, rule.weights.coupling, rule.threshold,
                 rule.hot_share);
  if (rule.warm_share) fmt::format_to(to, ",\"warm_share\":{}", *rule.warm_share);
  fmt::format_to(to, "}},\n");
}

void AppendClearance(const Clearance& cleared, Text& out) {
  auto to = std::back_inserter(out);
  fmt::format_to(to, "  {{\"command\":{},\"gpu\":{},\"driver_version\":{},\"ebbtide\":{}",
                 Quoted(cleared.command), Quoted(cleared.gpu), cleared.driver_version,
                 Quoted(cleared.ebbtide));
  fmt::format_to(to, ",\"steps\":{},\"sites\":[", cleared.steps);
  for (size_t i = 0; i < cleared.sites.size(); ++i) {
    fmt::format_to(to, "{}\"{:#x}\"", i == 0 ? "" : ",", cleared.sites[i]);
  }
  fmt::format_to(to, "]}}");
}

template <typename T, typename Add>
void AddList(const char* key, const std::vector<T>& list, Text& out, Add add) {
  fmt::format_to(std::back_inserter(out), " \"{}\": [", key);
  for (size_t i = 0; i < list.size(); ++i) {
    out.append(std::string_view(i == 0 ? "\n" : ",\n"));
    add(list[i], out);
  }
  fmt::format_to(std::back_inserter(out), "\n ]");
}

struct FileCloser {
  void operator()(FILE* file) const { fclose(file); }
};
using File = std::unique_ptr<FILE, FileCloser>;

absl::Status FileError(const std::string& path, const char* what) {
  return absl::UnavailableError(
      fmt::format("{}: cannot be {}: {}", path, what, std::strerror(errno)));
}

}  // namespace

std::string PlanToJson(const Plan& plan) {
  Text out;
  auto to = std::back_inserter(out);
  fmt::format_to(to, "{{\n \"schema\": {},\n", plan.schema);
  const std::pair<const char*, const std::string*> texts[] = {{"program", &plan.program},
                                                              {"gpu", &plan.gpu},
                                                              {"ebbtide", &plan.ebbtide},
                                                              {"source", &plan.source}};
  for (const auto& [key, text] : texts) fmt::format_to(to, " \"{}\": {},\n", key, Quoted(*text));
  const std::pair<const char*, uint64_t> numbers[] = {
      {"budget", plan.budget},
      {"overhead_bytes", plan.overhead_bytes},
      {"warm_bytes", plan.warm_bytes},
      {"cold_bytes", plan.cold_bytes},
      {"step_launches", plan.step_launches},
      {"max_live_bytes", plan.max_live_bytes},
      {"planned_peak_bytes", plan.planned_peak_bytes}};
  for (const auto& [key, number] : numbers) fmt::format_to(to, " \"{}\": {},\n", key, number);
  fmt::format_to(to, " \"native_step_ms\": {},\n \"predicted_step_ms\": {},\n", plan.native_step_ms,
                 plan.predicted_step_ms);
  if (plan.hotness) AddHotness(*plan.hotness, out);
  if (plan.uneven) fmt::format_to(to, " \"uneven\": true,\n");
  if (plan.dynamic_bytes != 0) fmt::format_to(to, " \"dynamic_bytes\": {},\n", plan.dynamic_bytes);
  fmt::format_to(to, " \"slab_bytes\": {},\n", plan.slab_bytes);
  AddList("slabs", plan.slabs, out, AddSlab);
  fmt::format_to(to, ",\n");
  AddList("cleared", plan.cleared, out, AppendClearance);
  fmt::format_to(to, ",\n");
  AddList("sites", plan.sites, out, AddSite);
  fmt::format_to(to, ",\n");
  AddList("prologue", plan.prologue, out, AddSlot);
  fmt::format_to(to, ",\n");
  AddList("step", plan.step, out, AddSlot);
  fmt::format_to(to, "\n}}\n");
  return fmt::to_string(out);
}

absl::StatusOr<Plan> ReadPlan(const std::string& path) {
  File file(fopen(path.c_str(), "rbe"));
  if (file == nullptr) return FileError(path, "opened");
  std::string text;
  char piece[1 << 16];
  while (size_t got = fread(piece, 1, sizeof(piece), file.get())) {
    text.append(piece, got);
    if (text.size() > kMaxPlanFileBytes) {
      return absl::InvalidArgumentError(
          fmt::format("{}: more than {} bytes: this is no plan", path, kMaxPlanFileBytes));
    }
  }
  if (ferror(file.get())) return FileError(path, "read");
  return PlanFromJson(text, path);
}

absl::Status WritePlan(const Plan& plan, const std::string& path) {
  const std::string text = PlanToJson(plan);
  const std::string temporary = fmt::format("{}.{}.tmp", path, getpid());
  FILE* file = fopen(temporary.c_str(), "wbe");
  if (file == nullptr) return FileError(temporary, "created");
  const bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
  // The last bytes may fail to reach the disk only now.
  if (fclose(file) != 0 || !written) {
    absl::Status error = FileError(temporary, "written");
    unlink(temporary.c_str());
    return error;
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    absl::Status error = FileError(path, "replaced");
    unlink(temporary.c_str());
    return error;
  }
  return absl::OkStatus();
}

}  // namespace ebt::plan
