// What a recording says, as plain data. Times are event indices (`at`), counted from 0 in the
// order in which the events happened; a block lives in [alloc_at, free_at).
#ifndef EBBTIDE_SRC_PROFILE_TYPES_H_
#define EBBTIDE_SRC_PROFILE_TYPES_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "src/callsite/callsite.h"

namespace ebt::profile {

inline constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
inline constexpr uint32_t kNoBlock = std::numeric_limits<uint32_t>::max();

// The same numbers as enum ebt_alloc_kind of hooks/core_api.h.
enum class AllocKind : uint8_t { kLinear, kPitched, kManaged, kAsync, kPool, kVmm };
// The same numbers as enum ebt_copy_kind.
enum class CopyKind : uint8_t { kHtoD, kDtoH, kDtoD, kUnified, kPeer, kMemset };

struct Block {
  uint32_t id = 0;           // index into Profile::blocks
  uint64_t site = 0;         // callsite::Site::id, 0: unknown
  uint64_t fingerprint = 0;  // callsite::Fingerprint, 0: unknown
  uint64_t bytes = 0;        // as requested
  uint64_t address = 0;      // device address, of use only for telling neighbours
  AllocKind kind = AllocKind::kLinear;
  uint16_t device = 0;  // ordinal
  uint16_t stream = 0;  // small number of the stream in order of first use, 0: none/legacy
  uint16_t free_stream = 0;
  uint64_t alloc_at = 0;
  uint64_t free_at = kNever;
  bool exported = false;  // another process may hold it: stays native
  bool kept = false;      // a graph, a tensor map or the like names it at any time: is not swapped
};

struct Function {
  uint32_t id = 0;
  std::string name;  // mangled kernel name, or "kernel#N" where the driver does not tell
};

enum class EventKind : uint8_t {
  kAlloc,   // block
  kFree,    // block
  kLaunch,  // function, shape, stream, touched
  kCopy,    // copy, bytes, stream, touched = blocks named (dst first)
  kMark,    // gpu_ms: the GPU's own time when everything before this event had run on `stream`
  kStep,    // ebbtide_step()
  kPhase,   // ebbtide_phase(): phase
  kGraph,   // a graph was launched: function = a number for the executable graph
  kFailed,  // the driver refused an allocation of `bytes`
};

struct Event {
  EventKind kind = EventKind::kAlloc;
  uint16_t stream = 0;
  uint32_t block = kNoBlock;
  uint32_t function = 0;
  uint64_t shape = 0;  // hash of grid, block and shared bytes of a launch
  CopyKind copy = CopyKind::kHtoD;
  uint64_t bytes = 0;
  double gpu_ms = 0;
  std::string phase;
  std::vector<uint32_t> touched;  // block ids, each once
};

// Whatever starts kernels: what counts as a launch of a step.
inline bool IsLaunch(const Event& event) {
  return event.kind == EventKind::kLaunch || event.kind == EventKind::kGraph;
}

struct Profile {
  // "program", "gpu", "driver_version", "total_bytes" (device), "ebbtide", "time",
  // "argv", "pid", "rank" and whatever a later version adds. Unknown keys are kept.
  std::map<std::string, std::string> metadata;
  std::vector<callsite::Site> sites;
  std::vector<Function> functions;
  std::vector<Block> blocks;
  std::vector<Event> events;
  // The file ended without its closing record (a killed process): what is here is whole up to
  // the last flush.
  bool truncated = false;
};

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_TYPES_H_
