#include "src/report/memory_spaces.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "fmt/format.h"
#include "src/base/units.h"
#include "src/report/composition.h"

namespace ebt::report {
namespace {

using profile::AllocKind;
using profile::Block;
using profile::EventKind;

// Behind every device number.
constexpr uint32_t kManaged = uint32_t{1} << 16;

uint32_t KeyOf(const Block& block) {
  return block.kind == AllocKind::kManaged ? kManaged : block.device;
}

class PeakWatch {
 public:
  PeakWatch(std::vector<MemorySpace>& spaces, const std::optional<profile::Steps>& steps)
      : spaces_(spaces), live_(spaces.size()) {
    if (!steps || steps->start_events.empty()) return;
    steady_begin_ = steps->start_events.front();
    steady_end_ = steps->start_events.back();
  }

  void Alloc(uint32_t space, uint64_t bytes, uint64_t at) {
    KindSum& live = live_[space];
    live.bytes += bytes;
    ++live.blocks;
    MemorySpace& peak = spaces_[space];
    const bool better_place = Steady(at) && !Steady(peak.peak_event);
    if (live.bytes < peak.peak_bytes || (live.bytes == peak.peak_bytes && !better_place)) return;
    peak.peak_bytes = live.bytes;
    peak.peak_blocks = live.blocks;
    peak.peak_event = at;
  }

  void Free(uint32_t space, uint64_t bytes) {
    live_[space].bytes -= bytes;
    --live_[space].blocks;
  }

 private:
  bool Steady(uint64_t at) const { return at >= steady_begin_ && at < steady_end_; }

  std::vector<MemorySpace>& spaces_;
  std::vector<KindSum> live_;
  uint64_t steady_begin_ = 0, steady_end_ = 0;
};

void WatchPeaks(const profile::Profile& profile, const std::optional<profile::Steps>& steps,
                MemorySpaces& out) {
  PeakWatch watch(out.spaces, steps);
  for (uint64_t at = 0; at < profile.events.size(); ++at) {
    const profile::Event& event = profile.events[at];
    if (event.block >= profile.blocks.size()) continue;
    const uint64_t bytes = TakenBytes(profile.blocks[event.block]);
    if (event.kind == EventKind::kAlloc) watch.Alloc(out.of_block[event.block], bytes, at);
    if (event.kind == EventKind::kFree) watch.Free(out.of_block[event.block], bytes);
  }
}

void SumPeaks(const profile::Profile& profile, const std::vector<profile::Kind>& kinds,
              MemorySpaces& out) {
  for (const Block& block : profile.blocks) {
    MemorySpace& space = out.spaces[out.of_block[block.id]];
    ++space.blocks;
    if (block.alloc_at > space.peak_event || block.free_at <= space.peak_event) continue;
    const auto kind = block.id < kinds.size() ? kinds[block.id] : profile::Kind::kUnknown;
    KindSum& sum = space.kinds[static_cast<size_t>(kind)];
    sum.bytes += TakenBytes(block);
    ++sum.blocks;
  }
}

// The largest first, whose report this is; managed memory behind all devices.
void SortByPeak(const std::vector<uint32_t>& keys, MemorySpaces& out) {
  std::vector<uint32_t> order(out.spaces.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const bool a_managed = keys[a] == kManaged, b_managed = keys[b] == kManaged;
    if (a_managed != b_managed) return b_managed;
    return out.spaces[a].peak_bytes > out.spaces[b].peak_bytes;
  });
  std::vector<uint32_t> place(order.size());
  std::vector<MemorySpace> sorted;
  for (uint32_t old : order) {
    place[old] = static_cast<uint32_t>(sorted.size());
    sorted.push_back(std::move(out.spaces[old]));
  }
  out.spaces = std::move(sorted);
  for (uint32_t& space : out.of_block) space = place[space];
}

}  // namespace

MemorySpaces FindMemorySpaces(const profile::Profile& profile,
                              const std::optional<profile::Steps>& steps,
                              const std::vector<profile::Kind>& kinds) {
  MemorySpaces out;
  std::map<uint32_t, uint32_t> numbers;
  for (const Block& block : profile.blocks) numbers.emplace(KeyOf(block), 0);
  std::vector<uint32_t> keys;
  for (auto& [key, number] : numbers) {
    number = static_cast<uint32_t>(keys.size());
    keys.push_back(key);
    out.spaces.push_back(
        {.name = key == kManaged ? "managed memory" : fmt::format("device {}", key)});
  }
  for (const Block& block : profile.blocks) out.of_block.push_back(numbers[KeyOf(block)]);
  WatchPeaks(profile, steps, out);
  SumPeaks(profile, kinds, out);
  SortByPeak(keys, out);
  return out;
}

}  // namespace ebt::report
