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

// A chunk of the file, to say where something stands.
struct ChunkPlace {
  uint64_t at = 0;  // of its header, in the file
  bool packed = false;

  // "byte 56" of the file, or "byte 12, byte 56 of what is packed there". offset: in the content.
  std::string Name(uint64_t offset) const;
};

// What the events chunks of a file hold.
struct FileEvents {
  // Of each event what is not in it.
  struct Key {
    uint64_t sequence = 0;
    uint32_t index = 0;  // in `events`
    RecordKind kind = RecordKind::kStep;
  };
  struct Chunk {
    ChunkPlace place;
    size_t first_alloc = 0;  // index into `allocs`
  };

  // In the order of the file. `block` is the file's number; of a kAlloc an index into `allocs`.
  std::vector<Event> events;
  std::vector<Key> keys;
  std::vector<Block> allocs;            // id: the file's number
  std::vector<uint32_t> alloc_offsets;  // of each, where in its chunk's content
  std::vector<Chunk> chunks;
  std::vector<uint32_t> kept;  // blocks, by the file's numbers
};

// Sorts by sequence, numbers blocks densely in order of allocation, and drops what names blocks
// that are not alive. Fails when a block number is given twice.
absl::Status Assemble(FileEvents&& from, const std::string& name, Profile& profile);

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_EVENT_ASSEMBLY_H_
