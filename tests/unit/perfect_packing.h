// Packing problems whose answer is known: rectangles of time and space that are cut up.
#ifndef EBBTIDE_TESTS_UNIT_PERFECT_PACKING_H_
#define EBBTIDE_TESTS_UNIT_PERFECT_PACKING_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "src/plan/packer.h"

namespace ebt::plan {

struct PerfectPacking {
  std::vector<Item> items;  // of alignment 1, in no order
  uint64_t capacity = 0;    // into which they fit
};

struct CuttingOptions {
  uint32_t seed = 1;
  size_t pieces = 150;
  uint64_t unit = 1024;            // every begin, end and size is a multiple of it
  uint64_t units = 1024;           // of time and of space
  uint32_t across_percent = 40;    // of the straight cuts: those that part time
  uint32_t pinwheel_percent = 15;  // of the cuts: into five, which no straight cuts make
  uint32_t dropped_percent = 0;    // of the pieces: holes anywhere, so max live tells less
};

// Cuts a square of time and space, one of the larger pieces each time.
class Cutter {
 public:
  explicit Cutter(const CuttingOptions& options) : options_(options), random_(options.seed) {
    pieces_.push_back({0, options.units, 0, options.units});
  }

  PerfectPacking Cut() {
    while (pieces_.size() < options_.pieces) CutOne();
    for (size_t i = pieces_.size(); i > 1; --i) std::swap(pieces_[i - 1], pieces_[Below(i)]);
    pieces_.resize(pieces_.size() - pieces_.size() * options_.dropped_percent / 100);
    PerfectPacking out{.capacity = options_.units * options_.unit};
    for (const Piece& p : pieces_) {
      out.items.push_back({.bytes = (p.top - p.bottom) * options_.unit,
                           .live = {{{p.begin * options_.unit, p.end * options_.unit}, {}}},
                           .alignment = 1});
    }
    return out;
  }

 private:
  struct Piece {
    uint64_t begin, end, bottom, top;
    uint64_t Area() const { return (end - begin) * (top - bottom); }
  };

  uint64_t Below(uint64_t n) { return random_() % n; }
  uint64_t Between(uint64_t low, uint64_t high) { return low + Below(high - low); }

  void CutOne() {
    size_t largest = Below(pieces_.size());
    for (int i = 0; i < 2; ++i) {
      const size_t other = Below(pieces_.size());
      if (pieces_[other].Area() > pieces_[largest].Area()) largest = other;
    }
    const Piece p = pieces_[largest];
    std::vector<Piece> parts = {p};
    if (p.end - p.begin > 2 && p.top - p.bottom > 2 && Below(100) < options_.pinwheel_percent) {
      const uint64_t t1 = Between(p.begin + 1, p.end - 1), t2 = Between(t1 + 1, p.end);
      const uint64_t s1 = Between(p.bottom + 1, p.top - 1), s2 = Between(s1 + 1, p.top);
      parts = {{p.begin, t2, p.bottom, s1},
               {t2, p.end, p.bottom, s2},
               {t1, p.end, s2, p.top},
               {p.begin, t1, s1, p.top},
               {t1, t2, s1, s2}};
    } else if (p.end - p.begin > 1 && Below(100) < options_.across_percent) {
      const uint64_t t = Between(p.begin + 1, p.end);
      parts = {{p.begin, t, p.bottom, p.top}, {t, p.end, p.bottom, p.top}};
    } else if (p.top - p.bottom > 1) {
      const uint64_t s = Between(p.bottom + 1, p.top);
      parts = {{p.begin, p.end, p.bottom, s}, {p.begin, p.end, s, p.top}};
    }
    pieces_[largest] = parts.front();
    pieces_.insert(pieces_.end(), parts.begin() + 1, parts.end());
  }

  CuttingOptions options_;
  std::mt19937 random_;
  std::vector<Piece> pieces_;
};

}  // namespace ebt::plan

#endif  // EBBTIDE_TESTS_UNIT_PERFECT_PACKING_H_
