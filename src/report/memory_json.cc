#include "src/report/memory_json.h"

#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"

namespace ebt::report {
namespace {

using callsite::Frame;
using nlohmann::ordered_json;

template <typename T>
ordered_json OrNull(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json MomentJson(const Moment& moment) {
  return {{"event", moment.event},
          {"launch", moment.launch},
          {"step", OrNull(moment.step)},
          {"step_launch", moment.step ? ordered_json(moment.step_launch) : ordered_json(nullptr)},
          {"phase", moment.phase},
          {"gpu_ms", OrNull(moment.gpu_ms)}};
}

void AddRecording(const std::string& file, const profile::Profile& profile, const Composition& it,
                  ordered_json& out) {
  out["file"] = file;
  for (const char* key : {"program", "rank", "pid", "gpu", "time"}) {
    const auto found = profile.metadata.find(key);
    out[key] = found == profile.metadata.end() ? "" : found->second;
  }
  out["truncated"] = it.truncated;
  out["events"] = it.events;
  out["launches"] = it.launches;
  out["allocations"] = it.allocations;
  out["recorded_sites"] = it.sites;
}

void AddSteps(const std::optional<StepSummary>& steps, ordered_json& out) {
  out["steps"] = steps ? steps->steps : 0;
  out["step_launches"] = steps ? ordered_json(steps->launches) : ordered_json(nullptr);
  out["first_step_launch"] = steps ? ordered_json(steps->first_launch) : ordered_json(nullptr);
  out["steps_marked"] = steps && steps->marked;
  const bool timed = steps && !steps->ms.empty();
  out["step_ms"] = timed ? ordered_json(steps->median_ms) : ordered_json(nullptr);
  out["each_step_ms"] = timed ? ordered_json(steps->ms) : ordered_json::array();
  const bool ends = steps && !steps->backward_end_ms.empty();
  out["backward_end_ms"] =
      ends ? ordered_json(steps->median_backward_end_ms) : ordered_json(nullptr);
}

void AddEachStep(const Composition& it, ordered_json& out) {
  out["step_spans"] = ordered_json::array();
  for (const EachStep& step : it.each_step) {
    out["step_spans"].push_back({{"kind", std::string(profile::StepKindName(step.kind))},
                                 {"first_launch", step.first_launch},
                                 {"launches", step.launches},
                                 {"ms", step.ms ? ordered_json(*step.ms) : ordered_json(nullptr)}});
  }
}

void AddPeak(const Composition& it, ordered_json& out) {
  out["device"] = it.device;
  out["other_devices"] = ordered_json::array();
  for (const DevicePeak& other : it.other_devices) {
    out["other_devices"].push_back({{"device", other.device}, {"peak_bytes", other.peak_bytes}});
  }
  out["native_peak_bytes"] = it.native_peak_bytes;
  out["native_peak_measured"] = it.native_peak_measured;
  out["peak_bytes"] = it.peak_bytes;
  out["peak_blocks"] = it.peak_blocks;
  out["peak_requested_bytes"] = it.peak_requested_bytes;
  out["peak_managed_bytes"] = it.peak_managed_bytes;
  out["peak"] = MomentJson(it.peak);
  out["peak"]["next_function"] = Demangled(it.peak_function);
  out["idle_bytes"] = OrNull(it.idle_bytes);
  out["before_steps_bytes"] = it.before_steps.bytes;
  out["before_steps_blocks"] = it.before_steps.blocks;
}

void AddFragmentation(const Composition& it, ordered_json& out) {
  out["reserved_per_live"] = OrNull(it.ReservedPerLive());
  out["fragmentation"] = nullptr;
  if (it.fragmentation) {
    out["fragmentation"] = {{"free_bytes", it.fragmentation->free_bytes},
                            {"largest_free_bytes", it.fragmentation->largest_free_bytes},
                            {"pieces", it.fragmentation->pieces},
                            {"share", it.fragmentation->Share()}};
  }
  out["caching_segments"] = it.caching_segments;
  out["failures"] = {
      {"count", it.failures},
      {"largest_bytes", it.largest_failure_bytes},
      {"first", it.first_failure ? MomentJson(*it.first_failure) : ordered_json(nullptr)}};
}

void AddKinds(const Composition& it, ordered_json& out) {
  out["kinds"] = ordered_json::object();
  for (size_t i = 0; i < profile::kKinds; ++i) {
    const KindUse& use = it.kinds[i];
    out["kinds"][std::string(profile::KindName(profile::Kind(i)))] = {
        {"bytes", use.at_peak.bytes},
        {"blocks", use.at_peak.blocks},
        {"idle_bytes", it.idle_bytes ? ordered_json(use.idle_bytes) : ordered_json(nullptr)},
        {"before_steps_bytes", use.before_steps.bytes},
        {"before_steps_blocks", use.before_steps.blocks},
        {"step_max_bytes", use.step_max_bytes},
        {"step_mean_bytes", use.step_mean_bytes},
        {"step_time_mean_bytes", use.step_time_mean_bytes}};
  }
}

ordered_json FrameJson(const Frame& frame) {
  if (frame.kind == Frame::Kind::kPython)
    return {{"file", frame.module}, {"line", frame.offset}, {"function", frame.function}};
  return {{"module", frame.file.empty() ? frame.module : frame.file},
          {"build_id", frame.module},
          {"offset", fmt::format("{:#x}", frame.offset)},
          {"function", frame.function}};
}

void AddSites(const profile::Profile& profile, const Composition& it, const SiteNames& names,
              ordered_json& out) {
  absl::flat_hash_map<uint64_t, const callsite::Site*> sites;
  for (const callsite::Site& site : profile.sites) sites.emplace(site.id, &site);
  out["sites"] = ordered_json::array();
  for (const SiteUse& use : it.site_uses) {
    ordered_json row = {
        {"site", fmt::format("{:#x}", use.site)},
        {"kind", std::string(profile::KindName(use.kind))},
        {"name", names.Of(use.site)},
        {"bytes", use.at_peak.bytes},
        {"blocks", use.at_peak.blocks},
        {"idle_bytes", it.idle_bytes ? ordered_json(use.idle_bytes) : ordered_json(nullptr)},
        {"frames", ordered_json::array()}};
    if (const auto site = sites.find(use.site); site != sites.end()) {
      for (const Frame& frame : site->second->frames) row["frames"].push_back(FrameJson(frame));
    }
    out["sites"].push_back(std::move(row));
  }
}

void AddBlocks(const profile::Profile& profile, const Composition& it,
               const std::vector<profile::Kind>& kinds, ordered_json& out) {
  out["blocks_at_peak"] = ordered_json::array();
  for (const uint32_t id : it.at_peak) {
    const profile::Block& block = profile.blocks[id];
    out["blocks_at_peak"].push_back({{"site", fmt::format("{:#x}", block.site)},
                                     {"kind", std::string(profile::KindName(kinds[id]))},
                                     {"bytes", TakenBytes(block)}});
  }
}

}  // namespace

std::string MemoryJson(const std::string& file, const profile::Profile& profile,
                       const std::vector<profile::Kind>& kinds, const Composition& composition,
                       const SiteNames& names) {
  ordered_json out;
  AddRecording(file, profile, composition, out);
  AddSteps(composition.steps, out);
  AddEachStep(composition, out);
  AddPeak(composition, out);
  AddFragmentation(composition, out);
  AddKinds(composition, out);
  AddSites(profile, composition, names, out);
  AddBlocks(profile, composition, kinds, out);
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace ebt::report
