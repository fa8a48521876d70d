// Who allocates: the calling thread's stack as a site that has the same number in every run.
#ifndef EBBTIDE_SRC_CALLSITE_CALLSITE_H_
#define EBBTIDE_SRC_CALLSITE_CALLSITE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ebt::callsite {

struct Frame {
  enum class Kind : uint8_t { kNative = 0, kPython = 1 };
  Kind kind = Kind::kNative;
  std::string module;    // native: build-id in hex, or the base name of a file without one;
                         // Python: the file below its entry of sys.path (import_path.h)
  uint64_t offset = 0;   // native: offset of the call in the module (file address); Python: line
  std::string function;  // native: empty (resolved offline) or the dynamic symbol where known;
                         // Python: qualified name
  std::string file;      // native: path of the module, for the offline resolver;
                         // Python: path of the file, for the reader
};

struct Site {
  // A hash of the frames' (kind, module, offset), and of Python frames the function, alone: the
  // same in every run of the same binaries and scripts, whatever the load addresses and wherever
  // they are installed. Never 0.
  uint64_t id = 0;
  std::vector<Frame> frames;  // innermost first
};

// Sets up unwinding and the search for CPython. libc_dlsym: libc's own dlsym, so that looking
// up Python's symbols does not pass through a hook. Call once before the others.
void Initialize(void* (*libc_dlsym)(void*, const char*));

// The site of the calling thread's present stack, without the frames of our own libraries.
// A stack that was seen before costs about a microsecond (no symbol look-up, no allocation);
// a new one is resolved and interned. Never takes Python's GIL, never throws. Thread-safe.
// 0 when nothing could be unwound.
uint64_t Capture() noexcept;

// A cheap stand-in for Capture that tells most sites apart (innermost Python frame's code and
// instruction's line if any): the same in every run. Tens of nanoseconds. 0 when nothing is
// known, such as on a thread without Python frames.
uint64_t Fingerprint() noexcept;

// The interned site with this id (empty frames if unknown). The copy is the caller's.
Site Lookup(uint64_t id);

// Ids interned since `from` (an index that starts at 0 and that the call advances), in order of
// first sight: the writer drains new sites with it.
std::vector<uint64_t> InternedSince(size_t& from);

// In the child after a fork: forget what belongs to the other threads (locks are re-made).
void AfterFork() noexcept;

}  // namespace ebt::callsite

#endif  // EBBTIDE_SRC_CALLSITE_CALLSITE_H_
