// PyTorch's native allocator. Beside what caching allocators have in common (baseline_caching.h):
//   - a small request without a fitting piece brings a segment of 2 MiB, a large one below 10 MiB
//     one of 20 MiB, any other its size rounded up to 2 MiB;
//   - a piece is split where at least 512 bytes would be left in the small pool, more than 1 MiB in
//     the large one: what is less goes with the block;
//   - a segment goes back to the device only when memory has run out and nothing lives in it.
#include "src/plan/baseline_caching.h"

namespace ebt::plan {
namespace {

class NativeAllocator : public CachingAllocator {
 public:
  using CachingAllocator::CachingAllocator;

 protected:
  uint32_t TakeCached(uint8_t pool, uint16_t stream, uint64_t bytes) override {
    const auto found = free_[pool].BestFit(stream, bytes);
    if (found == free_[pool].all().end()) return kNoPiece;
    const uint32_t piece = found->second;
    free_[pool].Erase(pieces_[piece]);
    return piece;
  }

  uint32_t Grow(uint8_t pool, uint16_t stream, uint64_t bytes) override {
    const uint64_t segment = SegmentBytes(pool, bytes);
    return Reserve(segment, 1) ? pieces_.Add(segment, kSmallPage, stream, pool) : kNoPiece;
  }

  bool SplitsOff(uint8_t pool, uint64_t rest) const override {
    return pool == kSmall ? rest >= kRounding : rest > kSmallMost;
  }

  void ReleaseCached() override {
    for (FreePieces& free : free_) {
      const FreePieces::Map all = free.all();
      for (const auto& [key, piece] : all) {
        if (!pieces_[piece].Whole()) continue;
        Release(pieces_[piece].bytes, 1);
        free.Erase(pieces_[piece]);
        pieces_.Remove(piece);
      }
    }
  }

 private:
  static constexpr uint64_t kOwnSegmentLeast = 10 * kMiB;

  static uint64_t SegmentBytes(uint8_t pool, uint64_t bytes) {
    if (pool == kSmall) return kSmallPage;
    return bytes < kOwnSegmentLeast ? kLargePage : AlignUp(bytes, kSmallPage);
  }
};

}  // namespace

std::unique_ptr<BaselineAllocator> MakeNativeAllocator(DeviceMemory& device) {
  return std::make_unique<NativeAllocator>(device);
}

}  // namespace ebt::plan
