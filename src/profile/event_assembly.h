// From events in the order of the file to a Profile in the order of time.
#ifndef EBBTIDE_SRC_PROFILE_EVENT_ASSEMBLY_H_
#define EBBTIDE_SRC_PROFILE_EVENT_ASSEMBLY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/profile/encoding.h"
#include "src/profile/types.h"

namespace ebt::profile {

// An event as the file has it: block numbers are still the file's.
struct FileEvent {
  uint64_t sequence = 0;
  RecordKind kind = RecordKind::kStep;
  Event event;
  uint32_t alloc = 0;  // kAlloc: index of FileEvents::allocs
};

struct FileEvents {
  std::vector<FileEvent> events;
  std::vector<Block> allocs;            // id: the file's number
  std::vector<uint64_t> alloc_offsets;  // where in the file each stands
  std::vector<uint32_t> kept;           // blocks, by the file's numbers
};

// Sorts by sequence, numbers blocks densely in order of allocation, and drops what names blocks
// that are not alive. Fails when a block number is given twice.
absl::Status Assemble(FileEvents&& from, const std::string& name, Profile& profile);

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_EVENT_ASSEMBLY_H_
