// Loaded by python_frames.py through ctypes: captures the calling thread's site and writes it
// out as text.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include "src/callsite/callsite.h"

#define PROBE extern "C" __attribute__((visibility("default")))

namespace {

std::atomic<bool> g_waits_for_holder{false};
std::atomic<bool> g_gil_is_held{false};
std::atomic<bool> g_captured{false};

}  // namespace

PROBE void ebt_test_initialize() { ebt::callsite::Initialize(&dlsym); }

// Writes the id, then a line a frame: kind, module, offset, function. Returns the bytes written.
PROBE int ebt_test_capture(char* out, int size) {
  const ebt::callsite::Site site = ebt::callsite::Lookup(ebt::callsite::Capture());
  std::string text = fmt::format("{:016x}\n", site.id);
  for (const ebt::callsite::Frame& frame : site.frames) {
    const bool python = frame.kind == ebt::callsite::Frame::Kind::kPython;
    text += fmt::format("{}\t{}\t{}\t{}\n", python ? "python" : "native", frame.module,
                        frame.offset, frame.function);
  }
  const size_t bytes = std::min(text.size(), static_cast<size_t>(size));
  std::memcpy(out, text.data(), bytes);
  return static_cast<int>(bytes);
}

PROBE uint64_t ebt_test_fingerprint() { return ebt::callsite::Fingerprint(); }

// Whether a thread is in ebt_test_capture_beside_gil.
PROBE int ebt_test_waits_for_holder() { return g_waits_for_holder ? 1 : 0; }

// Called with the GIL: keeps it until the other thread has captured.
PROBE void ebt_test_hold_gil() {
  g_gil_is_held = true;
  while (!g_captured) std::this_thread::yield();
}

// Called without the GIL: captures while another thread has it and will not let go before.
PROBE int ebt_test_capture_beside_gil(char* out, int size) {
  g_waits_for_holder = true;
  while (!g_gil_is_held) std::this_thread::yield();
  const int bytes = ebt_test_capture(out, size);
  g_captured = true;
  return bytes;
}
