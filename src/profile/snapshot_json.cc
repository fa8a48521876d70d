// Snapshots as text: profiles/SNAPSHOT.md.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "src/profile/snapshot.h"

namespace ebt::profile {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr char kVersionKey[] = "ebbtide_snapshot";
constexpr uint64_t kVersion = 1;
// A snapshot is some tens of kilobytes, some hundreds where every site is another one.
constexpr size_t kMostBytes = size_t{16} << 20;
constexpr size_t kMostItems = 4096;                  // of any list
constexpr uint64_t kMostNumber = uint64_t{1} << 53;  // what every reader of JSON keeps exactly

std::string SiteText(uint64_t site) { return fmt::format("{:#x}", site); }

ordered_json SitesJson(const SnapshotSites& sites, bool at_peak) {
  ordered_json list = ordered_json::array();
  for (const SnapshotSite& site : sites.largest) {
    ordered_json one = {
        {"site", SiteText(site.site)}, {"bytes", site.bytes}, {"blocks", site.blocks}};
    if (!at_peak) {
      one["persistent_bytes"] = site.persistent_bytes;
      one["idle_bytes"] = site.idle_bytes;
    }
    list.push_back(std::move(one));
  }
  return {{"largest", std::move(list)},
          {"other_sites", sites.other_sites},
          {"other_bytes", sites.other_bytes},
          {"other_blocks", sites.other_blocks}};
}

ordered_json StepJson(const SnapshotStep& step) {
  return {{"number", step.number},
          {"by", StepsByName(step.by)},
          {"launches", step.launches},
          {"whole", step.whole},
          {"peak_bytes", step.peak_bytes},
          {"peak_blocks", step.peak_blocks},
          {"sites", SitesJson(step.sites, true)}};
}

ordered_json FramesJson(const callsite::Site& site) {
  ordered_json frames = ordered_json::array();
  size_t native = 0, python = 0;
  for (const callsite::Frame& frame : site.frames) {
    const bool is_python = frame.kind == callsite::Frame::Kind::kPython;
    if (++(is_python ? python : native) > kSnapshotFrames) continue;
    ordered_json one = {{"kind", is_python ? "python" : "native"}, {"module", frame.module}};
    one[is_python ? "line" : "offset"] = frame.offset;
    if (!frame.function.empty()) one["function"] = frame.function;
    if (!frame.file.empty()) one["file"] = frame.file;
    frames.push_back(std::move(one));
  }
  return frames;
}

ordered_json PlanJson(const SnapshotPlan& plan) {
  return {{"budget_bytes", plan.budget},
          {"planned_bytes", plan.planned},
          {"dynamic_bytes", plan.dynamic},
          {"cold_bytes", plan.cold},
          {"device_reserved_bytes", plan.device_reserved}};
}

void PutOptional(const std::optional<uint64_t>& value, const char* key, ordered_json& out) {
  out[key] = value ? ordered_json(*value) : ordered_json();
}

// Reads one document. The first fault is kept; what is read behind it does not matter.
class SnapshotParser {
 public:
  const std::string& fault() const { return fault_; }

  // NULL where it is missing or null.
  const json* Find(const json& object, const char* key, json::value_t type) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return nullptr;
    const bool number = type == json::value_t::number_unsigned;
    if (number ? !found->is_number_unsigned() : found->type() != type) {
      Fail("\"{}\" is not what it must be", key);
      return nullptr;
    }
    return &*found;
  }

  uint64_t Number(const json& object, const char* key) {
    const json* value = Find(object, key, json::value_t::number_unsigned);
    if (value == nullptr) return 0;
    const auto number = value->get<uint64_t>();
    if (number > kMostNumber) Fail("\"{}\" is larger than any memory", key);
    return number;
  }

  std::optional<uint64_t> OptionalNumber(const json& object, const char* key) {
    if (Find(object, key, json::value_t::number_unsigned) == nullptr) return std::nullopt;
    return Number(object, key);
  }

  std::string Text(const json& object, const char* key) {
    const json* value = Find(object, key, json::value_t::string);
    return value == nullptr ? "" : value->get<std::string>();
  }

  uint64_t SiteNumber(const std::string& text) {
    uint64_t site = 0;
    if (!text.empty() && !absl::SimpleHexAtoi(text, &site)) Fail("\"{}\" is no site", text);
    return site;
  }

  // Calls `take` with each object of the list.
  template <typename Take>
  void Each(const json& object, const char* key, Take&& take) {
    const json* list = Find(object, key, json::value_t::array);
    if (list == nullptr) return;
    if (list->size() > kMostItems) return Fail("\"{}\" is too long", key);
    for (const json& item : *list) {
      if (!item.is_object()) return Fail("\"{}\" holds something else than objects", key);
      take(item);
    }
  }

  SnapshotSites Sites(const json& object) {
    SnapshotSites out;
    const json* sites = Find(object, "sites", json::value_t::object);
    if (sites == nullptr) return out;
    Each(*sites, "largest", [&](const json& item) {
      out.largest.push_back({SiteNumber(Text(item, "site")), Number(item, "bytes"),
                             Number(item, "blocks"), Number(item, "persistent_bytes"),
                             Number(item, "idle_bytes")});
    });
    out.other_sites = Number(*sites, "other_sites");
    out.other_bytes = Number(*sites, "other_bytes");
    out.other_blocks = Number(*sites, "other_blocks");
    return out;
  }

  SnapshotStep Step(const json& item) {
    SnapshotStep step;
    step.number = Number(item, "number");
    const std::string by = Text(item, "by");
    for (const StepsBy known : {StepsBy::kMarks, StepsBy::kPeriod})
      if (by == StepsByName(known)) step.by = known;
    step.launches = Number(item, "launches");
    const json* whole = Find(item, "whole", json::value_t::boolean);
    step.whole = whole == nullptr || whole->get<bool>();
    step.peak_bytes = Number(item, "peak_bytes");
    step.peak_blocks = Number(item, "peak_blocks");
    step.sites = Sites(item);
    return step;
  }

  callsite::Site Described(const std::string& id, const json& frames) {
    callsite::Site site{.id = SiteNumber(id)};
    const json holder = {{"frames", frames}};
    Each(holder, "frames", [&](const json& item) {
      const bool python = Text(item, "kind") == "python";
      site.frames.push_back(
          {.kind = python ? callsite::Frame::Kind::kPython : callsite::Frame::Kind::kNative,
           .module = Text(item, "module"),
           .offset = Number(item, python ? "line" : "offset"),
           .function = Text(item, "function"),
           .file = Text(item, "file")});
    });
    return site;
  }

  template <typename... Args>
  void Fail(fmt::format_string<Args...> format, Args&&... args) {
    if (fault_.empty()) fault_ = fmt::format(format, std::forward<Args>(args)...);
  }

 private:
  std::string fault_;
};

void ParseRefusal(const json& from, SnapshotParser& parser, Snapshot& out) {
  const json* refused = parser.Find(from, "refused", json::value_t::object);
  if (refused == nullptr) return;
  out.refusal = SnapshotRefusal{.bytes = parser.Number(*refused, "bytes"),
                                .site = parser.SiteNumber(parser.Text(*refused, "site")),
                                .count = parser.Number(*refused, "count"),
                                .largest_bytes = parser.Number(*refused, "largest_bytes")};
  const std::string kind = parser.Text(*refused, "kind");
  for (int i = 0; i <= static_cast<int>(AllocKind::kVmm); ++i)
    if (kind == AllocKindName(AllocKind(i))) out.refusal->kind = AllocKind(i);
}

void ParseMemory(const json& from, SnapshotParser& parser, Snapshot& out) {
  out.device = static_cast<uint16_t>(std::min<uint64_t>(parser.Number(from, "device"), 0xffff));
  out.total_bytes = parser.Number(from, "total_bytes");
  out.free_bytes = parser.Number(from, "free_bytes");
  out.live_bytes = parser.Number(from, "live_bytes");
  out.live_blocks = parser.Number(from, "live_blocks");
  out.managed_bytes = parser.Number(from, "managed_bytes");
  out.reserved_bytes = parser.Number(from, "reserved_bytes");
  out.persistent_bytes = parser.OptionalNumber(from, "persistent_bytes");
  out.idle_bytes = parser.OptionalNumber(from, "idle_bytes");
  if (const json* f = parser.Find(from, "fragmentation", json::value_t::object)) {
    out.fragmentation =
        SnapshotFragmentation{parser.Number(*f, "free_bytes"),
                              parser.Number(*f, "largest_free_bytes"), parser.Number(*f, "pieces")};
    if (out.fragmentation->largest_free_bytes > out.fragmentation->free_bytes)
      parser.Fail("a free piece is larger than all that is free");
  }
  if (const json* p = parser.Find(from, "plan", json::value_t::object)) {
    out.plan = SnapshotPlan{parser.Number(*p, "budget_bytes"), parser.Number(*p, "planned_bytes"),
                            parser.Number(*p, "dynamic_bytes"), parser.Number(*p, "cold_bytes"),
                            parser.Number(*p, "device_reserved_bytes")};
  }
}

void ParseTexts(const json& from, SnapshotParser& parser, Snapshot& out) {
  if (const json* metadata = parser.Find(from, "process", json::value_t::object)) {
    for (const auto& [key, value] : metadata->items())
      if (value.is_string()) out.metadata[key] = value.get<std::string>();
  }
  if (const json* advice = parser.Find(from, "advice", json::value_t::array)) {
    for (const json& line : *advice)
      if (line.is_string()) out.advice.push_back(line.get<std::string>());
  }
  if (const json* names = parser.Find(from, "names", json::value_t::object)) {
    for (const auto& [id, label] : names->items())
      if (label.is_string()) out.labels[parser.SiteNumber(id)] = label.get<std::string>();
  }
  if (const json* frames = parser.Find(from, "frames", json::value_t::object)) {
    if (frames->size() > kMostItems) return parser.Fail("\"frames\" is too long");
    for (const auto& [id, list] : frames->items())
      out.described.push_back(parser.Described(id, list));
  }
}

}  // namespace

std::string SnapshotJson(const Snapshot& it) {
  ordered_json out = {{kVersionKey, kVersion}, {"process", it.metadata}};
  if (it.refusal) {
    const SnapshotRefusal& refusal = *it.refusal;
    out["refused"] = {{"bytes", refusal.bytes},
                      {"kind", AllocKindName(refusal.kind)},
                      {"site", SiteText(refusal.site)},
                      {"count", refusal.count},
                      {"largest_bytes", refusal.largest_bytes}};
  }
  out["advice"] = it.advice;
  out["device"] = it.device;
  out["total_bytes"] = it.total_bytes;
  out["free_bytes"] = it.free_bytes;
  out["live_bytes"] = it.live_bytes;
  out["live_blocks"] = it.live_blocks;
  out["managed_bytes"] = it.managed_bytes;
  out["reserved_bytes"] = it.reserved_bytes;
  PutOptional(it.persistent_bytes, "persistent_bytes", out);
  PutOptional(it.idle_bytes, "idle_bytes", out);
  if (it.fragmentation) {
    out["fragmentation"] = {{"free_bytes", it.fragmentation->free_bytes},
                            {"largest_free_bytes", it.fragmentation->largest_free_bytes},
                            {"pieces", it.fragmentation->pieces},
                            {"share", it.fragmentation->Share()}};
  }
  if (it.plan) out["plan"] = PlanJson(*it.plan);
  out["sites"] = SitesJson(it.sites, false);
  out["steps"] = ordered_json::array();
  for (const SnapshotStep& step : it.steps) out["steps"].push_back(StepJson(step));
  out["names"] = ordered_json::object();
  for (const auto& [site, label] : it.labels) out["names"][SiteText(site)] = label;
  out["frames"] = ordered_json::object();
  for (const callsite::Site& site : it.described)
    out["frames"][SiteText(site.id)] = FramesJson(site);
  return out.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

bool LooksLikeSnapshot(std::string_view beginning) {
  const size_t key = beginning.find_first_not_of(" \t\r\n{");
  return beginning.find('{') < key && key != beginning.npos &&
         beginning.substr(key).rfind(fmt::format("\"{}\"", kVersionKey), 0) == 0;
}

absl::StatusOr<Snapshot> ParseSnapshot(std::string_view text, const std::string& file) {
  const auto refuse = [&file](std::string_view why) {
    return absl::DataLossError(fmt::format("{}: {}", file, why));
  };
  if (text.size() > kMostBytes) return refuse("is too large for a snapshot of memory");
  const json document = json::parse(text, nullptr, false);
  if (document.is_discarded()) return refuse("is cut off or damaged: no whole JSON");
  if (!document.is_object() || !document.contains(kVersionKey))
    return refuse("is no snapshot of memory");
  SnapshotParser parser;
  const uint64_t version = parser.Number(document, kVersionKey);
  if (parser.fault().empty() && version != kVersion) {
    return refuse(
        fmt::format("is a snapshot of version {}, and this Ebbtide reads {}", version, kVersion));
  }
  Snapshot out;
  ParseRefusal(document, parser, out);
  ParseMemory(document, parser, out);
  out.sites = parser.Sites(document);
  parser.Each(document, "steps", [&](const json& item) { out.steps.push_back(parser.Step(item)); });
  ParseTexts(document, parser, out);
  if (!parser.fault().empty()) return refuse("is damaged: " + parser.fault());
  return out;
}

}  // namespace ebt::profile
