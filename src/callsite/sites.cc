#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <new>

#include "src/callsite/callsite.h"
#include "src/callsite/id_cache.h"
#include "src/callsite/modules.h"
#include "src/callsite/native_stack.h"
#include "src/callsite/python_stack.h"
#include "src/callsite/site_table.h"
#include "src/callsite/stable_hash.h"

namespace ebt::callsite {
namespace {

constexpr size_t kMaxOwnFrames = 16;
constexpr size_t kMaxPythonFrames = 64;
// How many captures of a thread may pass before it looks whether anything was unloaded, which
// costs more than a capture. Until then a module that was loaded where another had been is
// taken for that other one.
constexpr uint32_t kCapturesPerUnloadCheck = 1024;

struct State {
  std::mutex mutex;  // serializes the table and the caches' writers
  SiteTable table;
  bool searched_libpython = false;
  IdCache stacks{size_t{1} << 12, size_t{1} << 20};  // raw stack to site
  IdCache names{size_t{1} << 10, size_t{1} << 18};   // Python instruction to fingerprint
};

// Never destroyed: threads capture until the process ends.
std::atomic<State*> g_state{nullptr};
std::atomic<const Interpreter*> g_interpreter{nullptr};
std::atomic<void* (*)(void*, const char*)> g_libc_dlsym{nullptr};
// Part of every key in State::stacks, so that a change forgets them all.
std::atomic<uint64_t> g_epoch{1};

State& TheState() {
  State* state = g_state.load(std::memory_order_acquire);
  if (state != nullptr) return *state;
  auto* fresh = new State;
  if (g_state.compare_exchange_strong(state, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;
  return *state;
}

void SearchInterpreter() {
  const auto libc_dlsym = g_libc_dlsym.load(std::memory_order_acquire);
  if (libc_dlsym == nullptr || g_interpreter.load(std::memory_order_acquire) != nullptr) return;
  const Interpreter* found = Interpreter::Search(libc_dlsym);
  const Interpreter* none = nullptr;
  if (found != nullptr) g_interpreter.compare_exchange_strong(none, found);
}

// A stack as it was found, without names.
struct RawStack {
  std::array<void*, SiteTable::kMaxNativeFrames + kMaxOwnFrames> pc;
  std::array<PythonFrame, kMaxPythonFrames> python;
  size_t native_count = 0, python_count = 0;
  const Interpreter* interpreter = nullptr;

  std::span<void* const> native() const { return {pc.data(), native_count}; }
  std::span<const PythonFrame> python_frames() const { return {python.data(), python_count}; }

  // Everything outside the innermost interpreter frame is told by the Python frames. False if that
  // frame is not among the native ones.
  bool LeaveOutInterpreter() noexcept {
    for (size_t i = 0; i < native_count; ++i) {
      if (interpreter->code().Holds(reinterpret_cast<uint64_t>(pc[i]))) {
        native_count = i;
        return true;
      }
    }
    return false;
  }

  uint64_t Key() const noexcept {
    uint64_t key = g_epoch.load(std::memory_order_relaxed);
    const auto word = [this](size_t i) { return reinterpret_cast<uint64_t>(pc[i]); };
    size_t i = 0;
    for (; i + 1 < native_count; i += 2) key = MixPair(key, word(i), word(i + 1));
    if (i < native_count) key = MixWord(key, word(i));
    for (const PythonFrame& frame : python_frames()) {
      key = MixPair(key, frame.FirstWord(), frame.SecondWord());
    }
    return key == 0 ? 1 : key;
  }
};

// How many frames to unwind on this thread before looking whether the interpreter is among them.
// Unwinding is most of what a capture costs, and what lies outside the interpreter is not wanted:
// few more than its stacks had lately.
class UnwindLimit {
 public:
  size_t Get() const noexcept { return limit_; }
  void Reached(size_t frames) noexcept {
    constexpr size_t kSpare = 8;
    // Shrinks slowly: unwinding a second time costs more than a few frames too many.
    limit_ = std::min(kMost, std::max(frames + kSpare, limit_ - 1));
  }
  void Missed() noexcept { limit_ = kMost; }

  static constexpr size_t kMost = SiteTable::kMaxNativeFrames + kMaxOwnFrames;

 private:
  size_t limit_ = 32;
};
thread_local UnwindLimit t_unwind_limit;

// Always inlined: UnwindHere leaves its caller's frame out, which has to be Capture's.
[[gnu::always_inline]] inline void Unwind(RawStack& stack) noexcept {
  if (stack.python_count > 0) {
    UnwindLimit& limit = t_unwind_limit;
    stack.native_count = static_cast<size_t>(UnwindHere(std::span(stack.pc).first(limit.Get())));
    if (stack.LeaveOutInterpreter()) {
      limit.Reached(stack.native_count);
      return;
    }
    limit.Missed();
  }
  stack.native_count = static_cast<size_t>(UnwindHere(stack.pc));
  if (stack.python_count > 0) stack.LeaveOutInterpreter();
}

// True if the caller must search for an interpreter; that is done without our lock, because it
// takes the loader's, which may be held by a thread that captures from within dlopen.
bool NoteModules(State& state) {
  if (state.table.RefreshModules()) {
    g_epoch.fetch_add(1, std::memory_order_relaxed);
    ForgetUnwindCaches();
  }
  if (state.searched_libpython || g_interpreter.load() != nullptr) return false;
  state.searched_libpython = state.table.HasLibpython();
  return state.searched_libpython;
}

void CheckUnloads(State& state) {
  thread_local uint32_t captures = 0;
  thread_local uint64_t unloads = 0;
  if (++captures % kCapturesPerUnloadCheck != 0) return;
  const uint64_t now = ModuleTable::UnloadsNow();
  if (now == unloads) return;
  unloads = now;
  std::lock_guard lock(state.mutex);
  NoteModules(state);
}

uint64_t InternNew(State& state, const RawStack& stack) {
  bool search = false;
  uint64_t id = 0;
  {
    std::lock_guard lock(state.mutex);
    search = NoteModules(state);
    id = state.table.Intern(stack.native(), stack.python_frames(), stack.interpreter);
    state.stacks.Insert(stack.Key(), id);
  }
  if (search) SearchInterpreter();
  return id;
}

}  // namespace

void Initialize(void* (*libc_dlsym)(void*, const char*)) {
  g_libc_dlsym.store(libc_dlsym, std::memory_order_release);
  TheState();
  SearchInterpreter();
}

[[gnu::noinline]] uint64_t Capture() noexcept {
  try {
    State& state = TheState();
    CheckUnloads(state);
    RawStack stack;
    stack.interpreter = g_interpreter.load(std::memory_order_acquire);
    if (stack.interpreter != nullptr) stack.python_count = stack.interpreter->Walk(stack.python);
    Unwind(stack);
    uint64_t id = 0;
    if (state.stacks.Find(stack.Key(), &id)) return id;
    return InternNew(state, stack);
  } catch (...) {
    return 0;  // no memory: the block goes without a site
  }
}

uint64_t Fingerprint() noexcept {
  const Interpreter* interpreter = g_interpreter.load(std::memory_order_acquire);
  if (interpreter == nullptr) return 0;
  PythonFrame frame;
  if (interpreter->Walk({&frame, 1}) == 0) return 0;
  uint64_t key = MixPair(0, frame.FirstWord(), frame.SecondWord());
  if (key == 0) key = 1;
  try {
    State& state = TheState();
    uint64_t name = 0;
    if (state.names.Find(key, &name)) return name;
    std::lock_guard lock(state.mutex);
    name = state.table.Name(frame, *interpreter);
    state.names.Insert(key, name);
    return name;
  } catch (...) {
    return 0;
  }
}

Site Lookup(uint64_t id) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  return state.table.Lookup(id);
}

std::vector<uint64_t> InternedSince(size_t& from) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  return state.table.InternedSince(from);
}

void AfterFork() noexcept {
  State* state = g_state.load(std::memory_order_acquire);
  if (state == nullptr) return;
  if (state->mutex.try_lock()) {
    state->mutex.unlock();
    return;
  }
  // Another thread was at work in it when the process forked, and will never finish: what it
  // left may be in pieces.
  g_state.store(new (std::nothrow) State, std::memory_order_release);
}

}  // namespace ebt::callsite
