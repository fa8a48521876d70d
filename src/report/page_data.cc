#include "src/report/page_data.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "src/plan/hotness.h"
#include "src/report/block_columns.h"
#include "src/report/composition.h"

namespace ebt::report {
namespace {

using nlohmann::json;
using profile::Event;
using profile::EventKind;
using profile::Kind;

constexpr size_t kLongestName = 400;
constexpr size_t kTopSites = 10;
constexpr size_t kMostFrames = 256;  // of a stack: the innermost

std::string Hex(uint64_t number) { return fmt::format("{:#x}", number); }

json StepsAsJson(const PageSource& source) {
  if (!source.steps || source.steps->start_events.empty()) return nullptr;
  const profile::Steps& steps = *source.steps;
  json out = {{"count", steps.steps}, {"launches", steps.period}, {"marked", steps.marked}};
  std::vector<double> ms;
  for (size_t i = 0; i + 1 < steps.start_events.size(); ++i)
    ms.push_back(source.times.At(steps.start_events[i + 1]) -
                 source.times.At(steps.start_events[i]));
  if (source.times.known() && !ms.empty()) {
    std::nth_element(ms.begin(), ms.begin() + ms.size() / 2, ms.end());
    out["median_ms"] = ms[ms.size() / 2];
  }
  return out;
}

struct SiteAtPeak {
  uint64_t site = 0;
  KindSum sum;
};

json TopSites(const PageSource& source, uint32_t space) {
  const MemorySpace& memory = source.memory.spaces[space];
  absl::flat_hash_map<uint64_t, KindSum> sums;
  for (const profile::Block& block : source.profile.blocks) {
    if (source.memory.of_block[block.id] != space) continue;
    if (block.alloc_at > memory.peak_event || block.free_at <= memory.peak_event) continue;
    sums[block.site].bytes += TakenBytes(block);
    ++sums[block.site].blocks;
  }
  std::vector<SiteAtPeak> sites;
  for (const auto& [site, sum] : sums) sites.push_back({site, sum});
  std::sort(sites.begin(), sites.end(), [](const SiteAtPeak& a, const SiteAtPeak& b) {
    return a.sum.bytes != b.sum.bytes ? a.sum.bytes > b.sum.bytes : a.site < b.site;
  });
  json out = json::array();
  for (size_t i = 0; i < std::min(sites.size(), kTopSites); ++i)
    out.push_back({{"id", Hex(sites[i].site)},
                   {"name", Clipped(source.names.site(sites[i].site), kLongestName)},
                   {"bytes", sites[i].sum.bytes},
                   {"blocks", sites[i].sum.blocks}});
  return out;
}

json SpaceAsJson(const PageSource& source, uint32_t index) {
  const MemorySpace& space = source.memory.spaces[index];
  json kinds = json::array();
  for (size_t kind = 0; kind < profile::kKinds; ++kind)
    kinds.push_back({{"kind", profile::KindName(static_cast<Kind>(kind))},
                     {"bytes", space.kinds[kind].bytes},
                     {"blocks", space.kinds[kind].blocks}});
  return {{"name", space.name},
          {"blocks", space.blocks},
          {"peak_bytes", space.peak_bytes},
          {"peak_blocks", space.peak_blocks},
          {"peak_event", space.peak_event},
          {"peak_ms", source.times.known() ? json(source.times.At(space.peak_event)) : json()},
          {"kinds", std::move(kinds)},
          {"top_sites", TopSites(source, index)}};
}

// Texts that occur often, each once.
class Texts {
 public:
  uint64_t Add(const std::string& text) {
    const auto [found, is_new] = numbers_.emplace(text, texts_.size());
    if (is_new) texts_.push_back(Clipped(text, kLongestName));
    return found->second;
  }
  const std::vector<std::string>& all() const { return texts_; }

 private:
  absl::flat_hash_map<std::string, uint64_t> numbers_;
  std::vector<std::string> texts_;
};

// Sites that blocks have, numbered in the order of first use.
struct SiteNumbers {
  std::vector<uint64_t> ids;
  Column of_block;
};

SiteNumbers NumberSites(const profile::Profile& profile) {
  SiteNumbers out;
  absl::flat_hash_map<uint64_t, uint64_t> numbers;
  for (const profile::Block& block : profile.blocks) {
    const auto [found, is_new] = numbers.emplace(block.site, out.ids.size());
    if (is_new) out.ids.push_back(block.site);
    out.of_block.Add(found->second);
  }
  return out;
}

json SitesAsJson(const PageSource& source, const SiteNumbers& sites, Texts& texts) {
  json out = json::array();
  for (uint64_t id : sites.ids) {
    std::vector<std::string> stack = source.names.frames(id);
    const size_t left_out = stack.size() - std::min(stack.size(), kMostFrames);
    stack.resize(stack.size() - left_out);
    if (left_out > 0) stack.push_back(fmt::format("{} more frames", left_out));
    json frames = json::array();
    for (const std::string& frame : stack) frames.push_back(texts.Add(frame));
    out.push_back({{"id", Hex(id)},
                   {"name", Clipped(source.names.site(id), kLongestName)},
                   {"frames", std::move(frames)}});
  }
  return out;
}

json ColumnsAsJson(const PageSource& source, const SiteNumbers& sites) {
  const BlockColumns blocks = ColumnsOfBlocks(source.profile);
  const WorkColumns work = ColumnsOfWork(source.profile);
  Column kinds, spaces;
  for (const profile::Block& block : source.profile.blocks) {
    kinds.Add(block.id < source.kinds.size() ? static_cast<uint64_t>(source.kinds[block.id]) : 0);
    spaces.Add(source.memory.of_block[block.id]);
  }
  json out;
  const auto add = [&](const char* name, const Column& column) {
    out[name] = Base64(column.bytes());
  };
  add("alloc", blocks.alloc);
  add("life", blocks.life);
  add("bytes", blocks.bytes);
  add("address", blocks.address);
  add("site", sites.of_block);
  add("kind", kinds);
  if (source.memory.spaces.size() > 1) add("space", spaces);
  add("touches", blocks.touches);
  add("listed", blocks.listed);
  add("last", blocks.last);
  add("work_event", work.event);
  add("work_what", work.what);
  return {
      {"columns", std::move(out)}, {"works", work.works}, {"listed_touches", blocks.most_listed}};
}

void AddSeldomEvents(const profile::Profile& profile, json& out) {
  json phases = json::array(), failures = json::array();
  for (uint64_t at = 0; at < profile.events.size(); ++at) {
    const Event& event = profile.events[at];
    if (event.kind == EventKind::kPhase) phases.push_back({at, Clipped(event.phase, kLongestName)});
    if (event.kind == EventKind::kFailed) failures.push_back({at, event.bytes});
  }
  out["phases"] = std::move(phases);
  out["failures"] = std::move(failures);
}

}  // namespace

json PageSummary(const PageSource& source) {
  const profile::Profile& profile = source.profile;
  uint64_t launches = 0, copies = 0, failures = 0;
  for (const Event& event : profile.events) {
    launches += IsLaunch(event);
    copies += event.kind == EventKind::kCopy;
    failures += event.kind == EventKind::kFailed;
  }
  json metadata = json::object();
  for (const auto& [key, value] : profile.metadata) metadata[key] = Clipped(value, kLongestName);
  json spaces = json::array();
  for (uint32_t i = 0; i < source.memory.spaces.size(); ++i)
    spaces.push_back(SpaceAsJson(source, i));
  return {{"metadata", std::move(metadata)},
          {"events", profile.events.size()},
          {"blocks", profile.blocks.size()},
          {"sites", NumberSites(profile).ids.size()},
          {"launches", launches},
          {"copies", copies},
          {"failures", failures},
          {"truncated", profile.truncated},
          {"steps", StepsAsJson(source)},
          {"spaces", std::move(spaces)}};
}

json PageRecording(const PageSource& source) {
  const profile::Profile& profile = source.profile;
  const SiteNumbers sites = NumberSites(profile);
  Texts texts;
  json out = ColumnsAsJson(source, sites);
  out["sites"] = SitesAsJson(source, sites, texts);
  out["texts"] = texts.all();
  json functions = json::array(), times = json::array();
  for (const profile::Function& function : profile.functions)
    functions.push_back(Clipped(source.names.function(function.name), kLongestName));
  for (const GpuTimes::Point& point : source.times.points())
    times.push_back({point.event, point.ms});
  out["functions"] = std::move(functions);
  out["times"] = std::move(times);
  out["times_known"] = source.times.known();
  out["step_starts"] = source.steps ? source.steps->start_events : std::vector<uint64_t>{};
  AddSeldomEvents(profile, out);
  return out;
}

std::string ScriptText(const json& value) {
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    if (c == '<' || c == '>' || c == '&') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace ebt::report
