// The calling thread's native stack.
#ifndef EBBTIDE_SRC_CALLSITE_NATIVE_STACK_H_
#define EBBTIDE_SRC_CALLSITE_NATIVE_STACK_H_

#include <cstdint>
#include <span>

namespace ebt::callsite {

// Fills `pcs` with the return addresses of the present stack, innermost first and beginning
// with the one of this function's caller, which must not be inlined, and returns how many there
// are; 0 when nothing could be unwound. Allocates only on a thread's first call.
int UnwindHere(std::span<void*> pcs) noexcept;

// Modules were unloaded: what the unwinder remembers about their code is no longer true.
void ForgetUnwindCaches() noexcept;

}  // namespace ebt::callsite

#endif  // EBBTIDE_SRC_CALLSITE_NATIVE_STACK_H_
