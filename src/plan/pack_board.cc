#include "src/plan/pack_board.h"

#include <algorithm>
#include <utility>

namespace ebt::plan {
namespace {

// Rounds in which deferred items may raise each other; more find next to nothing.
constexpr int kRaiseRounds = 4;

}  // namespace

PackBoard::PackBoard(const std::vector<Item>& items)
    : placed_(items.size(), false),
      deferred_(items.size(), false),
      low_(items.size(), 0),
      defer_top_(items.size(), 0) {
  for (const Item& item : items) {
    bytes_.push_back(RoundedBytes(item));
    alignment_.push_back(item.alignment);
  }
  CutTime(items);
  FindNeighbours();
}

void PackBoard::CutTime(const std::vector<Item>& items) {
  std::vector<uint64_t> moments;
  for (const Item& item : items) {
    for (const Interval& i : item.live) {
      if (!i.empty()) moments.push_back(i.begin), moments.push_back(i.end);
    }
  }
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  const size_t count = moments.empty() ? 0 : moments.size() - 1;
  members_.resize(count);
  left_.assign(count, 0);
  across_.assign(count, 0);
  stamps_.assign(count, 0);
  const auto section_of = [&](uint64_t time) {
    return uint32_t(std::lower_bound(moments.begin(), moments.end(), time) - moments.begin());
  };
  first_.push_back(0);
  for (const Item& item : items) {
    for (const Interval& i : item.live) {
      if (i.empty()) continue;
      for (uint32_t s = section_of(i.begin); s < section_of(i.end); ++s) sections_.push_back(s);
    }
    const auto begin = sections_.begin() + ptrdiff_t(first_.back());
    std::sort(begin, sections_.end());
    sections_.erase(std::unique(begin, sections_.end()), sections_.end());
    first_.push_back(sections_.size());
  }
  position_.assign(sections_.size(), 0);
  for (uint32_t i = uint32_t(items.size()); i-- > 0;) {
    for (size_t slot = first_[i]; slot < first_[size_t(i) + 1]; ++slot) {
      position_[slot] = uint32_t(members_[sections_[slot]].size());
    }
    PutBack(i);
  }
}

void PackBoard::FindNeighbours() {
  neighbours_.resize(items());
  std::vector<bool> met(items(), false);
  for (uint32_t i = 0; i < items(); ++i) {
    auto& neighbours = neighbours_[i];
    met[i] = true;
    for (size_t slot = first_[i]; slot < first_[size_t(i) + 1]; ++slot) {
      for (const Member& other : members_[sections_[slot]]) {
        if (met[other.item]) continue;
        met[other.item] = true;
        neighbours.push_back(other.item);
      }
    }
    std::sort(neighbours.begin(), neighbours.end());
    met[i] = false;
    for (uint32_t other : neighbours) met[other] = false;
  }
}

void PackBoard::Save(uint32_t item) {
  changes_.push_back({item, false, deferred_[item], low_[item], defer_top_[item]});
}

void PackBoard::Undo(size_t mark) {
  while (changes_.size() > mark) {
    const Change& change = changes_.back();
    if (change.placed) {
      PutBack(change.item);
      placed_[change.item] = false;
    } else {
      deferred_[change.item] = change.deferred;
      low_[change.item] = change.low;
      defer_top_[change.item] = change.defer_top;
    }
    changes_.pop_back();
  }
}

void PackBoard::TakeOut(uint32_t item) {
  for (size_t slot = first_[item]; slot < first_[size_t(item) + 1]; ++slot) {
    const uint32_t section = sections_[slot];
    auto& members = members_[section];
    const Member last = members.back();
    members[position_[slot]] = last;
    position_[last.slot] = position_[slot];
    members.pop_back();
    left_[section] -= bytes_[item];
  }
  for (uint32_t s = *SectionsBegin(item); s < *(SectionsEnd(item) - 1); ++s) --across_[s];
}

// Undoes TakeOut, what was taken out last coming first.
void PackBoard::PutBack(uint32_t item) {
  for (size_t slot = first_[size_t(item) + 1]; slot-- > first_[item];) {
    const uint32_t section = sections_[slot];
    auto& members = members_[section];
    const uint32_t position = position_[slot];
    members.push_back({item, uint32_t(slot)});
    std::swap(members[position], members.back());
    position_[members.back().slot] = uint32_t(members.size() - 1);
    position_[slot] = position;
    left_[section] += bytes_[item];
  }
  for (uint32_t s = *SectionsBegin(item); s < *(SectionsEnd(item) - 1); ++s) ++across_[s];
}

void PackBoard::Touch(uint32_t item) {
  for (size_t slot = first_[item]; slot < first_[size_t(item) + 1]; ++slot) {
    const uint32_t section = sections_[slot];
    if (stamps_[section] == stamp_) continue;
    stamps_[section] = stamp_;
    touched_.push_back(section);
  }
}

bool PackBoard::FailAt(uint32_t item) {
  failed_section_ = kNowhere;
  failed_item_ = item;
  return false;
}

bool PackBoard::Place(uint32_t item) {
  ++stamp_;
  touched_.clear();
  changes_.push_back({item, true, false, 0, 0});
  TakeOut(item);
  placed_[item] = true;
  Touch(item);
  const uint64_t top = low_[item] + bytes_[item];
  if (top > capacity_) return FailAt(item);
  for (uint32_t other : neighbours_[item]) {
    if (placed_[other]) continue;
    const uint64_t low = std::max(low_[other], AlignUp(top, alignment_[other]));
    if (low == low_[other] && !deferred_[other]) continue;
    // What comes first must take some of the place that was left: else it was left in vain.
    if (deferred_[other] && low_[item] >= defer_top_[other]) return FailAt(other);
    Save(other);
    deferred_[other] = false;
    low_[other] = low;
    Touch(other);
    if (low + bytes_[other] > capacity_) return FailAt(other);
  }
  return true;
}

bool PackBoard::Defer(uint32_t item) {
  ++stamp_;
  touched_.clear();
  Save(item);
  deferred_[item] = true;
  defer_top_[item] = low_[item] + bytes_[item];
  return true;
}

// A deferred item comes to rest on one of its neighbours, so not below the lowest of their tops.
bool PackBoard::Raise(uint32_t item, bool& raised) {
  uint64_t top = std::numeric_limits<uint64_t>::max(), low = top;
  for (uint32_t other : neighbours_[item]) {
    if (placed_[other]) continue;
    top = std::min(top, low_[other] + bytes_[other]);
    low = std::min(low, low_[other]);
  }
  if (low >= defer_top_[item]) return FailAt(item);
  top = AlignUp(top, alignment_[item]);
  if (top <= low_[item]) return true;
  Save(item);
  low_[item] = top;
  Touch(item);
  raised = true;
  return top + bytes_[item] <= capacity_ || FailAt(item);
}

bool PackBoard::Fits(uint32_t section) const {
  uint64_t floor = std::numeric_limits<uint64_t>::max();
  for (const Member& member : members_[section]) floor = std::min(floor, low_[member.item]);
  return members_[section].empty() || floor + left_[section] <= capacity_;
}

bool PackBoard::Conclude(const std::vector<uint32_t>& members) {
  bool raised = true;
  for (int round = 0; raised && round < kRaiseRounds; ++round) {
    raised = false;
    for (uint32_t item : members) {
      if (!placed_[item] && deferred_[item] && !Raise(item, raised)) return false;
    }
  }
  for (uint32_t section : touched_) {
    if (Fits(section)) continue;
    failed_section_ = section;
    failed_item_ = kNowhere;
    return false;
  }
  return true;
}

bool PackBoard::Contested(uint32_t item) const {
  const uint64_t top = low_[item] + bytes_[item];
  return std::any_of(neighbours_[item].begin(), neighbours_[item].end(),
                     [&](uint32_t other) { return !placed_[other] && low_[other] < top; });
}

bool PackBoard::Splits(uint32_t item) const {
  for (uint32_t s = *SectionsBegin(item); s < *(SectionsEnd(item) - 1); ++s) {
    if (across_[s] == 0) return true;
  }
  return false;
}

std::vector<std::vector<uint32_t>> PackBoard::Groups(std::vector<uint32_t> members) const {
  members.erase(
      std::remove_if(members.begin(), members.end(), [&](uint32_t item) { return placed_[item]; }),
      members.end());
  std::stable_sort(members.begin(), members.end(),
                   [&](uint32_t a, uint32_t b) { return *SectionsBegin(a) < *SectionsBegin(b); });
  std::vector<std::vector<uint32_t>> groups;
  uint32_t end = 0;
  for (uint32_t item : members) {
    if (groups.empty() || *SectionsBegin(item) >= end) groups.emplace_back();
    groups.back().push_back(item);
    end = std::max(end, *(SectionsEnd(item) - 1) + 1);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return groups;
}

}  // namespace ebt::plan
