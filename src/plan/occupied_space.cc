#include "src/plan/occupied_space.h"

#include <algorithm>
#include <bit>

namespace ebt::plan {
namespace {

constexpr uint32_t kLeafMoments = 32;
// Down to this depth a long item is entered in every node; below only in the topmost ones that
// it fills.
constexpr uint32_t kEnteredDepth = 6;

}  // namespace

OccupiedSpace::OccupiedSpace(const std::vector<Item>& items) {
  std::vector<uint64_t> moments;
  for (const Item& item : items) {
    for (const Interval& i : item.live) {
      if (!i.empty()) moments.push_back(i.begin), moments.push_back(i.end);
    }
  }
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  const auto rank = [&](uint64_t time) {
    return uint32_t(std::lower_bound(moments.begin(), moments.end(), time) - moments.begin());
  };
  items_.reserve(items.size());
  for (const Item& item : items) {
    Ranges ranges{.bytes = RoundedBytes(item), .alignment = item.alignment};
    for (size_t part = 0; part < item.live.size(); ++part) {
      const Interval& i = item.live[part];
      if (!i.empty()) ranges.parts[part] = {rank(i.begin), rank(i.end)};
    }
    items_.push_back(ranges);
  }
  const auto count = uint32_t(moments.size());
  leaves_ = std::bit_ceil(std::max<uint32_t>(1, count / kLeafMoments));
  leaf_moments_ = (std::max<uint32_t>(count, 1) + leaves_ - 1) / leaves_;
  nodes_.resize(size_t{2} * leaves_);
}

void OccupiedSpace::Keep() { kept_ = nodes_; }

void OccupiedSpace::Clear() {
  kept_.resize(nodes_.size());
  nodes_ = kept_;
}

void OccupiedSpace::Merge(std::vector<Stretch>& stretches, Stretch stretch) {
  auto first = std::lower_bound(stretches.begin(), stretches.end(), stretch.first,
                                [](const Stretch& s, uint64_t begin) { return s.second < begin; });
  auto last = first;
  for (; last != stretches.end() && last->first <= stretch.second; ++last) {
    stretch = {std::min(stretch.first, last->first), std::max(stretch.second, last->second)};
  }
  work_ += size_t(last - first) + 1;
  if (first == last) {
    stretches.insert(first, stretch);
  } else {
    *first = stretch;
    stretches.erase(first + 1, last);
  }
}

// What ends at the same moment, as all gradients may, is one entry.
void OccupiedSpace::EnterPartly(Node& leaf, Range when, Stretch where) {
  for (Partly& partly : leaf.partly) {
    if (partly.when.begin == when.begin && partly.when.end == when.end) {
      return Merge(partly.taken, where);
    }
  }
  leaf.partly.push_back({when, {where}});
}

void OccupiedSpace::Enter(size_t node, uint32_t depth, Range span, Range when, Stretch where) {
  if (when.begin >= span.end || span.begin >= when.end) return;
  Node& here = nodes_[node];
  Merge(here.any, where);
  const bool fills = when.begin <= span.begin && span.end <= when.end;
  const bool leaf = node >= leaves_;
  if (fills && (leaf || depth >= kEnteredDepth)) return Merge(here.all, where);
  if (leaf) {
    const Range part{std::max(when.begin, span.begin), std::min(when.end, span.end)};
    return EnterPartly(here, part, where);
  }
  const uint32_t middle = span.begin + (span.end - span.begin) / 2;
  Enter(2 * node, depth + 1, {span.begin, middle}, when, where);
  Enter(2 * node + 1, depth + 1, {middle, span.end}, when, where);
}

void OccupiedSpace::Add(uint32_t item, uint64_t offset) {
  const Ranges& ranges = items_[item];
  if (ranges.bytes == 0) return;
  for (const Range& when : ranges.parts) {
    if (when.empty()) continue;
    Enter(1, 0, {0, leaves_ * leaf_moments_}, when, {offset, offset + ranges.bytes});
  }
}

void OccupiedSpace::Consult(const std::vector<Stretch>& stretches) {
  if (stretches.empty()) return;
  sources_.push_back({stretches.data(), stretches.data() + stretches.size()});
}

void OccupiedSpace::Ask(size_t node, Range span, Range when) {
  ++work_;
  if (when.begin >= span.end || span.begin >= when.end) return;
  const Node& here = nodes_[node];
  if (here.any.empty()) return;
  if (when.begin <= span.begin && span.end <= when.end) return Consult(here.any);
  Consult(here.all);
  if (node >= leaves_) {
    work_ += here.partly.size();
    for (const Partly& partly : here.partly) {
      if (partly.when.begin >= when.end || when.begin >= partly.when.end) continue;
      if (partly.taken.size() == 1) {
        singles_.push_back(partly.taken.front());
      } else {
        Consult(partly.taken);
      }
    }
    return;
  }
  const uint32_t middle = span.begin + (span.end - span.begin) / 2;
  Ask(2 * node, {span.begin, middle}, when);
  Ask(2 * node + 1, {middle, span.end}, when);
}

void OccupiedSpace::MergeSingles() {
  std::sort(singles_.begin(), singles_.end());
  size_t merged = 0;
  for (size_t i = 1; i < singles_.size(); ++i) {
    if (singles_[i].first <= singles_[merged].second) {
      singles_[merged].second = std::max(singles_[merged].second, singles_[i].second);
    } else {
      singles_[++merged] = singles_[i];
    }
  }
  singles_.resize(std::min(singles_.size(), merged + 1));
}

uint64_t OccupiedSpace::Lowest(uint32_t item) {
  const Ranges& ranges = items_[item];
  sources_.clear();
  singles_.clear();
  for (const Range& when : ranges.parts) {
    if (!when.empty()) Ask(1, {0, leaves_ * leaf_moments_}, when);
  }
  MergeSingles();
  Consult(singles_);
  // Each source in turn pushes the offset up, until none of them does.
  uint64_t offset = 0;
  for (size_t i = 0, content = 0; content < sources_.size(); i = (i + 1) % sources_.size()) {
    Source& source = sources_[i];
    for (; source.next != source.end && source.next->second <= offset; ++source.next) ++work_;
    ++content;
    ++work_;
    if (source.next == source.end || source.next->first >= offset + ranges.bytes) continue;
    offset = AlignUp(source.next->second, ranges.alignment);
    content = 0;
  }
  return offset;
}

}  // namespace ebt::plan
