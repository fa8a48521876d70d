// The calling thread's Python frames, read without the GIL.
//
// A running frame and its code object cannot go away while their thread is inside a call, and
// what is read of them never changes. So their own thread may read them at any time, whoever has
// the GIL. Only the end of the interpreter takes frames away from threads that it did not wait for:
// from its beginning on there are none to be read. Nothing here calls a Python function that could
// allocate, count a reference or raise.
#ifndef EBBTIDE_SRC_CALLSITE_PYTHON_STACK_H_
#define EBBTIDE_SRC_CALLSITE_PYTHON_STACK_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/callsite/callsite.h"
#include "src/callsite/modules.h"
#include "src/callsite/python_layout.h"

namespace ebt::callsite {

// One frame as it was found. Valid until its function goes on.
struct PythonFrame {
  const std::byte* code;  // the code object
  int64_t offset;         // of the instruction in the bytecode, in bytes; negative before the first
  // Tells this code object from another one that is made later at the same address.
  uint64_t identity;

  // Tells this instruction from any other of the process, in two words.
  uint64_t FirstWord() const noexcept { return reinterpret_cast<uint64_t>(code); }
  uint64_t SecondWord() const noexcept {
    // Versions and offsets are both small: apart, they would cancel each other out.
    return identity ^ static_cast<uint64_t>(offset) * 0x9e3779b97f4a7c15ull;
  }
};

class Interpreter {
 public:
  // The CPython in this process, or nullptr if there is none (yet) or it cannot be read; says
  // the latter in the log. Takes the loader's lock.
  static const Interpreter* Search(void* (*libc_dlsym)(void*, const char*));

  // Fills `frames` with the calling thread's Python frames, innermost first, and returns how
  // many there are.
  size_t Walk(std::span<PythonFrame> frames) const noexcept;

  // File, line and qualified name, without a module. May throw std::bad_alloc.
  Frame Describe(const PythonFrame& frame) const;

  // Where the interpreter's own code lies.
  const AddressRange& code() const noexcept { return code_; }

 private:
  Interpreter(void* (*this_thread)(), int (*is_initialized)(), const void* code_type,
              const PythonLayout& layout, const AddressRange& code)
      : this_thread_(this_thread),
        is_initialized_(is_initialized),
        code_type_(code_type),
        layout_(layout),
        code_(code) {}

  const std::byte* InnermostFrame() const noexcept;
  const std::byte* CodeOf(const std::byte* frame) const noexcept;
  bool ReadFrame(const std::byte* frame, PythonFrame* out) const noexcept;
  uint64_t CodeIdentity(const std::byte* code) const noexcept;
  uint64_t TextIdentity(const std::byte* string) const noexcept;
  std::span<const uint8_t> LineTableOf(const std::byte* code) const noexcept;
  std::string Text(const std::byte* string) const;

  void* (*const this_thread_)();   // PyGILState_GetThisThreadState
  int (*const is_initialized_)();  // Py_IsInitialized
  const void* const code_type_;    // PyCode_Type
  const PythonLayout layout_;
  const AddressRange code_;
};

}  // namespace ebt::callsite

#endif  // EBBTIDE_SRC_CALLSITE_PYTHON_STACK_H_
