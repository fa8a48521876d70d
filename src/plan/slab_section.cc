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

// Most bytes live in each stretch of the step from one launch to the next.
struct LiveProfile {
  std::vector<uint64_t> behind;  // launch i until launch i + 1; the last: until the next step's 0
  uint64_t step_peak = 0;
  uint64_t peak = 0;  // prologue included
};

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

class SectionMaker {
 public:
  SectionMaker(const profile::Profile& profile, const Timeline& timeline,
               const Behaviour& behaviour, std::vector<Tier> tiers, const StepClock& clock,
               const DeviceModel& device)
      : profile_(profile),
        timeline_(timeline),
        behaviour_(behaviour),
        tiers_(std::move(tiers)),
        in_place_(tiers_.size(), false),
        clock_(clock),
        device_(device) {}

  SlabSection Run(uint64_t keep_free) {
    if (timeline_.launch_times.empty() ||
        clock_.launch_ms.size() != timeline_.launch_times.size()) {
      return {};
    }
    std::vector<uint32_t> to_device;
    live_ = ReadLive(timeline_, DeviceItems());
    for (int round = 0; round < kMostRounds; ++round) {
      SlabSection section = Stack();
      if (section.lives.empty()) return Without(std::move(to_device));
      const StaySchedule schedule = Schedule(section, keep_free);
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
    for (uint32_t i = 0; i < tiers_.size(); ++i) {
      const Traits& traits = behaviour_.traits[i];
      if (in_place_[i] || profile_.blocks[timeline_.lives[i].block].kept) continue;
      if (tiers_[i] == Tier::kCold && timeline_.lives[i].span == Span::kPersistent &&
          traits.block_class == BlockClass::kOptimizerState && traits.idle >= kIdleEnough) {
        section.lives.push_back(i);
      }
    }
    std::stable_sort(section.lives.begin(), section.lives.end(), [&](uint32_t a, uint32_t b) {
      return behaviour_.traits[a].place < behaviour_.traits[b].place;
    });
    section.slab_bytes =
        std::bit_floor(std::clamp(live_.peak / kSlabPart, kSmallestSlab, kLargestSlab));
    uint64_t top = 0;
    for (uint32_t life : section.lives) {
      section.offsets.push_back(top);
      top += AlignUp(Bytes(life), kBlockAlignment);
    }
    section.slabs.resize((top + section.slab_bytes - 1) / section.slab_bytes);
    return section;
  }

  // [first, last) slabs in which the block lies.
  std::pair<size_t, size_t> SlabsOf(const SlabSection& section, size_t i) const {
    const uint64_t end = section.offsets[i] + Bytes(section.lives[i]);
    return {section.offsets[i] / section.slab_bytes, (end - 1) / section.slab_bytes + 1};
  }

  std::vector<SlabUse> Uses(const SlabSection& section) const {
    std::vector<SlabUse> uses(section.slabs.size(), {timeline_.step_launches, 0});
    for (size_t i = 0; i < section.lives.size(); ++i) {
      const auto [begin, end] = SlabsOf(section, i);
      for (const Touch& touch : timeline_.lives[section.lives[i]].touches) {
        // A copy comes before the launch with which it counts: behind the one before.
        const uint32_t first = touch.launch - (touch.copy && touch.launch > 0);
        for (size_t slab = begin; slab < end; ++slab) {
          uses[slab].first = std::min(uses[slab].first, first);
          uses[slab].last = std::max(uses[slab].last, touch.launch);
        }
      }
    }
    return uses;
  }

  StaySchedule Schedule(const SlabSection& section, uint64_t keep_free) const {
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
    const uint64_t limit = live_.peak - std::min(live_.peak, keep_free);
    StaySchedule schedule = within(limit);
    // A warm-up that needs more than any step leaves room in which nothing would ever have to
    // move; on the device for good the blocks would add to that warm-up.
    if (schedule.raised == 0 && Any(schedule.always) && limit > live_.step_peak) {
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
        return use.first <= schedule.crowded && schedule.crowded <= use.last;
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
  const Behaviour& behaviour_;
  std::vector<Tier> tiers_;
  std::vector<bool> in_place_;  // cold, but not to be swapped
  LiveProfile live_;            // of what is hot and warm
  const StepClock& clock_;
  const DeviceModel& device_;
};

}  // namespace

SlabSection MakeSlabSection(const profile::Profile& profile, const Timeline& timeline,
                            const Behaviour& behaviour, const std::vector<Tier>& tiers,
                            const StepClock& clock, const DeviceModel& device, uint64_t keep_free) {
  return SectionMaker(profile, timeline, behaviour, tiers, clock, device).Run(keep_free);
}

}  // namespace ebt::plan
