// PyTorch's caching allocator, as far as its two ways of growing have it in common. Written from
// what its documentation and its users' guides say of it:
//   - sizes are rounded up to 512 bytes; requests of at most 1 MiB have a pool of their own;
//   - a free piece serves its own stream only, the smallest that suffices first, of equal ones the
//     one with the lowest address;
//   - what is freed becomes one piece with its free neighbours at once and stays with the
//     allocator, until a growth finds no memory: then what is cached is given back, once.
#ifndef EBBTIDE_SRC_PLAN_BASELINE_CACHING_H_
#define EBBTIDE_SRC_PLAN_BASELINE_CACHING_H_

#include <array>
#include <cstdint>
#include <vector>

#include "src/base/units.h"
#include "src/plan/baseline_allocator.h"
#include "src/plan/baseline_pieces.h"

namespace ebt::plan {

class CachingAllocator : public BaselineAllocator {
 public:
  bool Take(uint32_t block, uint64_t bytes, uint16_t stream) final;
  void Give(uint32_t block) final;

 protected:
  static constexpr uint64_t kRounding = 512;
  static constexpr uint64_t kSmallMost = kMiB;  // requests of more are large
  static constexpr uint64_t kSmallPage = 2 * kMiB, kLargePage = 20 * kMiB;
  enum : uint8_t { kSmall, kLarge };

  using BaselineAllocator::BaselineAllocator;

  // A free piece of at least `bytes`, taken out of its pool; kNoPiece where there is none.
  virtual uint32_t TakeCached(uint8_t pool, uint16_t stream, uint64_t bytes) = 0;
  // The same from new memory; kNoPiece: the device has none left.
  virtual uint32_t Grow(uint8_t pool, uint16_t stream, uint64_t bytes) = 0;
  virtual bool SplitsOff(uint8_t pool, uint64_t rest) const = 0;
  // Gives back to the device whatever no block lives in.
  virtual void ReleaseCached() = 0;

  // Makes a free piece one with the free neighbours that are as it is, mapped or not.
  void Coalesce(uint32_t piece);
  // A neighbour is absorbed: takes it off the books of free pieces.
  virtual void Forget(uint32_t piece) { free_[pieces_[piece].pool].Erase(pieces_[piece]); }

  Pieces pieces_;
  std::array<FreePieces, 2> free_;  // by pool

 private:
  uint32_t Serve(uint8_t pool, uint16_t stream, uint64_t bytes);

  std::vector<uint32_t> piece_of_;  // by block
};

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_BASELINE_CACHING_H_
