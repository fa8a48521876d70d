#include "pool.h"

#include <algorithm>
#include <iterator>

namespace sim {
namespace {

constexpr uint64_t kAlignment = 512;
constexpr uint64_t kChunk = 32 << 20;

bool Usable(const PoolBlock& block, const Stream* stream) {
  return !block.used && (block.Settled() || block.freed_on == stream);
}

// Joins neighbours that have become free for everybody, or for the same stream's later work.
void Coalesce(PoolChunk* chunk) {
  for (auto block = chunk->blocks.begin(); block != chunk->blocks.end();) {
    auto next = std::next(block);
    if (next == chunk->blocks.end()) return;
    PoolBlock& a = block->second;
    PoolBlock& b = next->second;
    const bool settled = a.Settled() && b.Settled();
    const bool same_stream = !a.used && !b.used && a.freed_on == b.freed_on && a.freed && b.freed;
    if (!settled && !same_stream) {
      block = next;
      continue;
    }
    // On one stream the later free covers the earlier: a settled one is the earlier.
    if (!settled && a.freed->done) a.freed = b.freed;
    a.bytes += b.bytes;
    chunk->blocks.erase(next);
  }
}

void MarkAlive(uint64_t address, uint64_t bytes) {
  Region* region = FindRegion(address);
  if (region == nullptr) return;
  auto next = region->live.lower_bound(address);
  if (next != region->live.end() && next->first < address + bytes) return;
  if (next != region->live.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second > address) return;
  }
  region->live.emplace(address, bytes);
}

void MarkDead(uint64_t address) {
  Region* region = FindRegion(address);
  if (region != nullptr) region->live.erase(address);
}

bool AllSettled(const Pool& pool) {
  for (const auto& [base, chunk] : pool.chunks) {
    for (const auto& [address, block] : chunk.blocks) {
      if (!block.used && !block.Settled()) return false;
    }
  }
  return true;
}

}  // namespace

uint64_t Pool::TakeFit(uint64_t bytes, Stream* stream) {
  PoolChunk* best_chunk = nullptr;
  std::map<uint64_t, PoolBlock>::iterator best;
  for (auto& [base, chunk] : chunks) {
    Coalesce(&chunk);
    for (auto block = chunk.blocks.begin(); block != chunk.blocks.end(); ++block) {
      if (block->second.bytes < bytes || !Usable(block->second, stream)) continue;
      if (best_chunk != nullptr && best->second.bytes <= block->second.bytes) continue;
      best_chunk = &chunk;
      best = block;
    }
  }
  if (best_chunk == nullptr) return 0;
  const uint64_t address = best->first;
  PoolBlock rest = best->second;
  rest.bytes -= bytes;
  if (rest.bytes > 0) best_chunk->blocks.emplace(address + bytes, rest);
  best->second = {.bytes = bytes, .used = true};
  return address;
}

bool Pool::Grow(uint64_t bytes) {
  const uint64_t exact = RoundUp(bytes, kPage);
  for (uint64_t size : {std::max(exact, kChunk), exact}) {
    if (max_bytes != 0 && reserved + size > max_bytes) continue;
    if (!TakeMemory(device, size)) continue;
    void* memory = MapMemory(size);
    if (memory == nullptr) {
      GiveMemory(device, size);
      return false;
    }
    const uint64_t base = reinterpret_cast<uint64_t>(memory);
    Region region;
    region.base = base;
    region.bytes = size;
    region.kind = Kind::kPoolChunk;
    region.device = device;
    region.accounted = size;
    AddRegion(std::move(region));
    chunks[base] = {.bytes = size, .blocks = {{base, {.bytes = size}}}};
    reserved += size;
    reserved_high = std::max(reserved_high, reserved);
    return true;
  }
  return false;
}

uint64_t Pool::Allocate(uint64_t bytes, Stream* stream) {
  const uint64_t size = RoundUp(bytes, kAlignment);
  uint64_t address = TakeFit(size, stream);
  if (address == 0 && Grow(size)) address = TakeFit(size, stream);
  if (address == 0 && !AllSettled(*this)) {
    RunUntil([this] { return AllSettled(*this); });
    address = TakeFit(size, stream);
  }
  if (address == 0) {
    for (Pool* pool : S().pools) pool->Trim(0);
    if (Grow(size)) address = TakeFit(size, stream);
  }
  if (address == 0) return 0;
  used += size;
  used_high = std::max(used_high, used);
  // Alive from the call on where nothing older is still in its place, so that a program that
  // orders by other means than this stream is not called wrong.
  MarkAlive(address, size);
  Work work;
  work.effect = [address, size] {
    MarkAlive(address, size);
    return CUDA_SUCCESS;
  };
  Enqueue(stream, std::move(work));
  return address;
}

bool Pool::Free(uint64_t address, Stream* stream) {
  for (auto& [base, chunk] : chunks) {
    auto block = chunk.blocks.find(address);
    if (block == chunk.blocks.end() || !block->second.used) continue;
    Work work;
    work.effect = [address] {
      MarkDead(address);
      return CUDA_SUCCESS;
    };
    block->second.used = false;
    block->second.freed_on = stream;
    block->second.freed = Enqueue(stream, std::move(work));
    used -= block->second.bytes;
    return true;
  }
  return false;
}

void Pool::Trim(uint64_t keep) {
  for (auto chunk = chunks.begin(); chunk != chunks.end() && reserved > keep;) {
    Coalesce(&chunk->second);
    const auto& blocks = chunk->second.blocks;
    if (blocks.size() != 1 || !blocks.begin()->second.Settled()) {
      ++chunk;
      continue;
    }
    reserved -= chunk->second.bytes;
    GiveMemory(device, chunk->second.bytes);
    UnmapMemory(chunk->first, chunk->second.bytes);
    EraseRegion(chunk->first);
    chunk = chunks.erase(chunk);
  }
}

void Pool::Reset() {
  for (auto& [base, chunk] : chunks) {
    for (auto& [address, block] : chunk.blocks) block = {.bytes = block.bytes};
  }
  used = 0;
  Trim(0);
}

Pool* PoolOfBlock(uint64_t address) {
  for (Pool* pool : S().pools) {
    for (const auto& [base, chunk] : pool->chunks) {
      auto block = chunk.blocks.find(address);
      if (block != chunk.blocks.end() && block->second.used) return pool;
    }
  }
  return nullptr;
}

bool FindPoolBlock(uint64_t address, uint64_t* base, uint64_t* bytes) {
  for (Pool* pool : S().pools) {
    for (const auto& [start, chunk] : pool->chunks) {
      if (address < start || address >= start + chunk.bytes) continue;
      auto block = std::prev(chunk.blocks.upper_bound(address));
      if (!block->second.used) return false;
      *base = block->first;
      *bytes = block->second.bytes;
      return true;
    }
  }
  return false;
}

void TrimPools() {
  for (Pool* pool : S().pools) {
    if (pool->reserved > pool->release_threshold) pool->Trim(pool->release_threshold);
  }
}

Pool* FindPool(CUmemoryPool handle) {
  Pool* pool = reinterpret_cast<Pool*>(handle);
  return S().pools.count(pool) != 0 ? pool : nullptr;
}

void ClosePool(Pool* pool) {
  AwaitDevice(pool->device);
  pool->Trim(0);
  S().pools.erase(pool);
  delete pool;
}

}  // namespace sim
