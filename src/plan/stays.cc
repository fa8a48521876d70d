#include "src/plan/stays.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <utility>

#include "fmt/format.h"
#include "src/base/units.h"

namespace ebt::plan {
namespace {

void SortByBegin(std::vector<Stay>& stays) {
  std::stable_sort(stays.begin(), stays.end(),
                   [](const Stay& a, const Stay& b) { return a.begin < b.begin; });
}

// Calls `begun` for each stay in order of its begin, and `ended` at its end: those at the same
// moment end before others begin. Either one may end the play by an error.
template <typename Begun, typename Ended>
absl::Status Play(const std::vector<Stay>& stays, Begun begun, Ended ended) {
  using End = std::pair<Moment, size_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  for (size_t i = 0; i < stays.size(); ++i) {
    while (!ends.empty() && ends.top().first <= stays[i].begin) {
      ended(ends.top().second);
      ends.pop();
    }
    if (auto status = begun(i); !status.ok()) return status;
    if (stays[i].begin < stays[i].end) {
      ends.emplace(stays[i].end, i);
    } else {
      ended(i);
    }
  }
  return absl::OkStatus();
}

uint64_t EndOf(const Slot& slot) { return slot.offset + AlignUp(slot.bytes, kBlockAlignment); }

bool Linear(const Stay& stay) { return stay.block->kind == profile::AllocKind::kLinear; }

}  // namespace

std::string Name(const SlotRef& ref) {
  if (ref.sequence == kSlabs) {
    return fmt::format("slabs[{}] ({} bytes at {})", ref.index, ref.slot->bytes, ref.slot->offset);
  }
  return fmt::format("{}[{}] (site {:#x}, ordinal {}, {} bytes at {})", ref.sequence, ref.index,
                     ref.slot->site, ref.slot->ordinal, ref.slot->bytes, ref.slot->offset);
}

absl::Status Broken(const char* rule, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("plan breaks the rule \"{}\": {}", rule, what));
}

std::vector<uint16_t> FreedBytes::Take(uint64_t begin, uint64_t end) {
  std::vector<uint16_t> streams;
  auto at = pieces_.upper_bound(begin);
  if (at != pieces_.begin()) --at;
  while (at != pieces_.end() && at->first < end) {
    const uint64_t from = at->first;
    const Piece piece = at->second;
    if (piece.end <= begin) {
      ++at;
      continue;
    }
    streams.push_back(piece.stream);
    at = pieces_.erase(at);
    if (from < begin) pieces_[from] = {begin, piece.stream};
    if (piece.end > end) pieces_[end] = {piece.end, piece.stream};
  }
  return streams;
}

void FreedBytes::Give(uint64_t begin, uint64_t end, uint16_t stream) {
  Take(begin, end);
  pieces_[begin] = {end, stream};
}

absl::Status CheckComesAfter(const SlotRef& ref, const profile::Block& block,
                             const std::vector<uint16_t>& streams) {
  const std::vector<uint16_t>& after = ref.slot->after;
  for (uint16_t stream : streams) {
    if (block.kind != profile::AllocKind::kLinear && stream == block.stream) continue;
    if (std::find(after.begin(), after.end(), stream) != after.end()) continue;
    return Broken("stream", fmt::format("{} of stream {} gets bytes that stream {} freed, but is "
                                        "not after it",
                                        Name(ref), block.stream, stream));
  }
  return absl::OkStatus();
}

absl::Status CheckOverlap(std::vector<Stay> stays) {
  std::erase_if(stays, [](const Stay& stay) { return stay.end <= stay.begin; });
  SortByBegin(stays);
  std::map<uint64_t, size_t> present;  // by offset
  const auto overlapped = [&](const Slot& slot) -> const Stay* {
    const auto next = present.lower_bound(slot.offset);
    if (next != present.end() && next->first < slot.offset + slot.bytes) {
      return &stays[next->second];
    }
    if (next == present.begin()) return nullptr;
    const Stay& below = stays[std::prev(next)->second];
    return below.ref.slot->offset + below.ref.slot->bytes > slot.offset ? &below : nullptr;
  };
  return Play(
      stays,
      [&](size_t i) {
        const Stay& stay = stays[i];
        if (const Stay* other = overlapped(*stay.ref.slot)) {
          return Broken("overlap",
                        fmt::format("{} and {} share bytes after {} launches", Name(other->ref),
                                    Name(stay.ref), stay.begin.launches));
        }
        present.emplace(stay.ref.slot->offset, i);
        return absl::OkStatus();
      },
      [&](size_t i) { present.erase(stays[i].ref.slot->offset); });
}

absl::Status CheckStreamOrder(std::vector<Stay> stays) {
  // A slab's copies are ordered by events of their own, behind what lay there before.
  std::erase_if(stays, [](const Stay& stay) { return stay.block == nullptr; });
  SortByBegin(stays);
  FreedBytes freed;
  return Play(
      stays,
      [&](size_t i) {
        const Slot& slot = *stays[i].ref.slot;
        return CheckComesAfter(stays[i].ref, *stays[i].block, freed.Take(slot.offset, EndOf(slot)));
      },
      [&](size_t i) {
        const Slot& slot = *stays[i].ref.slot;
        const uint16_t stream = stays[i].block->free_stream;
        // cuMemFree waits for all work.
        if (Linear(stays[i]) && stream == 0) return;
        freed.Give(slot.offset, EndOf(slot), stream);
      });
}

}  // namespace ebt::plan
