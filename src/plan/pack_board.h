// The state of a search for a tight packing: what lies where, and how low the rest could come.
#ifndef EBBTIDE_SRC_PLAN_PACK_BOARD_H_
#define EBBTIDE_SRC_PLAN_PACK_BOARD_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "src/plan/packer.h"

namespace ebt::plan {

// Items are placed from below: each rests on the highest one placed before it that lives together
// with it, so a packing is the order in which its items are placed. The time axis is cut into
// sections, in which nothing begins or ends.
//
// An item may be deferred: something else that lives together with it comes below it first.
// Place and Defer return false where the items left over cannot all fit any more; what they
// changed is taken back by Undo all the same. Not for several threads.
class PackBoard {
 public:
  // Every item is alive at some time and has bytes. Memory: the number of pairs that live together.
  explicit PackBoard(const std::vector<Item>& items);

  void SetCapacity(uint64_t bytes) { capacity_ = bytes; }

  bool Place(uint32_t item);
  bool Defer(uint32_t item);
  // Draws the conclusions of the last Place or Defer for `members`, which include every item left
  // that can be reached from it by chains of living together.
  bool Conclude(const std::vector<uint32_t>& members);

  size_t Mark() const { return changes_.size(); }
  void Undo(size_t mark);

  size_t items() const { return bytes_.size(); }
  size_t sections() const { return members_.size(); }
  bool Placed(uint32_t item) const { return placed_[item]; }
  // Neither placed nor deferred.
  bool Open(uint32_t item) const { return !placed_[item] && !deferred_[item]; }
  // The offset of a placed item; the least possible one of any other.
  uint64_t Offset(uint32_t item) const { return low_[item]; }
  // Whether another order could use the place that `item` would take now.
  bool Contested(uint32_t item) const;
  // Whether nothing left over lives across the end of some section in which `item` lives.
  bool Splits(uint32_t item) const;
  // Those left over, by groups that share no moment; the smallest group first.
  std::vector<std::vector<uint32_t>> Groups(std::vector<uint32_t> members) const;

  // Where the last Place, Defer or Conclude failed: in a section, or at an item.
  static constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();
  uint32_t failed_section() const { return failed_section_; }
  uint32_t failed_item() const { return failed_item_; }

  struct Member {
    uint32_t item;
    uint32_t slot;  // of the pair (item, section) in slots_
  };
  // What is left over in a section.
  const std::vector<Member>& Members(uint32_t section) const { return members_[section]; }
  // The sections in which an item lives, ascending: [SectionsBegin, SectionsEnd).
  const uint32_t* SectionsBegin(uint32_t item) const { return &sections_[first_[item]]; }
  const uint32_t* SectionsEnd(uint32_t item) const {
    return sections_.data() + first_[size_t(item) + 1];
  }
  const std::vector<uint32_t>& Neighbours(uint32_t item) const { return neighbours_[item]; }
  // Bytes of what is left over in a section.
  uint64_t Left(uint32_t section) const { return left_[section]; }

 private:
  struct Change {
    uint32_t item;
    bool placed;  // else its low, or whether it is deferred
    bool deferred;
    uint64_t low, defer_top;
  };

  void CutTime(const std::vector<Item>& items);
  void FindNeighbours();
  void Save(uint32_t item);
  void TakeOut(uint32_t item);
  void PutBack(uint32_t item);
  void Touch(uint32_t item);
  bool FailAt(uint32_t item);
  bool Raise(uint32_t item, bool& raised);
  bool Fits(uint32_t section) const;

  uint64_t capacity_ = 0;
  std::vector<uint64_t> bytes_, alignment_;
  std::vector<size_t> first_;       // of each item its first slot
  std::vector<uint32_t> sections_;  // of each slot
  std::vector<uint32_t> position_;  // of each slot, within members_ of its section
  std::vector<std::vector<uint32_t>> neighbours_;

  std::vector<bool> placed_, deferred_;
  std::vector<uint64_t> low_;
  std::vector<uint64_t> defer_top_;  // end of the place at which the item was deferred
  std::vector<std::vector<Member>> members_;
  std::vector<uint64_t> left_;
  std::vector<uint32_t> across_;  // left over and alive on both sides of the section's end
  std::vector<Change> changes_;

  std::vector<uint32_t> touched_, stamps_;  // sections whose members' lows have changed
  uint32_t stamp_ = 0;
  uint32_t failed_section_ = kNowhere, failed_item_ = kNowhere;
};

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_PACK_BOARD_H_
