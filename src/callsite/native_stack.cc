#include "src/callsite/native_stack.h"

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <algorithm>

namespace ebt::callsite {

// unw_backtrace keeps, for each thread and pc, how to step over a frame, and walks with that
// alone: nanoseconds a frame where unw_step costs hundreds.
[[gnu::noinline]] int UnwindHere(std::span<void*> pcs) noexcept {
  const int found = unw_backtrace(pcs.data(), static_cast<int>(pcs.size()));
  constexpr int kLeftOut = 2;  // in this function, in its caller
  if (found <= kLeftOut) return 0;
  std::copy(pcs.begin() + kLeftOut, pcs.begin() + found, pcs.begin());
  return found - kLeftOut;
}

void ForgetUnwindCaches() noexcept { unw_flush_cache(unw_local_addr_space, 0, 0); }

}  // namespace ebt::callsite
