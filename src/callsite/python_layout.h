// Where CPython keeps, inside its own structures, what a stack walk needs.
#ifndef EBBTIDE_SRC_CALLSITE_PYTHON_LAYOUT_H_
#define EBBTIDE_SRC_CALLSITE_PYTHON_LAYOUT_H_

#include <absl/status/statusor.h>

#include <cstdint>

#include "src/callsite/line_table.h"

namespace ebt::callsite {

// All offsets in bytes from the beginning of the structure named by the first word.
struct PythonLayout {
  static constexpr uint16_t kNone = 0xffff;

  // How a frame says where it is.
  enum class Instruction : uint8_t {
    kByteIndex,  // an int, the offset into the bytecode (3.9)
    kUnitIndex,  // an int, in units of two bytes (3.10)
    kPointer,    // a pointer into the bytecode, which is part of the code object (since 3.11)
  };

  uint16_t thread_frame = 0;      // PyThreadState: innermost frame, or the C frame
  uint16_t cframe_frame = kNone;  // the C frame's innermost frame (3.11, 3.12)
  uint16_t frame_previous = 0;    // next outer frame
  uint16_t frame_code = 0;        // code object
  uint16_t frame_instruction = 0;
  uint16_t frame_owner = kNone;  // a char; kNone: no frame is without code
  Instruction instruction = Instruction::kPointer;
  LineTableKind line_table = LineTableKind::kLocations;
  uint16_t code_first_line = 0;           // int
  uint16_t code_filename = 0;             // str
  uint16_t code_name = 0;                 // str, qualified where CPython keeps that (since 3.11)
  uint16_t code_line_table = 0;           // bytes
  uint16_t code_bytecode = kNone;         // the bytecode itself (since 3.11)
  uint16_t code_first_traceable = kNone;  // int, units: a frame before it is still being set up
  uint16_t code_version = kNone;          // uint32, no two code objects share it (since 3.12)
  uint16_t object_type = 8;               // of every object: its type
  uint16_t string_length = 16;            // str: number of characters
  uint16_t string_state = 32;             // str: bit field
  uint16_t string_ascii_size = 48;        // str: size of the head of a pure ASCII string
  uint16_t string_compact_size = 72;      // str: size of the head of any other string
  uint16_t bytes_size = 16;               // bytes: their number
  uint16_t bytes_data = 32;               // bytes: the first of them
};

// Owners of a frame (frame_owner): from this value on it belongs to the interpreter's C code,
// and what should be its code object is none.
inline constexpr uint8_t kFirstOwnerWithoutCode = 3;
// The owner of a generator's frame, which is complete from its beginning on.
inline constexpr uint8_t kOwnerGenerator = 1;

// The layout of the CPython whose version is `hex` (PY_VERSION_HEX). `runtime` is the address of
// _PyRuntime, which describes itself since 3.13, and may be nullptr before. Unimplemented for a
// version that is not known and for builds without a GIL, FailedPrecondition where _PyRuntime is
// missing or contradicts itself.
absl::StatusOr<PythonLayout> LayoutOf(uint32_t hex, const void* runtime);

}  // namespace ebt::callsite

#endif  // EBBTIDE_SRC_CALLSITE_PYTHON_LAYOUT_H_
