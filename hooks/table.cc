// The table, expanded: every body instantiated, every symbol exported, every call counted.
#include "hooks/alloc.h"
#include "hooks/array.h"
#include "hooks/async.h"
#include "hooks/batch.h"
#include "hooks/context.h"
#include "hooks/copy.h"
#include "hooks/front.h"
#include "hooks/graph.h"
#include "hooks/launch.h"
#include "hooks/node.h"
#include "hooks/query.h"
#include "hooks/resolve.h"
#include "hooks/tensor.h"
#include "hooks/value.h"
#include "hooks/vmm.h"

namespace ebt::front {

const Row kRows[kSlots] = {
#define EBT_HOOK(symbol, base, since, mode, family, body, service) \
  {#symbol, #base, since, Mode::mode, #family, ebt_service::service},
#include "hooks/cuda_hooks.def"
#undef EBT_HOOK
};

namespace {

extern "C" void ebt_lazy();

// Rows that are only counted have no body: their entries lead to the driver, at first by way of
// whatever finds it.
template <Slot slot, Mode mode>
constexpr auto Counted = &ebt_lazy;

}  // namespace
}  // namespace ebt::front

extern "C" {
void* ebt_target[ebt::front::kSlots] = {
#define EBT_HOOK(symbol, base, since, mode, family, body, service) \
  reinterpret_cast<void*>(                                         \
      ebt::front::body<ebt::front::Slot::symbol##_slot, ebt::front::Mode::mode>),
#include "hooks/cuda_hooks.def"
#undef EBT_HOOK
};
uint64_t ebt_calls[ebt::front::kSlots][ebt::front::kWays];
unsigned char ebt_counting;
extern __attribute__((visibility("hidden"))) char ebt_entries[];

// What a row that is only counted calls, found while a call of it waits.
__attribute__((visibility("hidden"), used)) void* ebt_find_target(int slot) {
  ebt::front::Ready();
  void* real = __atomic_load_n(&ebt::front::g_real[slot], __ATOMIC_ACQUIRE);
  return real ? real : reinterpret_cast<void*>(+[] { return ebt::front::kNoDriver; });
}
}

namespace ebt::front {

constexpr int kEntryBytes = 32;

void* EntryOf(int slot, Way way) { return ebt_entries + kEntryBytes * (slot * kWays + way); }

bool HandedOut(const Row& row) { return row.service != kCounted || ebt_counting != 0; }

}  // namespace ebt::front

// The entries: assembly, since cuda.h declares many of the exported names with the signature of
// another version, or as macros, and since a row that is only counted needs no signature at all.
#define EBT_ENTRY(way)                            \
  "  .p2align 5\n"                                \
  "  endbr64\n"                                   \
  "  movl $ebt_slot, %eax\n"                      \
  "  cmpb $0, ebt_counting(%rip)\n"               \
  "  je 1f\n"                                     \
  "  lock incq ebt_calls + 8*(4*ebt_slot + " #way \
  ")(%rip)\n"                                     \
  "1:\n"                                          \
  "  jmp *(ebt_target + 8*ebt_slot)(%rip)\n"
#define EBT_HOOK(symbol, base, since, mode, family, body, service)                      \
  "  .globl " #symbol "\n  .type " #symbol ", @function\n  .p2align 5\n" #symbol        \
  ":\n" EBT_ENTRY(0) "  .size " #symbol ", . - " #symbol "\n" EBT_ENTRY(1) EBT_ENTRY(2) \
      EBT_ENTRY(3) "  .set ebt_slot, ebt_slot + 1\n"
static_assert(ebt::front::kWays == 4 && ebt::front::kEntryBytes == 32,
              "the entries are laid out for this");
// clang-format off
asm(
    "  .text\n"
    "  .p2align 5\n"
    "  .hidden ebt_entries\n"
    "ebt_entries:\n"
    "  .set ebt_slot, 0\n"
#include "hooks/cuda_hooks.def"
    // Keeps everything that may carry an argument, and goes on to what it finds.
    R"(
  .p2align 5
  .globl ebt_lazy
  .hidden ebt_lazy
  .type ebt_lazy, @function
ebt_lazy:
  .cfi_startproc
  endbr64
  pushq %rbp
  .cfi_adjust_cfa_offset 8
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  subq $192, %rsp
  andq $-16, %rsp
  movq %rdi, (%rsp)
  movq %rsi, 8(%rsp)
  movq %rdx, 16(%rsp)
  movq %rcx, 24(%rsp)
  movq %r8, 32(%rsp)
  movq %r9, 40(%rsp)
  movups %xmm0, 48(%rsp)
  movups %xmm1, 64(%rsp)
  movups %xmm2, 80(%rsp)
  movups %xmm3, 96(%rsp)
  movups %xmm4, 112(%rsp)
  movups %xmm5, 128(%rsp)
  movups %xmm6, 144(%rsp)
  movups %xmm7, 160(%rsp)
  movl %eax, %edi
  call ebt_find_target
  movq %rax, %r11
  movq (%rsp), %rdi
  movq 8(%rsp), %rsi
  movq 16(%rsp), %rdx
  movq 24(%rsp), %rcx
  movq 32(%rsp), %r8
  movq 40(%rsp), %r9
  movups 48(%rsp), %xmm0
  movups 64(%rsp), %xmm1
  movups 80(%rsp), %xmm2
  movups 96(%rsp), %xmm3
  movups 112(%rsp), %xmm4
  movups 128(%rsp), %xmm5
  movups 144(%rsp), %xmm6
  movups 160(%rsp), %xmm7
  leave
  .cfi_def_cfa %rsp, 8
  jmp *%r11
  .cfi_endproc
  .size ebt_lazy, . - ebt_lazy
)");
// clang-format on
#undef EBT_HOOK
#undef EBT_ENTRY
