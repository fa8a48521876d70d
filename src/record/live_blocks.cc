#include "src/record/live_blocks.h"

#include <algorithm>
#include <iterator>
#include <mutex>

namespace ebt::record {

void LiveBlocks::Add(uint64_t address, uint64_t bytes, uint32_t id, CUcontext context,
                     std::vector<uint32_t>& stale) {
  const uint64_t room = ~uint64_t{0} - address;
  const uint64_t end = address + std::clamp<uint64_t>(bytes, 1, std::max<uint64_t>(room, 1));
  std::lock_guard lock(mutex_);
  auto it = blocks_.lower_bound(address);
  if (it != blocks_.begin() && std::prev(it)->second.end > address) --it;
  while (it != blocks_.end() && it->first < end) {
    stale.push_back(it->second.id);
    starts_.erase(it->first);
    it = blocks_.erase(it);
  }
  blocks_[address] = {end, id, context};
  starts_[address] = id;
  if (address < lowest_.load(std::memory_order_relaxed)) lowest_ = address;
  if (end > highest_.load(std::memory_order_relaxed)) highest_ = end;
}

void LiveBlocks::AddHandle(uint64_t handle, uint32_t id, CUcontext context,
                           std::vector<uint32_t>& stale) {
  std::lock_guard lock(mutex_);
  const auto [it, added] = handles_.try_emplace(handle);
  if (!added) stale.push_back(it->second.id);
  it->second = {id, context};
}

bool LiveBlocks::Remove(uint64_t address, uint32_t& id) {
  std::lock_guard lock(mutex_);
  if (const auto it = blocks_.find(address); it != blocks_.end()) {
    id = it->second.id;
    starts_.erase(address);
    blocks_.erase(it);
    return true;
  }
  if (const auto it = handles_.find(address); it != handles_.end()) {
    id = it->second.id;
    handles_.erase(it);
    return true;
  }
  return false;
}

void LiveBlocks::RemoveContext(CUcontext context, std::vector<uint32_t>& gone) {
  std::lock_guard lock(mutex_);
  const auto matches = [&](const auto& entry) {
    if (context != nullptr && entry.second.context != context) return false;
    gone.push_back(entry.second.id);
    return true;
  };
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    const bool ends = matches(*it);
    if (ends) starts_.erase(it->first);
    it = ends ? blocks_.erase(it) : std::next(it);
  }
  absl::erase_if(handles_, matches);
  std::sort(gone.begin(), gone.end());
}

void LiveBlocks::Find(std::span<const uint64_t> words, std::vector<uint32_t>& blocks) const {
  if (words.empty()) return;
  std::lock_guard lock(mutex_);
  for (const uint64_t word : words) {
    if (const auto start = starts_.find(word); start != starts_.end()) {
      blocks.push_back(start->second);
      continue;
    }
    auto it = blocks_.upper_bound(word);
    if (it == blocks_.begin()) continue;
    --it;
    if (word < it->second.end) blocks.push_back(it->second.id);
  }
}

}  // namespace ebt::record
