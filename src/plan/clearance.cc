#include "src/plan/clearance.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace ebt::plan {
namespace {

bool InSlabs(const Plan& plan, const Slot& slot) {
  return slot.tier == Tier::kCold && slot.persistent && slot.offset >= plan.warm_bytes &&
         slot.offset - plan.warm_bytes < plan.slabs.size() * plan.slab_bytes;
}

template <typename Visit>
void ForEachSwappable(const Plan& plan, Visit visit) {
  for (const std::vector<Slot>* slots : {&plan.prologue, &plan.step}) {
    for (const Slot& slot : *slots) {
      if (InSlabs(plan, slot)) visit(slot);
    }
  }
}

void SortUnique(std::vector<uint64_t>* sites) {
  std::sort(sites->begin(), sites->end());
  sites->erase(std::unique(sites->begin(), sites->end()), sites->end());
}

std::string DriverText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// What differs from here, in a few words; empty: nothing.
std::string Difference(const Clearance& clearance, int driver_version, const std::string& gpu) {
  if (clearance.gpu != gpu) return fmt::format("on {}, not {}", clearance.gpu, gpu);
  if (clearance.driver_version != driver_version) {
    return fmt::format("with driver {}, not {}", DriverText(clearance.driver_version),
                       DriverText(driver_version));
  }
  if (clearance.ebbtide != EBBTIDE_VERSION) {
    return fmt::format("by Ebbtide {}, not {}", clearance.ebbtide, EBBTIDE_VERSION);
  }
  return "";
}

}  // namespace

std::vector<uint64_t> SwappableSites(const Plan& plan) {
  std::vector<uint64_t> sites;
  ForEachSwappable(plan, [&](const Slot& slot) { sites.push_back(slot.site); });
  SortUnique(&sites);
  return sites;
}

uint64_t SwappableBytes(const Plan& plan, uint64_t site) {
  uint64_t bytes = 0;
  ForEachSwappable(plan, [&](const Slot& slot) { bytes += slot.site == site ? slot.bytes : 0; });
  return bytes;
}

std::vector<uint64_t> ClearedSites(const Plan& plan, int driver_version, const std::string& gpu) {
  std::vector<uint64_t> sites;
  for (const Clearance& clearance : plan.cleared) {
    if (!Difference(clearance, driver_version, gpu).empty()) continue;
    sites.insert(sites.end(), clearance.sites.begin(), clearance.sites.end());
  }
  SortUnique(&sites);
  return sites;
}

std::string WhyNotCleared(const Plan& plan, int driver_version, const std::string& gpu) {
  std::string first;
  size_t others = 0;
  for (const Clearance& clearance : plan.cleared) {
    const std::string difference = Difference(clearance, driver_version, gpu);
    if (difference.empty()) continue;
    if (!first.empty()) {
      ++others;
      continue;
    }
    first = fmt::format("what was cleared {} does not count", difference);
  }
  if (first.empty()) return "";
  return fmt::format("{}{}; run ebbtide verify again here", first,
                     others == 0 ? "" : fmt::format(" (nor do {} more)", others));
}

void AddClearance(Clearance clearance, const std::vector<uint64_t>& refused, Plan* plan) {
  std::vector<Clearance> kept;
  for (Clearance& other : plan->cleared) {
    if (other.command == clearance.command && other.gpu == clearance.gpu) continue;
    auto is_refused = [&](uint64_t site) {
      return std::find(refused.begin(), refused.end(), site) != refused.end();
    };
    other.sites.erase(std::remove_if(other.sites.begin(), other.sites.end(), is_refused),
                      other.sites.end());
    if (!other.sites.empty()) kept.push_back(std::move(other));
  }
  SortUnique(&clearance.sites);
  if (!clearance.sites.empty()) kept.push_back(std::move(clearance));
  plan->cleared = std::move(kept);
}

}  // namespace ebt::plan
