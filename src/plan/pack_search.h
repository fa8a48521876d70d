// Searches for a packing within a given capacity: few items, no room to spare.
#ifndef EBBTIDE_SRC_PLAN_PACK_SEARCH_H_
#define EBBTIDE_SRC_PLAN_PACK_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "src/plan/pack_board.h"
#include "src/plan/packer.h"

namespace ebt::plan {

// Depth first: the search takes an item that could lie lowest where packings have failed most
// often, and either places it or defers it. Both together leave out no packing, so that a search
// that comes to its end without one proves that there is none. It is restarted again and again
// with another ranking of the items, since one early mistake costs more than all restarts.
class PackSearch {
 public:
  enum class Outcome { kFits, kImpossible, kGaveUp };

  // Every item is alive at some time and has bytes. Some thousands of items at most: the search
  // is recursive, and remembers all pairs that live together.
  explicit PackSearch(const std::vector<Item>& items);

  // One restart, given up after `nodes` decisions or when `stop`, which is asked now and then,
  // says so. How often it was called before decides the ranking: without `stop`, equal calls in
  // equal order have equal outcomes.
  Outcome Try(uint64_t capacity, uint64_t nodes, const std::function<bool()>& stop = {});

  // Decisions of all restarts together.
  uint64_t nodes() const { return all_nodes_; }
  // After kFits.
  const std::vector<uint64_t>& offsets() const { return offsets_; }
  uint64_t peak() const { return peak_; }

 private:
  // What comes first where several items could lie equally low.
  struct Rank {
    double crowd = 0;  // most bytes live at once in any section of the item
    double size = 0;
    auto operator<=>(const Rank&) const = default;  // NOLINT(modernize-use-nullptr): its own 0
  };

  void RankItems();
  bool Solve(const std::vector<uint32_t>& members);
  bool SolveGroups(const std::vector<uint32_t>& members);
  uint32_t Choose(const std::vector<uint32_t>& members);
  bool Before(uint32_t a, uint32_t b) const;
  void Blame();

  PackBoard board_;
  std::vector<double> lifetimes_;
  std::vector<uint64_t> bytes_;
  std::vector<Rank> ranks_;
  std::vector<double> weights_;  // of each section: failures there, the latest most
  double next_weight_ = 1;
  std::vector<uint64_t> seen_;  // of each section: the decision that looked at it last
  std::mt19937 random_{1};
  uint64_t restarts_ = 0;
  uint64_t nodes_left_ = 0, all_nodes_ = 0;
  const std::function<bool()>* stop_ = nullptr;
  std::vector<uint64_t> offsets_;
  uint64_t peak_ = 0;
};

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_PACK_SEARCH_H_
