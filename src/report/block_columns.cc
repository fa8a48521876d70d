#include "src/report/block_columns.h"

#include <algorithm>

#include "src/base/units.h"
#include "src/report/composition.h"
#include "src/report/memory_spaces.h"

namespace ebt::report {
namespace {

using profile::Block;
using profile::Event;
using profile::EventKind;
using profile::Profile;

constexpr uint64_t kGraphWork = 6;
constexpr uint64_t kFirstFunctionWork = 7;
// Two bytes each, or so, and 4/3 of that as text.
constexpr uint64_t kMostListedTouches = uint64_t{3} << 20;

uint64_t WhatOf(const Event& event) {
  if (event.kind == EventKind::kCopy) return static_cast<uint64_t>(event.copy);
  return event.kind == EventKind::kGraph ? kGraphWork : kFirstFunctionWork + event.function;
}

// Works that touch each block: those of block b are works[begin[b]] to works[begin[b + 1]].
struct Touches {
  std::vector<uint64_t> begin;
  std::vector<uint32_t> works;
};

Touches TouchesOf(const Profile& profile) {
  Touches out;
  out.begin.assign(profile.blocks.size() + 1, 0);
  for (const Event& event : profile.events) {
    for (uint32_t block : event.touched) ++out.begin[block + 1];
  }
  for (size_t i = 1; i < out.begin.size(); ++i) out.begin[i] += out.begin[i - 1];
  out.works.resize(out.begin.back());
  std::vector<uint64_t> next = out.begin;
  uint32_t work = 0;
  for (const Event& event : profile.events) {
    for (uint32_t block : event.touched) out.works[next[block]++] = work;
    work += IsWork(event);
  }
  return out;
}

// The most touches a block that all together stay below kMostListedTouches.
uint64_t MostListed(const Touches& touches) {
  for (uint64_t most = uint64_t{1} << 20; most > 1; most /= 2) {
    uint64_t listed = 0;
    for (size_t i = 0; i + 1 < touches.begin.size(); ++i)
      listed += std::min(most, touches.begin[i + 1] - touches.begin[i]);
    if (listed <= kMostListedTouches) return most;
  }
  return 1;
}

// What is in front of each allocation, in order of blocks.
std::vector<uint64_t> WorksBeforeAllocs(const Profile& profile) {
  std::vector<uint64_t> before;
  uint64_t works = 0;
  for (const Event& event : profile.events) {
    if (event.kind == EventKind::kAlloc) before.push_back(works);
    works += IsWork(event);
  }
  before.resize(profile.blocks.size(), works);
  return before;
}

void AddTouches(const Touches& touches, size_t block, uint64_t works_before, BlockColumns& out) {
  const uint64_t begin = touches.begin[block], end = touches.begin[block + 1];
  const uint64_t listed_end = std::min(end, begin + out.most_listed);
  out.touches.Add(end - begin);
  uint64_t before = works_before;
  for (uint64_t i = begin; i < listed_end; ++i) {
    out.listed.Add(touches.works[i] - before);
    before = touches.works[i];
  }
  if (listed_end < end) out.last.Add(touches.works[end - 1] - before);
}

}  // namespace

bool IsWork(const Event& event) { return IsLaunch(event) || event.kind == EventKind::kCopy; }

WorkColumns ColumnsOfWork(const Profile& profile) {
  WorkColumns out;
  uint64_t before = 0;
  for (uint64_t at = 0; at < profile.events.size(); ++at) {
    if (!IsWork(profile.events[at])) continue;
    out.event.Add(at - before);
    out.what.Add(WhatOf(profile.events[at]));
    ++out.works;
    before = at;
  }
  return out;
}

BlockColumns ColumnsOfBlocks(const Profile& profile) {
  BlockColumns out;
  const Touches touches = TouchesOf(profile);
  const std::vector<uint64_t> works_before = WorksBeforeAllocs(profile);
  out.most_listed = MostListed(touches);
  uint64_t alloc = 0, address = 0;
  for (const Block& block : profile.blocks) {
    out.alloc.Add(block.alloc_at - alloc);
    out.life.Add(block.free_at == profile::kNever ? 0 : block.free_at - block.alloc_at);
    out.bytes.Add(TakenBytes(block) / kBlockAlignment);
    out.address.AddSigned(static_cast<int64_t>(block.address - address));
    AddTouches(touches, block.id, works_before[block.id], out);
    alloc = block.alloc_at;
    address = block.address;
  }
  return out;
}

}  // namespace ebt::report
