// Segments of an address space, cut into pieces: what a caching allocator keeps books of.
#ifndef EBBTIDE_SRC_PLAN_BASELINE_PIECES_H_
#define EBBTIDE_SRC_PLAN_BASELINE_PIECES_H_

#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "absl/container/btree_map.h"

namespace ebt::plan {

inline constexpr uint32_t kNoPiece = std::numeric_limits<uint32_t>::max();

struct Piece {
  uint64_t address = 0, bytes = 0;
  uint32_t before = kNoPiece, after = kNoPiece;  // neighbours in its segment
  uint16_t stream = 0;
  uint8_t pool = 0;
  bool free = true;
  bool mapped = true;  // device memory stands behind it

  bool Whole() const { return before == kNoPiece && after == kNoPiece; }
  uint64_t end() const { return address + bytes; }
};

// Addresses are handed out in ascending order, whatever is given back: equal histories have equal
// addresses.
class Pieces {
 public:
  // A segment in one free piece, at a multiple of `alignment`.
  uint32_t Add(uint64_t bytes, uint64_t alignment, uint16_t stream, uint8_t pool);
  // Leaves `bytes` to the piece; the rest becomes a free piece behind it.
  uint32_t Split(uint32_t piece, uint64_t bytes);
  // The neighbour's bytes become the piece's.
  void Absorb(uint32_t piece, uint32_t neighbour);
  // Of a whole segment.
  void Remove(uint32_t piece) { unused_.push_back(piece); }

  Piece& operator[](uint32_t piece) { return pieces_[piece]; }
  const Piece& operator[](uint32_t piece) const { return pieces_[piece]; }

 private:
  uint32_t New(const Piece& piece);

  std::vector<Piece> pieces_;
  std::vector<uint32_t> unused_;
  uint64_t next_address_ = 0;
};

// Free pieces by stream, then size, then address.
class FreePieces {
 public:
  using Key = std::tuple<uint16_t, uint64_t, uint64_t>;
  using Map = absl::btree_map<Key, uint32_t>;

  void Insert(const Piece& piece, uint32_t number) { pieces_[KeyOf(piece)] = number; }
  void Erase(const Piece& piece) { pieces_.erase(KeyOf(piece)); }
  // The smallest piece of the stream that holds `bytes`, of equal ones the first by address; end()
  // where there is none.
  Map::const_iterator BestFit(uint16_t stream, uint64_t bytes) const {
    const auto at = pieces_.lower_bound({stream, bytes, 0});
    return at != pieces_.end() && std::get<0>(at->first) == stream ? at : pieces_.end();
  }
  const Map& all() const { return pieces_; }

 private:
  static Key KeyOf(const Piece& piece) { return {piece.stream, piece.bytes, piece.address}; }

  Map pieces_;
};

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_BASELINE_PIECES_H_
