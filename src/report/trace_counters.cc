#include "src/report/trace_counters.h"

#include <algorithm>

#include "src/report/composition.h"

namespace ebt::report {

using profile::EventKind;

CounterPlaces::CounterPlaces(const profile::Profile& profile,
                             const std::vector<profile::Kind>& kinds, const MemorySpaces& memory,
                             uint32_t space, uint64_t stretches) {
  for (uint64_t at = 0; at < profile.events.size(); ++at) {
    const profile::Event& event = profile.events[at];
    const bool adds = event.kind == EventKind::kAlloc;
    if (!adds && event.kind != EventKind::kFree) continue;
    if (event.block >= profile.blocks.size() || memory.of_block[event.block] != space) continue;
    const auto kind = event.block < kinds.size() ? kinds[event.block] : profile::Kind::kUnknown;
    changes_.push_back(
        {at, static_cast<size_t>(kind), TakenBytes(profile.blocks[event.block]), adds});
  }
  const uint64_t most = std::max<uint64_t>(stretches, 1);
  length_ = std::max<uint64_t>((changes_.size() + most - 1) / most, 1);
}

void CounterPlaces::Apply(const Change& change, Place& place) {
  const uint64_t by = change.adds ? change.bytes : -change.bytes;
  place.event = change.event;
  place.all += by;
  place.bytes[change.kind] += by;
  place.changed[change.kind] = true;
}

void CounterPlaces::ForEach(const std::function<void(const Place&)>& take) const {
  Place now;
  for (size_t begin = 0; begin < changes_.size(); begin += length_) {
    const size_t end = std::min<size_t>(begin + length_, changes_.size());
    size_t largest = begin;
    Place walk = now, most;
    for (size_t i = begin; i < end; ++i) {
      Apply(changes_[i], walk);
      if (i != begin && walk.all <= most.all) continue;
      most = walk;
      largest = i;
    }
    take(most);
    now = most;
    now.changed.fill(false);
    if (largest + 1 == end) continue;
    for (size_t i = largest + 1; i < end; ++i) Apply(changes_[i], now);
    take(now);
    now.changed.fill(false);
  }
}

}  // namespace ebt::report
