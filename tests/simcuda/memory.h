// Every address the simulated devices know, what lies there, and how much of it is device memory.
#ifndef EBBTIDE_TESTS_SIMCUDA_MEMORY_H_
#define EBBTIDE_TESTS_SIMCUDA_MEMORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "clock.h"

namespace sim {

inline constexpr uint64_t kPage = 2 << 20;  // granularity of VMM and of managed residency

enum class Kind { kLinear, kPoolChunk, kManaged, kHost, kRegistered, kMapped };

// One VMM handle's memory; lives while a handle or a mapping does.
struct Physical {
  int fd = -1;
  uint64_t bytes = 0;
  CUmemAllocationProp properties = {};
  Device* device = nullptr;  // null: on the host
  int handles = 0;           // references by handle, each released once
  ~Physical();
};

struct ManagedPage {
  static constexpr int kUnpopulated = -2, kHost = -1;
  int where = kUnpopulated;  // else a device's ordinal
  int preferred = kUnpopulated;
  uint32_t accessed_by = 0;  // bit a device
  bool read_mostly = false;
  uint32_t copies = 0;  // read-mostly duplicates, bit a device
  uint64_t last_use = 0;
  int last_prefetch = kUnpopulated;
};

struct Region {
  uint64_t base = 0, bytes = 0;
  Kind kind = Kind::kLinear;
  Context* context = nullptr;
  Device* device = nullptr;  // owner; null: host memory
  uint64_t accounted = 0;    // bytes of the device's memory that it holds
  unsigned flags = 0;
  uint64_t id = 0;  // no other region of the process has it
  bool sync_memops = false;
  std::vector<ManagedPage> pages;       // kManaged
  std::map<uint64_t, uint64_t> live;    // kPoolChunk: blocks alive in device time
  std::shared_ptr<Physical> physical;   // kMapped
  uint64_t offset = 0;                  // kMapped: into `physical`
  uint32_t readable = 0, writable = 0;  // kMapped: bit a device
};

// A stretch of memory that a piece of work names.
struct Span {
  uint64_t address = 0, bytes = 0;
  bool read = false, written = false;
};

// Where the bytes of some spans lie, as seen by one device, in bytes.
struct Traffic {
  uint64_t local = 0;                        // of this device's memory, reads and writes together
  uint64_t peer = 0;                         // of other devices
  uint64_t host_read = 0, host_written = 0;  // in place on the host
  uint64_t migrated = 0;                     // managed pages brought in by faults
  uint64_t evicted = 0;                      // managed pages pushed out to make room
  uint64_t duplicated = 0;                   // read-mostly pages copied in
};

// The region that holds an address, or null.
Region* FindRegion(uint64_t address);
Region& AddRegion(Region region);
void EraseRegion(uint64_t base);
std::map<uint64_t, Region>& Regions();

// True when all of the span may be accessed by `device` now.
bool Accessible(const Span& span, Device* device);
// Accounts an access by a kernel; moves managed pages the way faults would.
void Touch(const Span& span, Device* device, Traffic* traffic);
// Time that the traffic takes beside the kernel's own minimum.
Ns TrafficTime(const Traffic& traffic);

// Where a copy engine finds an address: -1 on the host, else a device's ordinal. `managed_host`
// is set for managed memory resident on the host, `pageable` for memory of no region.
struct Place {
  int device = -1;
  bool managed_host = false;
  bool pageable = false;
};
Place PlaceOf(uint64_t address);

// While it lives, pages touched through it are not evicted to make room for each other.
struct AccessScope {
  AccessScope();
  ~AccessScope();
};

// Takes `bytes` of the device's memory, evicting managed pages where that helps. False: no room.
bool TakeMemory(Device* device, uint64_t bytes, uint64_t* evicted = nullptr);
void GiveMemory(Device* device, uint64_t bytes);

// Zero-filled memory of the process, at `hint` if that is free, aligned to 2 MiB from there up.
void* MapMemory(uint64_t bytes, uint64_t hint = 0, bool accessible = true);
void UnmapMemory(uint64_t base, uint64_t bytes);

// A managed region's pages that [address, address + bytes) touches.
struct PageRange {
  Region* region = nullptr;
  size_t first = 0, last = 0;  // half-open
};
bool FindManaged(uint64_t address, uint64_t bytes, PageRange* range);
uint64_t PageBytes(const Region& region, size_t page);
void DropManaged(Region* region);

constexpr uint64_t RoundUp(uint64_t value, uint64_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace sim

#endif  // EBBTIDE_TESTS_SIMCUDA_MEMORY_H_
