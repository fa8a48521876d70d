// PyTorch's allocator with expandable_segments:True. Beside what caching allocators have in common
// (baseline_caching.h):
//   - each stream has one segment a pool: a range of addresses, larger than the device, behind
//   which
//     pages of 2 MiB (small) or 20 MiB (large) are mapped as they are needed;
//   - a request that no free piece holds takes the free end of what is mapped, as far as it goes,
//     and maps whole pages behind it, at the lowest address where it finds room;
//   - for the best fit the piece before unmapped addresses counts as large as it can become, so
//     others that suffice are taken before it;
//   - every piece is split where at least 512 bytes would be left;
//   - when memory has run out, the whole pages that no block lives on are unmapped.
#include <set>
#include <tuple>

#include "src/plan/baseline_caching.h"

namespace ebt::plan {
namespace {

class ExpandableAllocator : public CachingAllocator {
 public:
  ExpandableAllocator(DeviceMemory& device, uint64_t address_bytes)
      : CachingAllocator(device), address_bytes_(AlignUp(address_bytes, kLargePage)) {}

 protected:
  uint32_t TakeCached(uint8_t pool, uint16_t stream, uint64_t bytes) override {
    const FreePieces::Map& all = free_[pool].all();
    auto found = free_[pool].BestFit(stream, bytes);
    if (found == all.end()) return kNoPiece;
    for (auto next = std::next(found); next != all.end() && std::get<0>(next->first) == stream &&
                                       Reach(next->second) < Reach(found->second);
         ++next)
      found = next;
    const uint32_t piece = found->second;
    free_[pool].Erase(pieces_[piece]);
    return piece;
  }

  uint32_t Grow(uint8_t pool, uint16_t stream, uint64_t bytes) override {
    uint32_t piece = FindRoom(pool, stream, bytes);
    if (piece == kNoPiece) piece = AddSegment(pool, stream);
    if (!pieces_[piece].mapped && !Map(piece, std::min(bytes, pieces_[piece].bytes)))
      return kNoPiece;
    while (pieces_[piece].bytes < bytes) {
      const uint32_t next = pieces_[piece].after;
      if (!Map(next, std::min(bytes - pieces_[piece].bytes, pieces_[next].bytes))) return kNoPiece;
      piece = next;  // which is one with the piece before it now
    }
    free_[pool].Erase(pieces_[piece]);
    return piece;
  }

  bool SplitsOff(uint8_t, uint64_t rest) const override { return rest >= kRounding; }

  void Forget(uint32_t piece) override {
    if (pieces_[piece].mapped) return CachingAllocator::Forget(piece);
    unmapped_[pieces_[piece].pool].erase(PlaceOf(piece));
  }

  void ReleaseCached() override {
    for (FreePieces& free : free_) {
      const FreePieces::Map all = free.all();
      for (const auto& [key, piece] : all) Unmap(piece);
    }
  }

 private:
  using Place = std::tuple<uint16_t, uint64_t, uint32_t>;  // stream, address, piece

  static uint64_t PageBytes(uint8_t pool) { return pool == kSmall ? kSmallPage : kLargePage; }
  Place PlaceOf(uint32_t piece) const {
    return {pieces_[piece].stream, pieces_[piece].address, piece};
  }

  // Bytes of a free piece with the unmapped ones behind it.
  uint64_t Reach(uint32_t piece) const {
    const uint32_t after = pieces_[piece].after;
    const bool grows = after != kNoPiece && !pieces_[after].mapped;
    return pieces_[piece].bytes + (grows ? pieces_[after].bytes : 0);
  }

  // The first of adjoining pieces, free or unmapped, that hold `bytes` together.
  uint32_t FindRoom(uint8_t pool, uint16_t stream, uint64_t bytes) const {
    for (auto at = unmapped_[pool].lower_bound({stream, 0, 0});
         at != unmapped_[pool].end() && std::get<0>(*at) == stream; ++at) {
      uint32_t first = std::get<2>(*at);
      const uint32_t before = pieces_[first].before;
      if (before != kNoPiece && pieces_[before].free) first = before;
      uint64_t room = 0;
      for (uint32_t next = first; next != kNoPiece && pieces_[next].free && room < bytes;
           next = pieces_[next].after)
        room += pieces_[next].bytes;
      if (room >= bytes) return first;
    }
    return kNoPiece;
  }

  uint32_t AddSegment(uint8_t pool, uint16_t stream) {
    const uint32_t piece = pieces_.Add(address_bytes_, kLargePage, stream, pool);
    pieces_[piece].mapped = false;
    unmapped_[pool].insert(PlaceOf(piece));
    return piece;
  }

  // Maps the pages under the first `bytes` of an unmapped piece, which begins at a page.
  bool Map(uint32_t piece, uint64_t bytes) {
    const uint8_t pool = pieces_[piece].pool;
    const uint64_t mapped = AlignUp(bytes, PageBytes(pool));
    if (!Reserve(mapped, mapped / PageBytes(pool))) return false;
    unmapped_[pool].erase(PlaceOf(piece));
    if (mapped < pieces_[piece].bytes)
      unmapped_[pool].insert(PlaceOf(pieces_.Split(piece, mapped)));
    pieces_[piece].mapped = true;
    Coalesce(piece);
    free_[pool].Insert(pieces_[piece], piece);
    return true;
  }

  // The whole pages of a free, mapped piece; its ends stay.
  void Unmap(uint32_t piece) {
    const uint8_t pool = pieces_[piece].pool;
    const uint64_t page = PageBytes(pool);
    const uint64_t begin = AlignUp(pieces_[piece].address, page);
    const uint64_t end = pieces_[piece].end() / page * page;
    if (begin >= end) return;
    free_[pool].Erase(pieces_[piece]);
    if (begin > pieces_[piece].address) {
      const uint32_t head = piece;
      piece = pieces_.Split(head, begin - pieces_[head].address);
      free_[pool].Insert(pieces_[head], head);
    }
    if (end < pieces_[piece].end()) {
      const uint32_t tail = pieces_.Split(piece, end - begin);
      free_[pool].Insert(pieces_[tail], tail);
    }
    Release(end - begin, (end - begin) / page);
    pieces_[piece].mapped = false;
    Coalesce(piece);
    unmapped_[pool].insert(PlaceOf(piece));
  }

  const uint64_t address_bytes_;
  std::array<std::set<Place>, 2> unmapped_;  // by pool
};

}  // namespace

std::unique_ptr<BaselineAllocator> MakeExpandableAllocator(DeviceMemory& device,
                                                           uint64_t address_bytes) {
  return std::make_unique<ExpandableAllocator>(device, address_bytes);
}

}  // namespace ebt::plan
