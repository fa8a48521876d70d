#include "src/callsite/native_stack.h"

#define UNW_LOCAL_ONLY
#include <libunwind.h>

namespace ebt::callsite {

// unw_backtrace keeps, for each thread and pc, how to step over a frame, and walks with that
// alone: nanoseconds a frame where unw_step costs hundreds.
[[gnu::noinline]] int UnwindHere(std::span<void*> pcs) noexcept {
  const int found = unw_backtrace(pcs.data(), static_cast<int>(pcs.size()));
  if (found <= 1) return 0;
  // The first is in this function.
  for (int i = 1; i < found; ++i) pcs[static_cast<size_t>(i) - 1] = pcs[static_cast<size_t>(i)];
  return found - 1;
}

void ForgetUnwindCaches() noexcept { unw_flush_cache(unw_local_addr_space, 0, 0); }

}  // namespace ebt::callsite
