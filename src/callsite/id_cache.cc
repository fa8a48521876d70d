#include "src/callsite/id_cache.h"

#include <utility>

namespace ebt::callsite {

IdCache::IdCache(size_t initial_slots, size_t max_slots) : max_slots_(max_slots) {
  tables_.push_back(std::make_unique<Table>(initial_slots));
  table_.store(tables_.back().get(), std::memory_order_release);
}

bool IdCache::Find(uint64_t key, uint64_t* value) const noexcept {
  const Table& table = *table_.load(std::memory_order_acquire);
  const size_t mask = table.slots - 1;
  for (size_t i = key & mask;; i = (i + 1) & mask) {
    const uint64_t found = table.slot[i].key.load(std::memory_order_acquire);
    if (found == 0) return false;
    if (found != key) continue;
    *value = table.slot[i].value.load(std::memory_order_acquire);
    // The slot may have been emptied and filled again in between; the value then came with
    // another key, which this second look sees because the value was stored with release.
    return table.slot[i].key.load(std::memory_order_relaxed) == key;
  }
}

void IdCache::Put(const Table& table, uint64_t key, uint64_t value) noexcept {
  const size_t mask = table.slots - 1;
  size_t i = key & mask;
  for (uint64_t there; (there = table.slot[i].key.load(std::memory_order_relaxed)) != 0;) {
    if (there == key) break;
    i = (i + 1) & mask;
  }
  table.slot[i].value.store(value, std::memory_order_release);
  table.slot[i].key.store(key, std::memory_order_release);
}

void IdCache::MakeRoom() {
  const Table& table = *table_.load(std::memory_order_relaxed);
  if (table.slots >= max_slots_) {
    for (size_t i = 0; i < table.slots; ++i) table.slot[i].key.store(0, std::memory_order_release);
    used_ = 0;
    return;
  }
  auto larger = std::make_unique<Table>(table.slots * 2);
  for (size_t i = 0; i < table.slots; ++i) {
    const uint64_t key = table.slot[i].key.load(std::memory_order_relaxed);
    if (key != 0) Put(*larger, key, table.slot[i].value.load(std::memory_order_relaxed));
  }
  tables_.push_back(std::move(larger));
  table_.store(tables_.back().get(), std::memory_order_release);
}

void IdCache::Insert(uint64_t key, uint64_t value) {
  uint64_t present;
  if (!Find(key, &present)) {
    // Below half full a probe sequence stays short and always meets an empty slot.
    if (2 * (used_ + 1) > table_.load(std::memory_order_relaxed)->slots) MakeRoom();
    ++used_;
  }
  Put(*table_.load(std::memory_order_relaxed), key, value);
}

}  // namespace ebt::callsite
