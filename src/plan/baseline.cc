#include "src/plan/baseline.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "src/base/units.h"
#include "src/plan/baseline_allocator.h"
#include "src/profile/metadata.h"

namespace ebt::plan {
namespace {

using profile::AllocKind;
using profile::Event;
using profile::EventKind;

// More than any device has: sums of less cannot overflow.
constexpr uint64_t kSaneBytes = uint64_t{1} << 44;
// What nothing touches is a probe when it is larger than this part of the device.
constexpr uint64_t kProbePart = 4;

bool Ordered(AllocKind kind) { return kind == AllocKind::kAsync || kind == AllocKind::kPool; }

bool OnDevice(AllocKind kind) { return kind != AllocKind::kManaged; }

// The device with the most bytes of blocks that `counts` says yes to.
template <typename Counts>
uint16_t DeviceWithMost(const profile::Profile& profile, const Counts& counts) {
  std::map<uint16_t, uint64_t> bytes;
  for (const profile::Block& block : profile.blocks) {
    if (counts(block.kind)) bytes[block.device] += std::min(block.bytes, kSaneBytes);
  }
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? 0 : most->first;
}

std::vector<bool> TouchedBlocks(const profile::Profile& profile) {
  std::vector<bool> touched(profile.blocks.size());
  for (const Event& event : profile.events) {
    for (uint32_t block : event.touched) {
      if (block < touched.size()) touched[block] = true;
    }
  }
  return touched;
}

std::unique_ptr<BaselineAllocator> MakeAllocator(Policy policy, DeviceMemory& device,
                                                 uint64_t capacity) {
  switch (policy) {
    case Policy::kNative:
      return MakeNativeAllocator(device);
    case Policy::kExpandable:
      return MakeExpandableAllocator(device, capacity + capacity / 8);
    case Policy::kPool:
      return MakePoolAllocator(device);
    case Policy::kManaged:
      return MakeManagedAllocator(device);
  }
  return nullptr;
}

// Goes through the events of a recording once.
class Player {
 public:
  Player(const profile::Profile& profile, Policy policy, const BaselineOptions& options)
      : profile_(profile), takers_(FindTakers(profile)), live_(profile.blocks.size()) {
    uint64_t capacity = options.capacity > 0 ? options.capacity : RecordedCapacity(profile);
    capacity = std::min(capacity, kSaneBytes);
    device_ = std::make_unique<DeviceMemory>(capacity);
    allocator_ = MakeAllocator(policy, *device_, capacity);
    result_.policy = policy;
  }

  Baseline Play(double fault_rate) {
    for (uint64_t at = 0; at < profile_.events.size() && result_.fits; ++at) Meet(at);
    const AllocatorCounts& counts = allocator_->counts();
    result_.peak_allocated_bytes = counts.peak_allocated;
    result_.peak_reserved_bytes = counts.peak_reserved;
    result_.peak_process_bytes = device_->peak();
    result_.segments_made = counts.made;
    result_.segments_freed = counts.freed;
    result_.retries = counts.retries;
    result_.moved_in_bytes = counts.moved_in;
    result_.moved_out_bytes = counts.moved_out;
    result_.fault_ms = double(counts.moved_in + counts.moved_out) / fault_rate * 1e3;
    return result_;
  }

 private:
  void Meet(uint64_t at) {
    const Event& event = profile_.events[at];
    if (event.kind == EventKind::kAlloc) {
      if (event.block < live_.size() && !live_[event.block]) Allocate(event.block, at);
    } else if (event.kind == EventKind::kFree) {
      if (event.block < live_.size() && live_[event.block]) Free(event.block);
    } else {
      for (uint32_t block : event.touched) {
        if (block < live_.size() && live_[block] && takers_.of[block] == Taker::kFramework)
          allocator_->Touch(block);
      }
    }
  }

  static uint64_t Rounded(const profile::Block& block) {
    return AlignUp(block.bytes, kBlockAlignment);
  }

  void Allocate(uint32_t number, uint64_t at) {
    const profile::Block& block = profile_.blocks[number];
    if (takers_.of[number] == Taker::kElsewhere) return;
    const bool framework = takers_.of[number] == Taker::kFramework;
    const bool served = block.bytes <= kSaneBytes &&
                        (framework ? allocator_->Take(number, block.bytes, block.stream)
                                   : device_->Take(Rounded(block)));
    if (!served) {
      result_.fits = false;
      result_.refused_bytes = block.bytes;
      result_.refused_at = at;
      return;
    }
    live_[number] = true;
    if (!framework) return;
    ++result_.allocations;
    live_bytes_ += Rounded(block);
    result_.peak_live_bytes = std::max(result_.peak_live_bytes, live_bytes_);
  }

  void Free(uint32_t number) {
    const profile::Block& block = profile_.blocks[number];
    live_[number] = false;
    if (takers_.of[number] == Taker::kLibrary) return device_->Give(Rounded(block));
    allocator_->Give(number);
    live_bytes_ -= Rounded(block);
  }

  const profile::Profile& profile_;
  const Takers takers_;
  std::vector<bool> live_;  // by block
  std::unique_ptr<DeviceMemory> device_;
  std::unique_ptr<BaselineAllocator> allocator_;
  uint64_t live_bytes_ = 0;  // of the framework's blocks
  Baseline result_;
};

}  // namespace

std::string_view PolicyName(Policy policy) {
  switch (policy) {
    case Policy::kNative:
      return "native";
    case Policy::kExpandable:
      return "expandable";
    case Policy::kPool:
      return "pool";
    case Policy::kManaged:
      return "managed";
  }
  return "?";
}

std::optional<Policy> PolicyNamed(std::string_view name) {
  for (Policy policy : kPolicies) {
    if (PolicyName(policy) == name) return policy;
  }
  return std::nullopt;
}

uint64_t RecordedCapacity(const profile::Profile& profile) {
  const uint64_t total = profile::Number(profile, "total_bytes").value_or(0);
  const uint64_t base = profile::Number(profile, "device_used_base_bytes").value_or(0);
  return total > base ? std::min(total - base, kSaneBytes) : kSaneBytes;
}

Takers FindTakers(const profile::Profile& profile) {
  const bool ordered = std::any_of(profile.blocks.begin(), profile.blocks.end(),
                                   [](const profile::Block& block) { return Ordered(block.kind); });
  const auto of_framework = [ordered](AllocKind kind) {
    return ordered ? Ordered(kind) : kind == AllocKind::kLinear || kind == AllocKind::kPitched;
  };
  Takers takers;
  takers.device = DeviceWithMost(profile, of_framework);
  const std::vector<bool> touched = TouchedBlocks(profile);
  const uint64_t probe = RecordedCapacity(profile) / kProbePart;
  takers.of.reserve(profile.blocks.size());
  for (const profile::Block& block : profile.blocks) {
    const bool there = block.device == takers.device && block.bytes > 0 && OnDevice(block.kind) &&
                       (touched[block.id] || block.bytes <= probe);
    takers.of.push_back(!there                     ? Taker::kElsewhere
                        : of_framework(block.kind) ? Taker::kFramework
                                                   : Taker::kLibrary);
  }
  return takers;
}

Baseline PlayBaseline(const profile::Profile& profile, Policy policy,
                      const BaselineOptions& options) {
  return Player(profile, policy, options).Play(options.fault_rate);
}

}  // namespace ebt::plan
