#include "src/callsite/python_layout.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <cstddef>
#include <cstring>
#include <initializer_list>

namespace ebt::callsite {
namespace {

// The tables below are offsetof() of the release builds' own headers on x86-64; they are part of
// a minor version's ABI and do not change within it.
constexpr PythonLayout k39 = {
    .thread_frame = 24,
    .frame_previous = 24,
    .frame_code = 32,
    .frame_instruction = 104,
    .instruction = PythonLayout::Instruction::kByteIndex,
    .line_table = LineTableKind::kLnotab,
    .code_first_line = 40,
    .code_filename = 104,
    .code_name = 112,
    .code_line_table = 120,
};

constexpr PythonLayout k310 = {
    .thread_frame = 24,
    .frame_previous = 24,
    .frame_code = 32,
    .frame_instruction = 96,
    .instruction = PythonLayout::Instruction::kUnitIndex,
    .line_table = LineTableKind::kRanges,
    .code_first_line = 40,
    .code_filename = 104,
    .code_name = 112,
    .code_line_table = 120,
};

constexpr PythonLayout k311 = {
    .thread_frame = 56,
    .cframe_frame = 8,
    .frame_previous = 48,
    .frame_code = 32,
    .frame_instruction = 56,
    .frame_owner = 69,
    .code_first_line = 72,
    .code_filename = 112,
    .code_name = 128,
    .code_line_table = 136,
    .code_bytecode = 184,
    .code_first_traceable = 168,
};

constexpr PythonLayout k312 = {
    .thread_frame = 56,
    .cframe_frame = 0,
    .frame_previous = 8,
    .frame_code = 0,
    .frame_instruction = 56,
    .frame_owner = 70,
    .code_first_line = 68,
    .code_filename = 112,
    .code_name = 128,
    .code_line_table = 136,
    .code_bytecode = 192,
    .code_first_traceable = 176,
    .code_version = 92,
    .string_ascii_size = 40,
    .string_compact_size = 56,
};

// Since 3.13 _PyRuntime begins with a description of CPython's structures: a cookie, then 64-bit
// numbers, most of them offsets, in groups that each begin with the size of the structure they
// are about. Versions differ in how many groups lie between those wanted here, and in what they
// append to a group.
struct Head {
  char cookie[8];
  uint64_t version, free_threaded;
};
struct ThreadGroup {
  uint64_t size, prev, next, interp, current_frame;
};
struct FrameGroup {
  uint64_t size, previous, executable, instruction, locals, owner;
};
struct CodeGroup {
  uint64_t size, filename, name, qualname, line_table, first_line, rest[3], bytecode;
};
struct ObjectGroup {
  uint64_t size, type;
};
struct BytesGroup {
  uint64_t size, length, data;
};
struct StringGroup {
  uint64_t size, state, length, ascii_size;
};

// Where in _PyRuntime the groups begin.
struct Groups {
  size_t thread, frame, code, object, bytes, string;
  // The place of a code object's bytecode, to recognize the structure by.
  uint64_t code_bytecode;
};
constexpr Groups k313 = {.thread = 152,
                         .frame = 224,
                         .code = 272,
                         .object = 352,
                         .bytes = 512,
                         .string = 536,
                         .code_bytecode = 200};
constexpr Groups k314 = {.thread = 176,
                         .frame = 248,
                         .code = 312,
                         .object = 400,
                         .bytes = 592,
                         .string = 616,
                         .code_bytecode = 208};

struct Description {
  Description(const void* runtime, const Groups& groups) {
    const auto read = [runtime](size_t at, auto& group) {
      std::memcpy(&group, static_cast<const char*>(runtime) + at, sizeof(group));
    };
    read(groups.thread, thread);
    read(groups.frame, frame);
    read(groups.code, code);
    read(groups.object, object);
    read(groups.bytes, bytes);
    read(groups.string, string);
  }

  ThreadGroup thread;
  FrameGroup frame;
  CodeGroup code;
  ObjectGroup object;
  BytesGroup bytes;
  StringGroup string;
};

// Every field must lie inside its structure, and no structure here is larger than this.
constexpr uint64_t kMaxStructure = 4096;
bool AllInside(uint64_t size, std::initializer_list<uint64_t> offsets) {
  if (size == 0 || size > kMaxStructure) return false;
  for (uint64_t offset : offsets) {
    if (offset >= size) return false;
  }
  return true;
}

// The two fields before the bytecode that the description leaves out: the first traceable
// instruction, then a pointer, then the bytecode itself.
constexpr uint64_t kTraceableBeforeBytecode = 16;
// What any other string's head has beyond a pure ASCII one's: its UTF-8 form's size and address.
constexpr uint64_t kUtf8Fields = 16;

bool IsConsistent(const Description& d) {
  return AllInside(d.thread.size, {d.thread.current_frame}) &&
         AllInside(d.frame.size,
                   {d.frame.previous, d.frame.executable, d.frame.instruction, d.frame.owner}) &&
         AllInside(d.code.size, {d.code.filename, d.code.qualname, d.code.line_table,
                                 d.code.first_line, d.code.bytecode}) &&
         d.code.bytecode >= kTraceableBeforeBytecode && AllInside(d.object.size, {d.object.type}) &&
         AllInside(d.bytes.size, {d.bytes.length, d.bytes.data}) &&
         AllInside(d.string.size, {d.string.state, d.string.length, d.string.ascii_size});
}

// The version number's place, which holds as long as its neighbours are where they were when this
// was written.
uint16_t CodeVersion(const CodeGroup& code, const Groups& groups) {
  const bool known =
      code.first_line == 68 && code.filename == 112 && code.bytecode == groups.code_bytecode;
  return known ? 92 : PythonLayout::kNone;
}

absl::StatusOr<PythonLayout> FromDescription(uint32_t hex, const void* runtime,
                                             const Groups& groups) {
  if (runtime == nullptr) {
    return absl::FailedPreconditionError("this CPython does not export _PyRuntime");
  }
  Head head;
  std::memcpy(&head, runtime, sizeof(head));
  if (std::memcmp(head.cookie, "xdebugpy", sizeof(head.cookie)) != 0 || head.version != hex) {
    return absl::FailedPreconditionError(
        "this CPython's _PyRuntime does not begin with the description of its own version");
  }
  if (head.free_threaded != 0) {
    return absl::UnimplementedError("this CPython was built without a GIL");
  }
  const Description d(runtime, groups);
  if (!IsConsistent(d)) {
    return absl::FailedPreconditionError(
        "this CPython's _PyRuntime names offsets outside their structures");
  }
  const auto small = [](uint64_t offset) { return static_cast<uint16_t>(offset); };
  return PythonLayout{
      .thread_frame = small(d.thread.current_frame),
      .frame_previous = small(d.frame.previous),
      .frame_code = small(d.frame.executable),
      .frame_instruction = small(d.frame.instruction),
      .frame_owner = small(d.frame.owner),
      .code_first_line = small(d.code.first_line),
      .code_filename = small(d.code.filename),
      .code_name = small(d.code.qualname),
      .code_line_table = small(d.code.line_table),
      .code_bytecode = small(d.code.bytecode),
      .code_first_traceable = small(d.code.bytecode - kTraceableBeforeBytecode),
      .code_version = CodeVersion(d.code, groups),
      .object_type = small(d.object.type),
      .string_length = small(d.string.length),
      .string_state = small(d.string.state),
      .string_ascii_size = small(d.string.ascii_size),
      .string_compact_size = small(d.string.ascii_size + kUtf8Fields),
      .bytes_size = small(d.bytes.length),
      .bytes_data = small(d.bytes.data),
  };
}

}  // namespace

absl::StatusOr<PythonLayout> LayoutOf(uint32_t hex, const void* runtime) {
  const uint32_t major = hex >> 24;
  const uint32_t minor = (hex >> 16) & 0xff;
  if (major == 3 && minor == 9) return k39;
  if (major == 3 && minor == 10) return k310;
  if (major == 3 && minor == 11) return k311;
  if (major == 3 && minor == 12) return k312;
  if (major == 3 && minor == 13) return FromDescription(hex, runtime, k313);
  if (major == 3 && minor == 14) return FromDescription(hex, runtime, k314);
  return absl::UnimplementedError(absl::StrCat("CPython ", major, ".", minor,
                                               " is not among those whose frames can be read, "
                                               "3.9 to 3.14"));
}

}  // namespace ebt::callsite
