#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "pool.h"
#include "state.h"

namespace sim {
namespace {

// Anything that asks for no address starts its search at the first one, away from the process's
// own memory; hints below the lowest one are not granted.
#ifdef __SANITIZE_THREAD__
// The one stretch that ThreadSanitizer leaves to mappings, below where the kernel puts its own.
constexpr uint64_t kLowestAddress = 0x7e80'0000'0000, kFirstAddress = kLowestAddress;
#else
constexpr uint64_t kLowestAddress = kPage, kFirstAddress = 0x7000'0000'0000 - (uint64_t{1} << 43);
#endif

uint64_t& NextAddress() {
  static uint64_t next = kFirstAddress;
  return next;
}

uint32_t Bit(const Device* device) { return uint32_t{1} << device->ordinal; }

bool PeerReachable(const Region& region, const Device* device) {
  if (region.device == nullptr || region.device == device) return true;
  for (const Context* context : S().contexts) {
    if (context->device == device && (context->peers & Bit(region.device)) != 0) return true;
  }
  return false;
}

// Peer access to a pool is the pool's own affair: cuCtxEnablePeerAccess does not reach it.
bool PoolGrants(const Region& region, const Device* device) {
  for (const Pool* pool : S().pools) {
    if (pool->chunks.count(region.base) == 0) continue;
    auto granted = pool->access.find(device->ordinal);
    return granted != pool->access.end() && granted->second != CU_MEM_ACCESS_FLAGS_PROT_NONE;
  }
  return false;
}

bool PoolBlockAlive(const Region& region, uint64_t address, uint64_t bytes) {
  auto next = region.live.upper_bound(address);
  if (next == region.live.begin()) return false;
  auto block = std::prev(next);
  return address + bytes <= block->first + block->second;
}

// Whether `device` may access [address, address + bytes), which lies within the region.
bool RegionAccessible(const Region& region, uint64_t address, uint64_t bytes, const Span& span,
                      const Device* device) {
  switch (region.kind) {
    case Kind::kMapped:
      return (!span.read || (region.readable & Bit(device)) != 0) &&
             (!span.written || (region.writable & Bit(device)) != 0);
    case Kind::kPoolChunk:
      return (region.device == device || PoolGrants(region, device)) &&
             PoolBlockAlive(region, address, bytes);
    case Kind::kLinear:
      return PeerReachable(region, device);
    case Kind::kManaged:
    case Kind::kHost:
    case Kind::kRegistered:
      return true;
  }
  return false;
}

// Pushes the managed page out that was used longest ago. False: there is none.
bool EvictOnePage(Device* device, uint64_t* evicted) {
  Region* owner = nullptr;
  size_t oldest = 0;
  for (auto& [base, region] : Regions()) {
    for (size_t i = 0; i < region.pages.size(); ++i) {
      if (region.pages[i].where != device->ordinal) continue;
      if (region.pages[i].last_use == S().use_counter) continue;  // of the access under way
      if (owner == nullptr || region.pages[i].last_use < owner->pages[oldest].last_use) {
        owner = &region;
        oldest = i;
      }
    }
  }
  if (owner == nullptr) return false;
  owner->pages[oldest].where = ManagedPage::kHost;
  uint64_t bytes = PageBytes(*owner, oldest);
  GiveMemory(device, bytes);
  device->link_out += bytes;
  if (evicted != nullptr) *evicted += bytes;
  return true;
}

void TouchPage(Region* region, size_t index, uint64_t bytes, const Span& span, Device* device,
               Traffic* traffic) {
  ManagedPage& page = region->pages[index];
  page.last_use = S().use_counter;
  const uint64_t whole = PageBytes(*region, index);
  auto in_place = [&] {
    if (span.read) traffic->host_read += bytes;
    if (span.written) traffic->host_written += bytes;
  };
  auto bring_in = [&] {
    if (!TakeMemory(device, whole, &traffic->evicted)) return false;
    page.where = device->ordinal;
    traffic->local += bytes;
    return true;
  };
  if (span.written && page.copies != 0) {
    for (const auto& other : S().devices) {
      if ((page.copies & Bit(other.get())) != 0) GiveMemory(other.get(), whole);
    }
    page.copies = 0;
  }
  if (page.where == device->ordinal || (page.copies & Bit(device)) != 0) {
    traffic->local += bytes;
    return;
  }
  if (page.where >= 0) {
    traffic->peer += bytes;
    return;
  }
  const bool stays = page.preferred == ManagedPage::kHost || (page.accessed_by & Bit(device)) != 0;
  if (page.where == ManagedPage::kUnpopulated) {
    if (page.preferred == ManagedPage::kHost || !bring_in()) {
      page.where = ManagedPage::kHost;
      in_place();
    }
    return;
  }
  if (stays) {
    in_place();
  } else if (page.read_mostly && !span.written && TakeMemory(device, whole, &traffic->evicted)) {
    page.copies |= Bit(device);
    traffic->duplicated += whole;
    traffic->local += bytes;
    device->link_in += whole;
  } else if (bring_in()) {
    traffic->migrated += whole;
    device->link_in += whole;
  } else {
    in_place();
  }
}

void TouchRegion(Region* region, uint64_t address, uint64_t bytes, const Span& span, Device* device,
                 Traffic* traffic) {
  const uint64_t moved = bytes * (uint64_t{span.read} + uint64_t{span.written});
  if (region->kind == Kind::kManaged) {
    for (uint64_t at = address, end = address + bytes; at < end;) {
      size_t page = (at - region->base) / kPage;
      uint64_t stop = std::min(end, region->base + (page + 1) * kPage);
      TouchPage(region, page, stop - at, span, device, traffic);
      at = stop;
    }
    return;
  }
  const Device* owner = region->kind == Kind::kMapped ? region->physical->device : region->device;
  if (owner == device) {
    traffic->local += moved;
  } else if (owner != nullptr) {
    traffic->peer += moved;
  } else {
    if (span.read) traffic->host_read += bytes;
    if (span.written) traffic->host_written += bytes;
  }
}

// Calls `visit(region, address, bytes)` for each piece; false when a part lies nowhere.
template <typename Visit>
bool ForEachPiece(const Span& span, Visit visit) {
  for (uint64_t at = span.address, end = span.address + span.bytes; at < end;) {
    Region* region = FindRegion(at);
    if (region == nullptr) return false;
    uint64_t stop = std::min(end, region->base + region->bytes);
    if (!visit(region, at, stop - at)) return false;
    at = stop;
  }
  return true;
}

// Fresh memory at exactly `address`, or null.
void* MapAt(uint64_t address, uint64_t size, int protection) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  void* at = mmap(reinterpret_cast<void*>(address), size, protection, kFlags, -1, 0);
  return at == MAP_FAILED ? nullptr : at;
}

}  // namespace

Physical::~Physical() {
  if (fd >= 0) close(fd);
  if (device != nullptr) GiveMemory(device, bytes);
}

std::map<uint64_t, Region>& Regions() {
  static auto* regions = new std::map<uint64_t, Region>();
  return *regions;
}

Region* FindRegion(uint64_t address) {
  auto next = Regions().upper_bound(address);
  if (next == Regions().begin()) return nullptr;
  Region& region = std::prev(next)->second;
  return address < region.base + region.bytes ? &region : nullptr;
}

Region& AddRegion(Region region) {
  static uint64_t last_id = 0;
  uint64_t base = region.base;
  region.id = ++last_id;
  return Regions().insert_or_assign(base, std::move(region)).first->second;
}

void EraseRegion(uint64_t base) { Regions().erase(base); }

bool Accessible(const Span& span, Device* device) {
  return ForEachPiece(span, [&](Region* region, uint64_t address, uint64_t bytes) {
    return RegionAccessible(*region, address, bytes, span, device);
  });
}

void Touch(const Span& span, Device* device, Traffic* traffic) {
  ForEachPiece(span, [&](Region* region, uint64_t address, uint64_t bytes) {
    TouchRegion(region, address, bytes, span, device, traffic);
    return true;
  });
}

Ns TrafficTime(const Traffic& traffic) {
  // In-place reads and writes cross the link in their own directions at once.
  return Transfer(traffic.local, 3600) + Transfer(traffic.peer, 400) +
         Transfer(std::max(traffic.host_read, traffic.host_written), 42) +
         Transfer(traffic.migrated + traffic.evicted, 12) + Transfer(traffic.duplicated, 33);
}

Place PlaceOf(uint64_t address) {
  const Region* region = FindRegion(address);
  if (region == nullptr) return {.pageable = true};
  if (region->kind == Kind::kManaged) {
    int where = region->pages[(address - region->base) / kPage].where;
    if (where >= 0) return {.device = where};
    return {.managed_host = true};
  }
  const Device* owner = region->kind == Kind::kMapped ? region->physical->device : region->device;
  return {.device = owner == nullptr ? -1 : owner->ordinal};
}

AccessScope::AccessScope() { ++S().use_counter; }
AccessScope::~AccessScope() { ++S().use_counter; }

bool TakeMemory(Device* device, uint64_t bytes, uint64_t* evicted) {
  if (bytes > device->capacity) return false;
  while (device->used + bytes > device->capacity) {
    if (!EvictOnePage(device, evicted)) return false;
  }
  device->used += bytes;
  device->peak = std::max(device->peak, device->used);
  return true;
}

void GiveMemory(Device* device, uint64_t bytes) { device->used -= bytes; }

void* MapMemory(uint64_t bytes, uint64_t hint, bool accessible) {
  const int protection = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
  const uint64_t size = RoundUp(bytes, kPage);
  if (hint >= kLowestAddress && hint % kPage == 0) {
    if (void* at = MapAt(hint, size, protection)) return at;
  }
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const uint64_t address = NextAddress();
    NextAddress() += size + kPage;  // neighbours keep a hole between them
    if (void* at = MapAt(address, size, protection)) return at;
  }
  return nullptr;
}

void UnmapMemory(uint64_t base, uint64_t bytes) {
  munmap(reinterpret_cast<void*>(base), RoundUp(bytes, kPage));
}

bool FindManaged(uint64_t address, uint64_t bytes, PageRange* range) {
  Region* region = FindRegion(address);
  if (region == nullptr || region->kind != Kind::kManaged) return false;
  if (bytes == 0 || address + bytes > region->base + region->bytes) return false;
  range->region = region;
  range->first = (address - region->base) / kPage;
  range->last = (address + bytes - region->base + kPage - 1) / kPage;
  return true;
}

uint64_t PageBytes(const Region& region, size_t page) {
  return std::min(kPage, region.bytes - page * kPage);
}

void DropManaged(Region* region) {
  for (size_t i = 0; i < region->pages.size(); ++i) {
    for (const auto& device : S().devices) {
      const ManagedPage& page = region->pages[i];
      const bool here = page.where == device->ordinal || (page.copies & Bit(device.get())) != 0;
      if (here) GiveMemory(device.get(), PageBytes(*region, i));
    }
  }
}

}  // namespace sim
