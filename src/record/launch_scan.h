// Which blocks a launch names: every aligned 8-byte word of every parameter is looked up.
#ifndef EBBTIDE_SRC_RECORD_LAUNCH_SCAN_H_
#define EBBTIDE_SRC_RECORD_LAUNCH_SCAN_H_

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "hooks/core_api.h"
#include "src/record/function_table.h"
#include "src/record/live_blocks.h"

namespace ebt::record {

// The parameter buffer of a launch's `extra` list and its bytes; NULL and 0 where there is none.
std::pair<const void*, size_t> ExtraBuffer(void** extra);

// Calls visit(word) for every aligned 8-byte word of every parameter. `layout` is the function's.
template <typename Visit>
void VisitWords(const ebt_launch& launch, const FunctionLayout& layout, Visit&& visit) {
  const auto words_of = [&](const void* data, size_t bytes) {
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, static_cast<const char*>(data) + at, sizeof(word));
      visit(word);
    }
  };
  for (size_t i = 0; launch.params != nullptr && i < layout.sizes.size(); ++i) {
    if (launch.params[i] != nullptr) words_of(launch.params[i], layout.sizes[i]);
  }
  if (launch.extra != nullptr) {
    const auto [buffer, bytes] = ExtraBuffer(launch.extra);
    if (buffer != nullptr) words_of(buffer, bytes);
  }
}

// Fills `touched` with the blocks that the parameters of `launch` point into, ascending, each
// once. Words are evidence, not truth: a number may look like an address. `layout` is the
// function's. Thread-safe.
void ScanLaunch(const ebt_launch& launch, const FunctionLayout& layout, const LiveBlocks& live,
                std::vector<uint32_t>& touched);

// A hash of grid, block and shared bytes: the same in every run.
uint64_t LaunchShape(const ebt_launch& launch);

}  // namespace ebt::record

#endif  // EBBTIDE_SRC_RECORD_LAUNCH_SCAN_H_
