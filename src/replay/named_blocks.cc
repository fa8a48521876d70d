#include "src/replay/named_blocks.h"

#include <algorithm>

#include "src/driver/launch_words.h"

namespace ebt::replay {

NamedBlocks::NamedBlocks(const DriverApi& driver, CUdeviceptr base, uint64_t size)
    : base_(base), size_(size), functions_(driver) {}

void NamedBlocks::Add(uint64_t offset, uint64_t bytes) {
  MutexLock lock(&mutex_);
  blocks_[offset] = {bytes, 0};
}

void NamedBlocks::Remove(uint64_t offset) {
  MutexLock lock(&mutex_);
  blocks_.erase(offset);
}

void NamedBlocks::Append(uint64_t offset, std::vector<tier::Extent>* named) {
  auto at = blocks_.upper_bound(offset);
  if (at == blocks_.begin()) return;
  --at;
  Block& block = at->second;
  // One past the end is how a program may name a block's end.
  if (offset > at->first + block.bytes || block.named_by == launches_) return;
  block.named_by = launches_;
  named->push_back({at->first, block.bytes});
}

void NamedBlocks::OfLaunch(const ebt_launch& launch, std::vector<tier::Extent>* named) {
  const FunctionLayout* layout = functions_.Find(launch.function);
  if (!layout) return;
  // The range's end is its last block's.
  const auto in_range = [this](uint64_t word) { return word - base_ <= size_; };
  bool any = false;
  VisitWords(launch, *layout, [&](uint64_t word) { any |= in_range(word); });
  if (!any) return;
  MutexLock lock(&mutex_);
  ++launches_;
  VisitWords(launch, *layout, [&](uint64_t word) {
    if (in_range(word)) Append(word - base_, named);
  });
}

void NamedBlocks::OfSpan(uint64_t address, uint64_t bytes, std::vector<tier::Extent>* named) const {
  const uint64_t begin = std::max<uint64_t>(address, base_);
  const uint64_t end = std::min<uint64_t>(address + bytes, base_ + size_);
  if (bytes > 0 && begin < end) named->push_back({begin - base_, end - begin});
}

std::string NamedBlocks::FunctionName(void* function) {
  const FunctionLayout* layout = functions_.Find(function);
  if (!layout) return "an unnamed kernel";
  std::vector<std::string> names;
  uint32_t from = layout->id;
  functions_.NamesSince(from, names);
  return names.empty() ? "an unnamed kernel" : names.front();
}

}  // namespace ebt::replay
