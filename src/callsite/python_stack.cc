#include "src/callsite/python_stack.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "src/base/log.h"
#include "src/callsite/stable_hash.h"

namespace ebt::callsite {
namespace {

template <typename T>
T Read(const std::byte* object, size_t offset) noexcept {
  T value;
  std::memcpy(&value, object + offset, sizeof(value));
  return value;
}

const std::byte* Pointer(const std::byte* object, size_t offset) noexcept {
  return Read<const std::byte*>(object, offset);
}

// PY_VERSION_HEX of the running CPython: a constant since 3.11, before that the beginning of a
// static text such as "3.10.13 (main, …)". 0 if there is neither.
uint32_t RunningVersion(void* (*libc_dlsym)(void*, const char*)) {
  if (const void* hex = libc_dlsym(RTLD_DEFAULT, "Py_Version")) {
    unsigned long value;  // NOLINT(runtime/int): the type of Py_Version
    std::memcpy(&value, hex, sizeof(value));
    return static_cast<uint32_t>(value);
  }
  const auto text = reinterpret_cast<const char* (*)()>(libc_dlsym(RTLD_DEFAULT, "Py_GetVersion"));
  if (text == nullptr) return 0;
  char* end = nullptr;
  const unsigned long major = std::strtoul(text(), &end, 10);  // NOLINT(runtime/int)
  if (*end != '.') return 0;
  const unsigned long minor = std::strtoul(end + 1, &end, 10);  // NOLINT(runtime/int)
  return static_cast<uint32_t>((major & 0xff) << 24 | (minor & 0xff) << 16);
}

void AppendUtf8(std::string& text, uint32_t c) {
  const auto put = [&text](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6);
    put(0x80 | (c & 0x3f));
  } else if (c >= 0xd800 && c < 0xe000) {
    // Half a pair stands for a byte of a file name that is no UTF-8: it would spoil the profile.
    put('?');
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | (c >> 18 & 7));
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

// The bit field at string_state, the same from 3.9 to 3.14.
struct StringState {
  explicit StringState(uint32_t bits)
      : kind(bits >> 2 & 7), compact((bits >> 5 & 1) != 0), ascii((bits >> 6 & 1) != 0) {}
  uint32_t kind;  // bytes a character
  bool compact;   // the characters follow the head
  bool ascii;
};

// A hash of the length and of eight bytes from each end, enough to tell two texts apart in
// practice.
uint64_t HashEnds(const std::byte* data, size_t bytes) noexcept {
  if (bytes >= sizeof(uint64_t)) {
    return MixPair(bytes, Read<uint64_t>(data, 0), Read<uint64_t>(data, bytes - sizeof(uint64_t)));
  }
  uint64_t word = 0;
  std::memcpy(&word, data, bytes);
  return MixPair(bytes, word, 0);
}

}  // namespace

const Interpreter* Interpreter::Search(void* (*libc_dlsym)(void*, const char*)) {
  void* const this_thread = libc_dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
  const void* const code_type = libc_dlsym(RTLD_DEFAULT, "PyCode_Type");
  void* const is_initialized = libc_dlsym(RTLD_DEFAULT, "Py_IsInitialized");
  if (this_thread == nullptr || is_initialized == nullptr || code_type == nullptr) return nullptr;
  const absl::StatusOr<PythonLayout> layout =
      LayoutOf(RunningVersion(libc_dlsym), libc_dlsym(RTLD_DEFAULT, "_PyRuntime"));
  if (!layout.ok()) {
    static std::atomic<bool> said{false};
    if (said.exchange(true)) return nullptr;
    Log(LogLevel::kWarning, "call sites show no Python frames: {}", layout.status().ToString());
    return nullptr;
  }
  return new Interpreter(reinterpret_cast<void* (*)()>(this_thread),
                         reinterpret_cast<int (*)()>(is_initialized), code_type, *layout,
                         CodeAround(this_thread));
}

const std::byte* Interpreter::InnermostFrame() const noexcept {
  if (is_initialized_() == 0) return nullptr;
  const auto* thread = static_cast<const std::byte*>(this_thread_());
  if (thread == nullptr) return nullptr;
  const std::byte* frame = Pointer(thread, layout_.thread_frame);
  if (layout_.cframe_frame == PythonLayout::kNone || frame == nullptr) return frame;
  return Pointer(frame, layout_.cframe_frame);
}

const std::byte* Interpreter::CodeOf(const std::byte* frame) const noexcept {
  // Since 3.14 the lowest bits say who counts the reference; no object's address has any set.
  constexpr uintptr_t kTagBits = 3;
  const auto reference = Read<uintptr_t>(frame, layout_.frame_code);
  return reinterpret_cast<const std::byte*>(reference & ~kTagBits);
}

// False for frames of the interpreter's own C code and for those still being set up, which
// tracebacks leave out too.
bool Interpreter::ReadFrame(const std::byte* frame, PythonFrame* out) const noexcept {
  uint8_t owner = 0;
  if (layout_.frame_owner != PythonLayout::kNone) {
    owner = Read<uint8_t>(frame, layout_.frame_owner);
    if (owner >= kFirstOwnerWithoutCode) return false;
  }
  const std::byte* code = CodeOf(frame);
  if (code == nullptr || Read<const void*>(code, layout_.object_type) != code_type_) return false;
  out->code = code;
  switch (layout_.instruction) {
    case PythonLayout::Instruction::kByteIndex:
      out->offset = Read<int32_t>(frame, layout_.frame_instruction);
      break;
    case PythonLayout::Instruction::kUnitIndex:
      out->offset = int64_t{2} * Read<int32_t>(frame, layout_.frame_instruction);
      break;
    case PythonLayout::Instruction::kPointer:
      out->offset = Pointer(frame, layout_.frame_instruction) - (code + layout_.code_bytecode);
      break;
  }
  if (layout_.code_first_traceable != PythonLayout::kNone && owner != kOwnerGenerator &&
      out->offset < int64_t{2} * Read<int32_t>(code, layout_.code_first_traceable)) {
    return false;
  }
  out->identity = CodeIdentity(code);
  return true;
}

uint64_t Interpreter::CodeIdentity(const std::byte* code) const noexcept {
  if (layout_.code_version != PythonLayout::kNone) {
    // CPython gives out each number once, and 0 when it has none left.
    const auto version = Read<uint32_t>(code, layout_.code_version);
    if (version != 0) return version;
  }
  const std::byte* filename = Pointer(code, layout_.code_filename);
  const std::byte* name = Pointer(code, layout_.code_name);
  const std::span<const uint8_t> lines = LineTableOf(code);
  const auto* table = reinterpret_cast<const std::byte*>(lines.data());
  // None waits for another but for the last, so that most of it happens at once.
  const uint64_t objects =
      MixPair(Read<uint32_t>(code, layout_.code_first_line), reinterpret_cast<uint64_t>(filename),
              reinterpret_cast<uint64_t>(name));
  const uint64_t texts = MixPair(1, TextIdentity(filename), TextIdentity(name));
  const uint64_t instructions =
      MixPair(2, reinterpret_cast<uint64_t>(table), HashEnds(table, lines.size()));
  return MixPair(objects, texts, instructions);
}

uint64_t Interpreter::TextIdentity(const std::byte* string) const noexcept {
  if (string == nullptr) return 0;
  const StringState state(Read<uint32_t>(string, layout_.string_state));
  if (!state.compact) return 0;
  const auto length = Read<uint64_t>(string, layout_.string_length);
  return HashEnds(string + (state.ascii ? layout_.string_ascii_size : layout_.string_compact_size),
                  length * state.kind);
}

size_t Interpreter::Walk(std::span<PythonFrame> frames) const noexcept {
  size_t count = 0;
  const std::byte* frame = InnermostFrame();
  while (frame != nullptr && count < frames.size()) {
    if (ReadFrame(frame, &frames[count])) ++count;
    frame = Pointer(frame, layout_.frame_previous);
  }
  return count;
}

std::span<const uint8_t> Interpreter::LineTableOf(const std::byte* code) const noexcept {
  const std::byte* table = Pointer(code, layout_.code_line_table);
  if (table == nullptr) return {};
  constexpr int64_t kMaxBytes = int64_t{1} << 24;  // far beyond any source file
  const int64_t bytes = std::clamp<int64_t>(Read<int64_t>(table, layout_.bytes_size), 0, kMaxBytes);
  return {reinterpret_cast<const uint8_t*>(table + layout_.bytes_data), static_cast<size_t>(bytes)};
}

std::string Interpreter::Text(const std::byte* string) const {
  constexpr int64_t kMaxCharacters = 4096;
  if (string == nullptr) return "?";
  const StringState state(Read<uint32_t>(string, layout_.string_state));
  if (!state.compact) return "?";
  const int64_t length =
      std::clamp<int64_t>(Read<int64_t>(string, layout_.string_length), 0, kMaxCharacters);
  const std::byte* data =
      string + (state.ascii ? layout_.string_ascii_size : layout_.string_compact_size);
  std::string text;
  for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
    switch (state.kind) {
      case 1:
        AppendUtf8(text, Read<uint8_t>(data, i));
        break;
      case 2:
        AppendUtf8(text, Read<uint16_t>(data, 2 * i));
        break;
      case 4:
        AppendUtf8(text, Read<uint32_t>(data, 4 * i));
        break;
      default:
        return "?";
    }
  }
  return text;
}

Frame Interpreter::Describe(const PythonFrame& frame) const {
  Frame described;
  described.kind = Frame::Kind::kPython;
  described.file = Text(Pointer(frame.code, layout_.code_filename));
  described.function = Text(Pointer(frame.code, layout_.code_name));
  described.offset = static_cast<uint64_t>(std::max<int64_t>(
      0, LineAt(layout_.line_table, LineTableOf(frame.code),
                Read<int32_t>(frame.code, layout_.code_first_line), frame.offset)));
  return described;
}

}  // namespace ebt::callsite
