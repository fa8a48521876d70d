#include "src/callsite/native_stack.h"

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <algorithm>

namespace ebt::callsite {

// unw_backtrace keeps, for each thread and pc, how to step over a frame, and walks with that
// alone: nanoseconds a frame where unw_step costs hundreds. ThreadSanitizer must go the slow way:
// libunwind frees a thread's memory in the last round of destructors and locks a mutex for it,
// when the sanitizer's own state of that thread is gone.
[[gnu::noinline]] int UnwindHere(std::span<void*> pcs) noexcept {
#ifdef __SANITIZE_THREAD__
  int found = 0;
  unw_context_t context;
  unw_cursor_t cursor;
  if (unw_getcontext(&context) != 0 || unw_init_local(&cursor, &context) != 0) return 0;
  do {
    unw_word_t pc = 0;
    if (unw_get_reg(&cursor, UNW_REG_IP, &pc) != 0 || pc == 0) break;
    pcs[static_cast<size_t>(found++)] = reinterpret_cast<void*>(pc);
  } while (static_cast<size_t>(found) < pcs.size() && unw_step(&cursor) > 0);
#else
  const int found = unw_backtrace(pcs.data(), static_cast<int>(pcs.size()));
#endif
  constexpr int kLeftOut = 2;  // in this function, in its caller
  if (found <= kLeftOut) return 0;
  std::copy(pcs.begin() + kLeftOut, pcs.begin() + found, pcs.begin());
  return found - kLeftOut;
}

void ForgetUnwindCaches() noexcept { unw_flush_cache(unw_local_addr_space, 0, 0); }

}  // namespace ebt::callsite
