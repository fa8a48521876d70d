// What is taken of time and space, and where there is room left.
#ifndef EBBTIDE_SRC_PLAN_OCCUPIED_SPACE_H_
#define EBBTIDE_SRC_PLAN_OCCUPIED_SPACE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/plan/packer.h"

namespace ebt::plan {

// Bytes [first, second).
using Stretch = std::pair<uint64_t, uint64_t>;

// A binary tree over time. A node knows the bytes that anything within its time takes, so that a
// long item asks few nodes; and nearer to the leaves those that are taken during all of its time,
// so that a long item is entered in few. What is packed well merges into few stretches.
class OccupiedSpace {
 public:
  explicit OccupiedSpace(const std::vector<Item>& items);

  void Add(uint32_t item, uint64_t offset);
  // The lowest offset at which `item` is in nothing's way, a multiple of its alignment.
  uint64_t Lowest(uint32_t item);

  // Clear goes back to what there was at the last Keep.
  void Keep();
  void Clear();

  // Stretches looked at or moved so far.
  uint64_t work() const { return work_; }

 private:
  struct Range {
    uint32_t begin = 0, end = 0;  // ranks of moments
    bool empty() const { return begin >= end; }
  };
  struct Ranges {
    std::array<Range, 2> parts;
    uint64_t bytes, alignment;
  };
  struct Partly {
    Range when;
    std::vector<Stretch> taken;
  };
  struct Node {
    std::vector<Stretch> any;    // taken at some time within the node's
    std::vector<Stretch> all;    // taken all the time, as far as no node above says so
    std::vector<Partly> partly;  // of a leaf, by part of its time: taken all through that
  };

  void Merge(std::vector<Stretch>& stretches, Stretch stretch);
  void EnterPartly(Node& leaf, Range when, Stretch where);
  void Enter(size_t node, uint32_t depth, Range span, Range when, Stretch where);
  void Ask(size_t node, Range span, Range when);
  void MergeSingles();
  void Consult(const std::vector<Stretch>& stretches);

  std::vector<Ranges> items_;
  uint32_t leaves_ = 1, leaf_moments_ = 1;  // leaves: a power of two
  std::vector<Node> nodes_, kept_;          // node i has the children 2 i and 2 i + 1; from 1 on
  // What is asked for one item's time: sorted stretches, and single ones of leaves.
  struct Source {
    const Stretch* next;
    const Stretch* end;
  };
  std::vector<Source> sources_;
  std::vector<Stretch> singles_;
  uint64_t work_ = 0;
};

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_OCCUPIED_SPACE_H_
