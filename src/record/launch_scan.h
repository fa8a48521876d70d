// Which blocks a launch names: every aligned 8-byte word of every parameter is looked up.
#ifndef EBBTIDE_SRC_RECORD_LAUNCH_SCAN_H_
#define EBBTIDE_SRC_RECORD_LAUNCH_SCAN_H_

#include <cstdint>
#include <vector>

#include "hooks/core_api.h"
#include "src/driver/function_table.h"
#include "src/record/live_blocks.h"

namespace ebt::record {

// Fills `touched` with the blocks that the parameters of `launch` point into, ascending, each
// once. Words are evidence, not truth: a number may look like an address. `layout` is the
// function's. Thread-safe.
void ScanLaunch(const ebt_launch& launch, const FunctionLayout& layout, const LiveBlocks& live,
                std::vector<uint32_t>& touched);

// A hash of grid, block and shared bytes: the same in every run.
uint64_t LaunchShape(const ebt_launch& launch);

}  // namespace ebt::record

#endif  // EBBTIDE_SRC_RECORD_LAUNCH_SCAN_H_
