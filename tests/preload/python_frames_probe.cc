// Loaded by python_frames.py through ctypes: captures the calling thread's site and writes it
// out as text.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
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

// The id, then a line a frame: kind, module, offset, function, file.
std::string CaptureAsText() {
  const ebt::callsite::Site site = ebt::callsite::Lookup(ebt::callsite::Capture());
  std::string text = fmt::format("{:016x}\n", site.id);
  for (const ebt::callsite::Frame& frame : site.frames) {
    const bool python = frame.kind == ebt::callsite::Frame::Kind::kPython;
    text += fmt::format("{}\t{}\t{}\t{}\t{}\n", python ? "python" : "native", frame.module,
                        frame.offset, frame.function, frame.file);
  }
  return text;
}

int CopyOut(const std::string& text, char* out, int size) {
  const size_t bytes = std::min(text.size(), static_cast<size_t>(size));
  std::memcpy(out, text.data(), bytes);
  return static_cast<int>(bytes);
}

template <typename F>
F Function(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
}

// What a call costs, in nanoseconds: the least of several rounds, below `depth` native frames.
template <typename Call>
[[gnu::noinline]] double CostBelow(int depth, Call call) {
  double least = 1e18;
  if (depth > 0) {
    least = CostBelow(depth - 1, call);
    asm volatile("");  // no tail call: every level must have a frame
    return least;
  }
  constexpr int kRounds = 50, kCalls = 200;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
    least = std::min(least, spent.count() / kCalls);
  }
  return least;
}

}  // namespace

PROBE void ebt_test_initialize() { ebt::callsite::Initialize(&dlsym); }

// Writes the site as text and returns the bytes written.
PROBE int ebt_test_capture(char* out, int size) { return CopyOut(CaptureAsText(), out, size); }

PROBE uint64_t ebt_test_fingerprint() { return ebt::callsite::Fingerprint(); }

// Does not return: captures until the process ends.
PROBE void ebt_test_capture_for_ever() {
  for (;;) ebt::callsite::Capture();
}

PROBE double ebt_test_capture_cost(int depth) {
  return CostBelow(depth, [] { ebt::callsite::Capture(); });
}
PROBE double ebt_test_fingerprint_cost(int depth) {
  return CostBelow(depth, [] { ebt::callsite::Fingerprint(); });
}

// Whether a thread is in ebt_test_capture_beside_gil.
PROBE int ebt_test_waits_for_holder() { return g_waits_for_holder ? 1 : 0; }

PROBE void ebt_test_prepare_holder() { g_waits_for_holder = g_gil_is_held = g_captured = false; }

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

// Calls it on a thread that Python did not make.
PROBE void ebt_test_call_on_new_thread(void (*callback)()) { std::thread(callback).join(); }

PROBE void ebt_test_call_on_new_thread_twice(void (*callback)()) {
  std::thread([callback] {
    for (int i = 0; i < 2; ++i) callback();
  }).join();
}

// On a thread that Python did not make, captures before it is known to Python, while it is but
// has no frame, after the callback, and when Python has forgotten it. Four texts, each with a line
// of dashes after it.
PROBE int ebt_test_capture_around_callback(void (*callback)(), char* out, int size) {
  const auto ensure = Function<int (*)()>("PyGILState_Ensure");
  const auto release = Function<void (*)(int)>("PyGILState_Release");
  const auto save = Function<void* (*)()>("PyEval_SaveThread");
  const auto restore = Function<void (*)(void*)>("PyEval_RestoreThread");
  std::string texts;
  const auto capture = [&texts] { texts += CaptureAsText() + "--\n"; };
  std::thread([&] {
    capture();
    const int state = ensure();
    void* const thread = save();
    capture();
    callback();
    capture();
    restore(thread);
    release(state);
    capture();
  }).join();
  return CopyOut(texts, out, size);
}
