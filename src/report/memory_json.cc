#include "src/report/memory_json.h"

#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"

namespace ebt::report {
namespace {

using callsite::Frame;
using json = nlohmann::ordered_json;

template <typename T>
json OrNull(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json MomentJson(const Moment& moment) {
  return {{"event", moment.event},
          {"launch", moment.launch},
          {"step", OrNull(moment.step)},
          {"step_launch", moment.step ? json(moment.step_launch) : json(nullptr)},
          {"phase", moment.phase},
          {"gpu_ms", OrNull(moment.gpu_ms)}};
}

void AddRecording(const std::string& file, const profile::Profile& profile, const Composition& it,
                  json& out) {
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

void AddSteps(const std::optional<StepSummary>& steps, json& out) {
  out["steps"] = steps ? steps->steps : 0;
  out["step_launches"] = steps ? json(steps->launches) : json(nullptr);
  out["first_step_launch"] = steps ? json(steps->first_launch) : json(nullptr);
  out["steps_marked"] = steps && steps->marked;
  const bool timed = steps && !steps->ms.empty();
  out["step_ms"] = timed ? json(steps->median_ms) : json(nullptr);
  out["each_step_ms"] = timed ? json(steps->ms) : json::array();
  const bool ends = steps && !steps->backward_end_ms.empty();
  out["backward_end_ms"] = ends ? json(steps->median_backward_end_ms) : json(nullptr);
}

void AddPeak(const Composition& it, json& out) {
  out["device"] = it.device;
  out["other_devices"] = json::array();
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

void AddFragmentation(const Composition& it, json& out) {
  out["reserved_per_live"] = OrNull(it.ReservedPerLive());
  out["fragmentation"] = nullptr;
  if (it.fragmentation) {
    out["fragmentation"] = {{"free_bytes", it.fragmentation->free_bytes},
                            {"largest_free_bytes", it.fragmentation->largest_free_bytes},
                            {"pieces", it.fragmentation->pieces},
                            {"share", it.fragmentation->Share()}};
  }
  out["caching_segments"] = it.caching_segments;
  out["failures"] = {{"count", it.failures},
                     {"largest_bytes", it.largest_failure_bytes},
                     {"first", it.first_failure ? MomentJson(*it.first_failure) : json(nullptr)}};
}

void AddKinds(const Composition& it, json& out) {
  out["kinds"] = json::object();
  for (size_t i = 0; i < profile::kKinds; ++i) {
    const KindUse& use = it.kinds[i];
    out["kinds"][std::string(profile::KindName(profile::Kind(i)))] = {
        {"bytes", use.at_peak.bytes},
        {"blocks", use.at_peak.blocks},
        {"idle_bytes", it.idle_bytes ? json(use.idle_bytes) : json(nullptr)},
        {"before_steps_bytes", use.before_steps.bytes},
        {"before_steps_blocks", use.before_steps.blocks},
        {"step_max_bytes", use.step_max_bytes},
        {"step_mean_bytes", use.step_mean_bytes},
        {"step_time_mean_bytes", use.step_time_mean_bytes}};
  }
}

json FrameJson(const Frame& frame) {
  if (frame.kind == Frame::Kind::kPython)
    return {{"file", frame.module}, {"line", frame.offset}, {"function", frame.function}};
  return {{"module", frame.file.empty() ? frame.module : frame.file},
          {"build_id", frame.module},
          {"offset", fmt::format("{:#x}", frame.offset)},
          {"function", frame.function}};
}

void AddSites(const profile::Profile& profile, const Composition& it, const SiteNames& names,
              json& out) {
  absl::flat_hash_map<uint64_t, const callsite::Site*> sites;
  for (const callsite::Site& site : profile.sites) sites.emplace(site.id, &site);
  out["sites"] = json::array();
  for (const SiteUse& use : it.site_uses) {
    json row = {{"site", fmt::format("{:#x}", use.site)},
                {"kind", std::string(profile::KindName(use.kind))},
                {"name", names.Of(use.site)},
                {"bytes", use.at_peak.bytes},
                {"blocks", use.at_peak.blocks},
                {"idle_bytes", it.idle_bytes ? json(use.idle_bytes) : json(nullptr)},
                {"frames", json::array()}};
    if (const auto site = sites.find(use.site); site != sites.end()) {
      for (const Frame& frame : site->second->frames) row["frames"].push_back(FrameJson(frame));
    }
    out["sites"].push_back(std::move(row));
  }
}

}  // namespace

std::string MemoryJson(const std::string& file, const profile::Profile& profile,
                       const Composition& composition, const SiteNames& names) {
  json out;
  AddRecording(file, profile, composition, out);
  AddSteps(composition.steps, out);
  AddPeak(composition, out);
  AddFragmentation(composition, out);
  AddKinds(composition, out);
  AddSites(profile, composition, names, out);
  return out.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace ebt::report
