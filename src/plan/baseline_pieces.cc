#include "src/plan/baseline_pieces.h"

#include "src/base/units.h"

namespace ebt::plan {

uint32_t Pieces::New(const Piece& piece) {
  if (unused_.empty()) {
    pieces_.push_back(piece);
    return uint32_t(pieces_.size() - 1);
  }
  const uint32_t number = unused_.back();
  unused_.pop_back();
  pieces_[number] = piece;
  return number;
}

uint32_t Pieces::Add(uint64_t bytes, uint64_t alignment, uint16_t stream, uint8_t pool) {
  Piece piece;
  piece.address = AlignUp(next_address_, alignment);
  piece.bytes = bytes;
  piece.stream = stream;
  piece.pool = pool;
  next_address_ = piece.end();
  return New(piece);
}

uint32_t Pieces::Split(uint32_t piece, uint64_t bytes) {
  Piece rest = pieces_[piece];
  rest.address += bytes;
  rest.bytes -= bytes;
  rest.before = piece;
  rest.free = true;
  const uint32_t number = New(rest);
  pieces_[piece].bytes = bytes;
  pieces_[piece].after = number;
  if (rest.after != kNoPiece) pieces_[rest.after].before = number;
  return number;
}

void Pieces::Absorb(uint32_t piece, uint32_t neighbour) {
  Piece& into = pieces_[piece];
  const Piece& gone = pieces_[neighbour];
  if (into.before == neighbour) {
    into.address = gone.address;
    into.before = gone.before;
    if (into.before != kNoPiece) pieces_[into.before].after = piece;
  } else {
    into.after = gone.after;
    if (into.after != kNoPiece) pieces_[into.after].before = piece;
  }
  into.bytes += gone.bytes;
  unused_.push_back(neighbour);
}

}  // namespace ebt::plan
