#include "src/report/fragmentation.h"

#include <algorithm>
#include <vector>

#include "src/base/units.h"

namespace ebt::report {
namespace {

using profile::AllocKind;
using profile::Block;

struct Range {
  uint64_t begin = 0, end = 0;  // half-open
};

bool FromPool(const Block& block) {
  return block.kind == AllocKind::kAsync || block.kind == AllocKind::kPool;
}

// Memory that a program maps itself is recorded by its handle and has no address of its own.
bool HasAddress(const Block& block) {
  return block.address != 0 && block.kind != AllocKind::kVmm && block.bytes > 0;
}

Range RangeOf(const Block& block) {
  const uint64_t end = block.address + AlignUp(block.bytes, kBlockAlignment);
  return {block.address, end < block.address ? UINT64_MAX : end};
}

// In order, no two touch.
std::vector<Range> Union(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> out;
  for (const Range& range : ranges) {
    if (!out.empty() && range.begin <= out.back().end) {
      out.back().end = std::max(out.back().end, range.end);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

void AddPiece(uint64_t begin, uint64_t end, Fragmentation& out) {
  if (begin >= end) return;
  out.free_bytes += end - begin;
  out.largest_free_bytes = std::max(out.largest_free_bytes, end - begin);
  ++out.pieces;
}

// The parts of `used` that lie in no range of `taken`; both are unions.
Fragmentation Without(const std::vector<Range>& used, const std::vector<Range>& taken) {
  Fragmentation out;
  auto next = taken.begin();
  for (const Range& range : used) {
    uint64_t from = range.begin;
    while (next != taken.end() && next->end <= from) ++next;
    for (auto at = next; at != taken.end() && at->begin < range.end; ++at) {
      AddPiece(from, at->begin, out);
      from = std::max(from, at->end);
    }
    AddPiece(from, range.end, out);
  }
  return out;
}

}  // namespace

std::optional<Fragmentation> FreePieces(const profile::Profile& profile, uint16_t device,
                                        uint64_t at) {
  std::vector<Range> used, taken;
  for (const Block& block : profile.blocks) {
    if (block.device != device || block.alloc_at > at || !HasAddress(block)) continue;
    if (FromPool(block)) used.push_back(RangeOf(block));
    if (block.free_at > at) taken.push_back(RangeOf(block));
  }
  if (used.empty()) return std::nullopt;
  return Without(Union(std::move(used)), Union(std::move(taken)));
}

}  // namespace ebt::report
