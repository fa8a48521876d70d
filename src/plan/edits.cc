#include "src/plan/edits.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "src/base/units.h"
#include "src/plan/clearance.h"

namespace ebt::plan {
namespace {

// Sites that an error lists, and things that no longer apply.
constexpr size_t kMostListed = 8;

std::optional<uint64_t> ParseId(std::string_view name) {
  if (name.substr(0, 2) != "0x" || name.size() < 3) return std::nullopt;
  uint64_t id = 0;
  const auto [stop, failure] = std::from_chars(name.data() + 2, name.data() + name.size(), id, 16);
  if (failure != std::errc() || stop != name.data() + name.size()) return std::nullopt;
  return id;
}

std::string Listed(std::vector<std::string> items, const char* separator) {
  const size_t all = items.size();
  if (all > kMostListed) items.resize(kMostListed);
  std::string text = absl::StrJoin(items, separator);
  if (all > kMostListed) text += fmt::format("{}and {} more", separator, all - kMostListed);
  return text;
}

absl::Status Ambiguous(std::string_view name, const std::vector<const Site*>& sites) {
  std::vector<std::string> items;
  for (const Site* site : sites) items.push_back(fmt::format("{:#x} {}", site->id, site->label));
  return absl::InvalidArgumentError(fmt::format("\"{}\" may be any of {} sites: {}", name,
                                                sites.size(), Listed(std::move(items), "; ")));
}

std::string Counted(uint64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace

std::vector<Site> RecordedSites(const profile::Profile& profile) {
  absl::flat_hash_map<uint64_t, uint64_t> bytes;
  for (const profile::Block& block : profile.blocks) bytes[block.site] += block.bytes;
  absl::flat_hash_map<uint64_t, std::string> labels;
  for (const callsite::Site& site : profile.sites) labels[site.id] = SiteLabel(site);
  std::vector<std::pair<uint64_t, uint64_t>> order;  // bytes, site
  for (const auto& [site, sum] : bytes) order.emplace_back(sum, site);
  std::sort(order.begin(), order.end(), std::greater<>());
  std::vector<Site> sites;
  for (const auto& [sum, site] : order) {
    const auto label = labels.find(site);
    sites.push_back(
        {site, label == labels.end() ? fmt::format("site {:#x}", site) : label->second});
  }
  return sites;
}

absl::StatusOr<Site> FindSite(const std::vector<Site>& sites, std::string_view name) {
  const std::optional<uint64_t> id = ParseId(name);
  std::vector<const Site*> whole, part;
  for (const Site& site : sites) {
    if (id == site.id) return site;
    if (site.label == name) whole.push_back(&site);
    if (!name.empty() && site.label.find(name) != std::string::npos) part.push_back(&site);
  }
  for (const auto* found : {&whole, &part}) {
    if (found->size() == 1) return *found->front();
    if (found->size() > 1) return Ambiguous(name, *found);
  }
  return absl::NotFoundError(
      fmt::format("no site of the recording is called \"{}\": a site is its number (0x…) or a part "
                  "of its label",
                  name));
}

absl::Status AddPin(const std::vector<Site>& sites, std::string_view pin, PlanOptions* options) {
  const size_t equals = pin.rfind('=');
  if (equals == pin.npos) {
    return absl::InvalidArgumentError(fmt::format("\"{}\" is not SITE=TIER", pin));
  }
  const std::string_view word = pin.substr(equals + 1);
  const auto site = FindSite(sites, pin.substr(0, equals));
  if (!site.ok()) return site.status();
  for (const Tier tier : {Tier::kHot, Tier::kWarm, Tier::kCold}) {
    if (word != TierName(tier)) continue;
    options->pinned[site->id] = tier;
    options->excluded.erase(site->id);
    return absl::OkStatus();
  }
  if (word != "none") {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is none of the tiers hot, warm, cold, nor none", word));
  }
  options->pinned.erase(site->id);
  options->excluded.erase(site->id);
  return absl::OkStatus();
}

absl::Status AddExclusion(const std::vector<Site>& sites, std::string_view name,
                          PlanOptions* options) {
  const auto site = FindSite(sites, name);
  if (!site.ok()) return site.status();
  options->excluded.insert(site->id);
  options->pinned.erase(site->id);
  return absl::OkStatus();
}

void MarkEdits(const PlanOptions& options, Plan& plan) {
  std::map<uint64_t, Site> edited;
  for (const auto& [id, tier] : options.pinned) edited[id].pin = tier;
  for (uint64_t id : options.excluded) edited[id] = {.exclude = true};
  for (Site& site : plan.sites) {
    const auto edit = edited.find(site.id);
    if (edit == edited.end()) continue;
    site.pin = edit->second.pin;
    site.exclude = edit->second.exclude;
    edited.erase(edit);
  }
  for (auto& [id, site] : edited) {
    site.id = id;
    site.label = fmt::format("site {:#x}", id);
    plan.sites.push_back(std::move(site));
  }
}

Update TakeOver(const Plan& old, const std::vector<Site>& recorded, PlanOptions* options) {
  Update update;
  options->budget = old.budget;
  if (old.hotness) {
    options->weights = old.hotness->weights;
    options->hot_threshold = old.hotness->threshold;
    options->hot_share = old.hotness->hot_share;
    options->warm_share = old.hotness->warm_share;
  }
  std::set<uint64_t> known;
  for (const Site& site : recorded) known.insert(site.id);
  for (const Site& site : old.sites) {
    if (!site.pin && !site.exclude) continue;
    if (!known.contains(site.id)) {
      update.dropped.push_back(fmt::format("the {} of {:#x} (not in the recording)",
                                           site.pin ? "pin" : "exclusion", site.id));
    } else if (site.exclude) {
      options->excluded.insert(site.id);
    } else {
      options->pinned[site.id] = *site.pin;
    }
  }
  return update;
}

void CountKept(const Plan& old, const PlanOptions& options, Update* update) {
  update->budget = options.budget == old.budget ? old.budget : 0;
  const HotnessRule rule = {options.weights, options.hot_threshold, options.hot_share,
                            options.warm_share};
  update->weights = old.hotness == rule;
  update->pins = update->exclusions = 0;
  for (const Site& site : old.sites) {
    const auto pin = options.pinned.find(site.id);
    update->pins += pin != options.pinned.end() && site.pin == pin->second;
    update->exclusions += site.exclude && options.excluded.contains(site.id);
  }
}

void KeepClearances(const Plan& old, Plan* plan, Update* update) {
  const std::vector<uint64_t> swappable = SwappableSites(*plan);
  std::set<uint64_t> gone;
  for (const Clearance& clearance : old.cleared) {
    Clearance kept = clearance;
    std::erase_if(kept.sites, [&](uint64_t site) {
      const bool stays = std::binary_search(swappable.begin(), swappable.end(), site);
      if (!stays) gone.insert(site);
      return !stays;
    });
    update->cleared += kept.sites.size();
    if (!kept.sites.empty()) plan->cleared.push_back(std::move(kept));
  }
  for (uint64_t site : gone) {
    update->dropped.push_back(fmt::format("the clearance of {:#x} (no longer in a slab)", site));
  }
}

std::string UpdateText(const Update& update, const std::string& old_file) {
  std::vector<std::string> kept;
  if (update.budget > 0) kept.push_back(fmt::format("a budget of {}", FormatSize(update.budget)));
  if (update.weights) kept.push_back("the weights of hotness");
  if (update.pins > 0) kept.push_back(Counted(update.pins, "pin", "pins"));
  if (update.exclusions > 0) {
    kept.push_back(Counted(update.exclusions, "exclusion", "exclusions"));
  }
  if (update.cleared > 0) kept.push_back(Counted(update.cleared, "cleared site", "cleared sites"));
  std::string text =
      fmt::format("kept of {}: {}", old_file, kept.empty() ? "nothing" : absl::StrJoin(kept, ", "));
  if (!update.dropped.empty()) {
    text += fmt::format("; no longer applies: {}", Listed(update.dropped, ", "));
  }
  return text;
}

}  // namespace ebt::plan
