// The memories that blocks of a recording lie in, and the peak of each.
#ifndef EBBTIDE_SRC_REPORT_MEMORY_SPACES_H_
#define EBBTIDE_SRC_REPORT_MEMORY_SPACES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/profile/kinds.h"
#include "src/profile/steps.h"
#include "src/profile/types.h"

namespace ebt::report {

struct KindSum {
  uint64_t bytes = 0;
  uint64_t blocks = 0;
};

// A device, or managed memory, which may be anywhere and so counts for no device.
struct MemorySpace {
  std::string name;  // "device 0", "managed memory"
  uint64_t blocks = 0;
  // The most bytes live at once, right behind the event `peak_event`. Where a steady step reaches
  // it, there; else where it was reached first.
  uint64_t peak_bytes = 0;
  uint64_t peak_blocks = 0;
  uint64_t peak_event = 0;
  std::array<KindSum, profile::kKinds> kinds{};  // at the peak, by Kind
};

struct MemorySpaces {
  std::vector<MemorySpace> spaces;  // the largest peak first, managed memory last
  std::vector<uint32_t> of_block;   // index into spaces, by block id
};

// O(events + blocks). `kinds`: of each block; a block beyond them is unknown.
MemorySpaces FindMemorySpaces(const profile::Profile& profile,
                              const std::optional<profile::Steps>& steps,
                              const std::vector<profile::Kind>& kinds);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_MEMORY_SPACES_H_
