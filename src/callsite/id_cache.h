// A map from a 64-bit key to a 64-bit value that is read without a lock.
#ifndef EBBTIDE_SRC_CALLSITE_ID_CACHE_H_
#define EBBTIDE_SRC_CALLSITE_ID_CACHE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ebt::callsite {

// Open addressing with linear probing. It grows by doubling up to a limit and is then emptied in
// place: it is a cache, and whoever misses can work the value out again. Tables that it outgrew
// are kept, because a reader may still be in one (all of them together are smaller than the
// present one). Find may run at any time on any thread; Insert must be serialized by the
// caller.
class IdCache {
 public:
  // Both sizes in entries, powers of two; max_slots bounds the memory at 16 bytes an entry.
  IdCache(size_t initial_slots, size_t max_slots);

  // True and *value set when the key is known. A key must not be 0.
  bool Find(uint64_t key, uint64_t* value) const noexcept;
  // May throw std::bad_alloc; the cache is then as it was.
  void Insert(uint64_t key, uint64_t value);

 private:
  struct Slot {
    std::atomic<uint64_t> key{0};
    std::atomic<uint64_t> value{0};
  };
  struct Table {
    explicit Table(size_t count) : slots(count), slot(new Slot[count]) {}
    const size_t slots;
    const std::unique_ptr<Slot[]> slot;
  };

  static void Put(const Table& table, uint64_t key, uint64_t value) noexcept;
  void MakeRoom();

  std::vector<std::unique_ptr<Table>> tables_;
  std::atomic<const Table*> table_;  // the last of them
  size_t used_ = 0;
  const size_t max_slots_;
};

}  // namespace ebt::callsite

#endif  // EBBTIDE_SRC_CALLSITE_ID_CACHE_H_
