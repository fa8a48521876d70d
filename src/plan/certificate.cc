#include "src/plan/certificate.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "src/base/units.h"
#include "src/plan/budget.h"
#include "src/plan/hotness.h"
#include "src/plan/layout.h"

namespace ebt::plan {
namespace {

constexpr size_t kNamedSites = 3;

// The last moment at which most bytes of the items become live: of equal ones that of the step, and
// not of the warm-up.
uint64_t FullestMoment(const std::vector<Item>& items) {
  std::vector<std::pair<uint64_t, int64_t>> changes;
  for (const Item& item : items) {
    const auto bytes = int64_t(AlignUp(item.bytes, kBlockAlignment));
    for (const Interval& live : item.live) {
      if (live.empty()) continue;
      changes.emplace_back(live.begin, bytes);
      changes.emplace_back(live.end, -bytes);
    }
  }
  std::sort(changes.begin(), changes.end());
  int64_t now = 0, most = 0;
  uint64_t moment = 0;
  for (const auto& [time, bytes] : changes) {
    now += bytes;
    if (bytes > 0 && now >= most) most = now, moment = time;
  }
  return moment;
}

bool LiveAt(const Item& item, uint64_t moment) {
  return std::any_of(item.live.begin(), item.live.end(), [&](const Interval& live) {
    return live.begin <= moment && moment < live.end;
  });
}

const char* Why(const profile::Block& block, const Lived& life, bool pinned) {
  if (life.unplanned != Unplanned::kNo) return "left to the driver";
  if (pinned) return "pinned";
  if (block.bytes < kSmallestCold) return "too small";
  return life.span == Span::kPersistent ? "in use" : "in use for as long as it lives";
}

// Which launch comes next, in which sequence, and its kernel.
void NameMoment(const profile::Profile& profile, const Timeline& timeline, uint64_t moment,
                Certificate& out) {
  const auto& starts = timeline.steps.start_events;
  out.in_warm_up = moment < timeline.prologue_end;
  if (timeline.uneven && !out.in_warm_up) return;  // its step is none that was recorded
  // The timeline's step is the recorded representative, event by event.
  uint64_t at = moment, begin = 0;
  if (!out.in_warm_up) {
    begin = starts[timeline.representative];
    at = begin + moment - timeline.prologue_end;
  }
  for (uint64_t i = begin; i < profile.events.size(); ++i) {
    const profile::Event& event = profile.events[i];
    if (!IsLaunch(event)) continue;
    if (i < at) {
      ++out.launch;
      continue;
    }
    const bool known =
        event.kind == profile::EventKind::kLaunch && event.function < profile.functions.size();
    out.kernel = known ? profile.functions[event.function].name : "a graph";
    return;
  }
}

}  // namespace

Certificate Certify(const profile::Profile& profile, const Timeline& timeline,
                    const std::vector<Tier>& tiers, const std::vector<bool>& pinned,
                    uint64_t packed_bytes, uint64_t besides) {
  std::vector<uint32_t> members;
  for (uint32_t i = 0; i < tiers.size(); ++i) {
    if (tiers[i] == Tier::kHot || tiers[i] == Tier::kWarm) members.push_back(i);
  }
  const Occupation occupation = Occupy(profile, timeline, members);
  const uint64_t moment = FullestMoment(occupation.items);
  Certificate out{.smallest_budget = packed_bytes + besides};
  NameMoment(profile, timeline, moment, out);

  absl::flat_hash_map<uint64_t, const callsite::Site*> sites;
  for (const callsite::Site& site : profile.sites) sites[site.id] = &site;
  std::map<std::pair<uint64_t, std::string>, Certificate::Blocks> sums;
  for (size_t i = 0; i < occupation.items.size(); ++i) {
    if (!LiveAt(occupation.items[i], moment)) continue;
    const uint32_t life = occupation.lives[i];
    const auto& block = profile.blocks[timeline.lives[life].block];
    const std::string why = Why(block, timeline.lives[life], pinned[life]);
    auto& sum = sums[{block.site, why}];
    sum.site = block.site, sum.why = why;
    sum.bytes += AlignUp(block.bytes, kBlockAlignment);
    ++sum.blocks;
    out.live_bytes += AlignUp(block.bytes, kBlockAlignment);
  }
  for (auto& [key, sum] : sums) {
    auto site = sites.find(sum.site);
    sum.label =
        site == sites.end() ? fmt::format("site {:#x}", sum.site) : SiteLabel(*site->second);
    out.sites.push_back(std::move(sum));
  }
  std::stable_sort(out.sites.begin(), out.sites.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return out;
}

std::string CertificateText(const Certificate& certificate, uint64_t budget) {
  const std::string when =
      certificate.kernel.empty()
          ? "where steps that differ need most"
          : fmt::format("before launch {} of {} ({})", certificate.launch,
                        certificate.in_warm_up ? "the warm-up" : "a step", certificate.kernel);
  std::string text = fmt::format(
      "with everything on the host that can be, {} of device memory are needed {}, {} more than "
      "the "
      "budget of {}: the smallest budget that can be met is {} bytes",
      FormatSize(certificate.smallest_budget), when,
      FormatSize(certificate.smallest_budget - budget), FormatSize(budget),
      certificate.smallest_budget);
  for (size_t i = 0; i < std::min(kNamedSites, certificate.sites.size()); ++i) {
    const Certificate::Blocks& blocks = certificate.sites[i];
    text += fmt::format("{} {} in {} blocks of {}, {}", i == 0 ? "; on the device stay" : ",",
                        FormatSize(blocks.bytes), blocks.blocks, blocks.label, blocks.why);
  }
  return text;
}

}  // namespace ebt::plan
