#include "src/plan/slab_section.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/base/units.h"
#include "src/plan/layout.h"
#include "src/plan/slabs.h"

namespace ebt::plan {
namespace {

// Slabs are that part of what is live, so that rounding the device's part up to one costs little.
constexpr uint64_t kSlabPart = 64;
// The link is not had to itself: the application copies too, and copies start a little late.
constexpr double kLinkMargin = 1.1;
// Rounds of leaving out what needs no moving, or finds no room at one launch. Where that takes
// more, hardly anything would be left to move.
constexpr int kMostRounds = 512;
// Blocks whose uses begin and end that part of the step apart do not share a slab.
constexpr uint32_t kAlikePart = 8;

class SectionMaker {
 public:
  SectionMaker(const profile::Profile& profile, const Timeline& timeline, std::vector<Tier> tiers,
               const StepClock& clock, const DeviceModel& device, const SlabWishes& wishes)
      : profile_(profile),
        timeline_(timeline),
        tiers_(std::move(tiers)),
        in_place_(tiers_.size(), false),
        clock_(clock),
        device_(device),
        wishes_(wishes),
        time_(TimeWeights(clock)),
        weights_(wishes.weights.empty() ? time_ : wishes.weights) {}

  SlabSection Run() {
    if (timeline_.launch_times.empty() ||
        clock_.launch_ms.size() != timeline_.launch_times.size()) {
      return {};
    }
    std::vector<uint32_t> to_device;
    live_ = ReadLive(timeline_, DeviceItems());
    for (int round = 0; round < kMostRounds; ++round) {
      SlabSection section = Stack();
      if (section.lives.empty()) return Without(std::move(to_device));
      const StaySchedule schedule = Schedule(section);
      if (schedule.raised > 0) {
        LeaveInPlace(section, schedule);
        continue;
      }
      if (Any(schedule.always)) {
        LeaveOut(section, schedule.always, to_device);
        live_ = ReadLive(timeline_, DeviceItems());
        continue;
      }
      section.slabs = schedule.slabs;
      section.uses = Uses(section);
      section.stall_ms = schedule.stall_ms;
      section.to_device = std::move(to_device);
      AddStays(section);
      return section;
    }
    return {};
  }

 private:
  static SlabSection Without(std::vector<uint32_t> to_device) {
    SlabSection section;
    section.to_device = std::move(to_device);
    return section;
  }

  static bool Any(const std::vector<bool>& flags) {
    return std::find(flags.begin(), flags.end(), true) != flags.end();
  }

  uint64_t Bytes(uint32_t life) const { return profile_.blocks[timeline_.lives[life].block].bytes; }

  std::vector<Item> DeviceItems() const {
    std::vector<uint32_t> members;
    for (uint32_t i = 0; i < tiers_.size(); ++i) {
      if (tiers_[i] == Tier::kHot || tiers_[i] == Tier::kWarm) members.push_back(i);
    }
    return Occupy(profile_, timeline_, members).items;
  }

  // The blocks of the section one behind the other, and as many slabs as that takes.
  SlabSection Stack() const {
    SlabSection section;
    std::vector<std::pair<SlabUse, uint32_t>> members;
    for (uint32_t i = 0; i < tiers_.size(); ++i) {
      const Lived& life = timeline_.lives[i];
      if (in_place_[i] || tiers_[i] != Tier::kCold) continue;
      if (!Swappable(profile_.blocks[life.block], life, time_)) continue;
      members.emplace_back(UseAroundGap(NeededAt(life), weights_), i);
    }
    const auto rank = [&](const auto& member) {
      const auto& [use, life] = member;
      return std::pair(use.first, wishes_.places.empty() ? life : wishes_.places[life]);
    };
    std::stable_sort(members.begin(), members.end(),
                     [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    section.slab_bytes = std::min(SlabBytes(live_.peak), wishes_.largest);
    uint64_t top = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0 && Unlike(members[i - 1].first, members[i].first)) {
        top = AlignUp(top, section.slab_bytes);
      }
      section.lives.push_back(members[i].second);
      section.offsets.push_back(top);
      top += AlignUp(Bytes(members[i].second), kBlockAlignment);
    }
    section.slabs.resize((top + section.slab_bytes - 1) / section.slab_bytes);
    return section;
  }

  // In one slab the two would keep each other on the device.
  bool Unlike(const SlabUse& a, const SlabUse& b) const {
    const uint32_t first = a.first > b.first ? a.first - b.first : b.first - a.first;
    const uint32_t last = a.last > b.last ? a.last - b.last : b.last - a.last;
    return first + last > timeline_.step_launches / kAlikePart;
  }

  // [first, last) slabs in which the block lies.
  std::pair<size_t, size_t> SlabsOf(const SlabSection& section, size_t i) const {
    const uint64_t end = section.offsets[i] + Bytes(section.lives[i]);
    return {section.offsets[i] / section.slab_bytes, (end - 1) / section.slab_bytes + 1};
  }

  std::vector<SlabUse> Uses(const SlabSection& section) const {
    std::vector<std::vector<uint32_t>> launches(section.slabs.size());
    for (size_t i = 0; i < section.lives.size(); ++i) {
      const auto [begin, end] = SlabsOf(section, i);
      const std::vector<uint32_t> needed = NeededAt(timeline_.lives[section.lives[i]]);
      for (size_t slab = begin; slab < end; ++slab) {
        launches[slab].insert(launches[slab].end(), needed.begin(), needed.end());
      }
    }
    std::vector<SlabUse> uses;
    for (auto& needed : launches) {
      std::sort(needed.begin(), needed.end());
      uses.push_back(UseAroundGap(needed, weights_));
    }
    return uses;
  }

  StaySchedule Schedule(const SlabSection& section) const {
    StayProblem problem{.clock = clock_, .uses = Uses(section)};
    const double bytes = double(section.slab_bytes) * kLinkMargin * 1e3;
    problem.in_ms = device_.link_in > 0 ? bytes / device_.link_in : 0;
    problem.out_ms = device_.link_out > 0 ? bytes / device_.link_out : 0;
    auto within = [&](uint64_t limit) {
      problem.room.clear();
      for (uint64_t behind : live_.behind) {
        // Rounded down below 0 too.
        const auto free = int64_t(limit) - int64_t(behind), unit = int64_t(section.slab_bytes);
        problem.room.push_back(free >= 0 ? free / unit : -((unit - 1 - free) / unit));
      }
      return ScheduleStays(problem);
    };
    // The device's part is as many whole slabs.
    const uint64_t given = wishes_.limit - wishes_.limit % section.slab_bytes;
    const uint64_t most = std::max(given, live_.peak);
    const uint64_t limit = most - std::min(most, wishes_.keep_free);
    StaySchedule schedule = within(limit);
    // A warm-up that needs more than any step leaves room in which nothing would ever have to
    // move; on the device for good the blocks would add to that warm-up.
    if (wishes_.limit == 0 && schedule.raised == 0 && Any(schedule.always) &&
        limit > live_.step_peak) {
      schedule = within(live_.step_peak);
      schedule.raised = 0;  // there is room up to the limit
    }
    return schedule;
  }

  void LeaveOut(const SlabSection& section, const std::vector<bool>& slabs,
                std::vector<uint32_t>& to_device) {
    for (size_t i = 0; i < section.lives.size(); ++i) {
      const auto [begin, end] = SlabsOf(section, i);
      if (std::find(slabs.begin() + begin, slabs.begin() + end, true) == slabs.begin() + end) {
        continue;
      }
      tiers_[section.lives[i]] = Tier::kWarm;
      to_device.push_back(section.lives[i]);
    }
  }

  // Out of the section, and in place: as many of the blocks in use at the crowded launch as there
  // is no room for, those that come last first.
  void LeaveInPlace(const SlabSection& section, const StaySchedule& schedule) {
    const std::vector<SlabUse> uses = Uses(section);
    uint64_t missing = uint64_t(schedule.raised) * section.slab_bytes;
    for (size_t i = section.lives.size(); i-- > 0 && missing > 0;) {
      const uint32_t life = section.lives[i];
      const auto [begin, end] = SlabsOf(section, i);
      const auto used = [&](const SlabUse& use) {
        const uint32_t launches = timeline_.step_launches;
        return (schedule.crowded + launches - use.first) % launches <= use.last - use.first;
      };
      if (std::none_of(uses.begin() + begin, uses.begin() + end, used)) continue;
      in_place_[life] = true;
      missing -= std::min(missing, AlignUp(Bytes(life), kBlockAlignment));
    }
  }

  void AddStays(SlabSection& section) const {
    for (const Slab& slab : section.slabs) {
      const uint64_t begin = timeline_.launch_times[slab.fetch_launch];
      const uint64_t end = timeline_.launch_times[slab.gone_launch];
      Item stay{.bytes = section.slab_bytes, .alignment = section.slab_bytes};
      if (begin < end) {
        stay.live[0] = {begin, end};
      } else {
        stay.live = {Interval{begin, timeline_.end}, Interval{timeline_.prologue_end, end}};
      }
      section.stays.push_back(stay);
    }
  }

  const profile::Profile& profile_;
  const Timeline& timeline_;
  std::vector<Tier> tiers_;
  std::vector<bool> in_place_;  // cold, but not to be swapped
  LiveProfile live_;            // of what is hot and warm
  const StepClock& clock_;
  const DeviceModel& device_;
  const SlabWishes& wishes_;
  const Weights time_;
  const Weights& weights_;
};

}  // namespace

LiveProfile ReadLive(const Timeline& timeline, const std::vector<Item>& items) {
  std::vector<std::pair<uint64_t, int64_t>> changes;
  for (const Item& item : items) {
    const auto bytes = int64_t(AlignUp(item.bytes, kBlockAlignment));
    for (const Interval& i : item.live) {
      if (i.empty()) continue;
      changes.emplace_back(i.begin, bytes);
      changes.emplace_back(i.end, -bytes);
    }
  }
  std::sort(changes.begin(), changes.end());  // at one moment frees come first
  const size_t launches = timeline.launch_times.size();
  LiveProfile live{.behind = std::vector<uint64_t>(launches, 0), .peak = MaxLive(items)};
  auto change = changes.begin();
  uint64_t now = 0;
  // Most bytes from `begin` on (what ended or began right then included) until before `end`.
  auto most_within = [&](uint64_t begin, uint64_t end) {
    for (; change != changes.end() && change->first <= begin; ++change) now += change->second;
    uint64_t most = now;
    for (; change != changes.end() && change->first < end; ++change) {
      most = std::max(most, now += change->second);
    }
    return most;
  };
  uint64_t& last = live.behind.back();
  last = most_within(timeline.prologue_end, timeline.launch_times[0]);
  for (size_t i = 0; i + 1 < launches; ++i) {
    live.behind[i] = most_within(timeline.launch_times[i], timeline.launch_times[i + 1]);
  }
  last = std::max(last, most_within(timeline.launch_times.back(), timeline.end));
  live.step_peak = *std::max_element(live.behind.begin(), live.behind.end());
  return live;
}

uint64_t SlabBytes(uint64_t live_bytes) {
  return std::bit_floor(std::clamp(live_bytes / kSlabPart, kSmallestSlab, kLargestSlab));
}

Weights TimeWeights(const StepClock& clock) {
  Weights sums = {0};
  const size_t launches = clock.launch_ms.size();
  for (size_t i = 0; i < launches; ++i) {
    const double end =
        i + 1 < launches ? clock.launch_ms[i + 1] : clock.step_ms + clock.launch_ms[0];
    sums.push_back(sums.back() + (clock.step_ms > 0 ? end - clock.launch_ms[i] : 1));
  }
  return sums;
}

SlabUse UseAroundGap(const std::vector<uint32_t>& launches, const Weights& weights) {
  const auto step = uint32_t(weights.size() - 1);
  // Over the step's end, from the last to the first.
  SlabUse best{.first = launches.front(), .last = launches.back()};
  double most = weights[step] - weights[best.last + 1] + weights[best.first];
  for (size_t i = 1; i < launches.size(); ++i) {
    if (launches[i] <= launches[i - 1] + 1) continue;
    const double weight = weights[launches[i]] - weights[launches[i - 1] + 1];
    if (weight <= most) continue;
    most = weight;
    best = {.first = launches[i], .last = launches[i - 1] + step};
  }
  return best;
}

double PartOutside(const SlabUse& use, const Weights& weights) {
  const auto step = uint32_t(weights.size() - 1);
  const double all = weights[step];
  if (all <= 0) return 0;
  if (use.last < step) return 1 - (weights[use.last + 1] - weights[use.first]) / all;
  return (weights[use.first] - weights[use.last + 1 - step]) / all;
}

std::vector<uint32_t> NeededAt(const Lived& life) {
  std::vector<uint32_t> launches;
  for (const Touch& touch : life.touches) {
    if (touch.copy && touch.launch > 0) launches.push_back(touch.launch - 1);
    launches.push_back(touch.launch);
  }
  std::sort(launches.begin(), launches.end());
  return launches;
}

bool Swappable(const profile::Block& block, const Lived& life, const Weights& time) {
  if (block.kept || life.span != Span::kPersistent || life.touches.empty()) return false;
  return PartOutside(UseAroundGap(NeededAt(life), time), time) >= kIdleEnough;
}

SlabSection MakeSlabSection(const profile::Profile& profile, const Timeline& timeline,
                            const std::vector<Tier>& tiers, const StepClock& clock,
                            const DeviceModel& device, const SlabWishes& wishes) {
  return SectionMaker(profile, timeline, tiers, clock, device, wishes).Run();
}

}  // namespace ebt::plan
