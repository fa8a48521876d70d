#include "hooks/resolve.h"

#include <dlfcn.h>
#include <string.h>

#include "hooks/libc_versions.h"

namespace ebt::front {

const Row* FindSymbol(const char* name) {
  for (const Row& row : kRows) {
    if (strcmp(row.symbol, name) == 0) return &row;
  }
  return nullptr;
}

namespace {

// CU_GET_PROC_ADDRESS_LEGACY_STREAM and _PER_THREAD_DEFAULT_STREAM; by number, since the first
// headers that know cuGetProcAddress lack the names.
constexpr cuuint64_t kLegacyFlag = 1, kPerThreadFlag = 2;

Mode AskedMode(cuuint64_t flags, Mode asked) {
  if (flags & kLegacyFlag) return Mode::kLegacy;
  if (flags & kPerThreadFlag) return Mode::kPerThread;
  return asked;
}

}  // namespace

// The row that stands for the driver's answer, NULL where none does.
const Row* RowOf(const char* base, void* answer, int version, Mode mode) {
  const Row* best = nullptr;
  const Row* same = nullptr;
  bool exported = false;
  for (const Row& row : kRows) {
    const int slot = static_cast<int>(&row - kRows);
    // The driver's answer is one of its own exported functions: that settles the ABI.
    const bool is_answer = g_real[slot] == answer;
    if (strcmp(row.base, base) != 0) {
      if (is_answer) same = &row;  // a new version of one name can be another name's export
      continue;
    }
    if (is_answer) return &row;
    exported |= g_exported[slot];
    const bool fits = row.since <= version && (row.mode == Mode::kAny || row.mode == mode);
    if (fits && (best == nullptr || row.since > best->since)) best = &row;
  }
  if (same != nullptr) return same;
  // Where the driver exports the function, another answer is an ABI younger than this table.
  if (best == nullptr || exported) return nullptr;
  // A function that the driver does not export: version and mode decide, and what the driver
  // answered is what the hook will call where the export is missing.
  SetRealIfMissing(static_cast<int>(best - kRows), answer);
  return best;
}

void* Replacement(const char* base, void* answer, int version, cuuint64_t flags, Mode asked,
                  Way way) {
  const Row* row = RowOf(base, answer, version, AskedMode(flags, asked));
  return row != nullptr && HandedOut(*row) ? EntryOf(static_cast<int>(row - kRows), way) : answer;
}

}  // namespace ebt::front

using ebt::front::EntryOf;
using ebt::front::FindSymbol;
using ebt::front::g_core;
using ebt::front::g_real;
using ebt::front::g_wanted;
using ebt::front::HandedOut;
using ebt::front::LibcDlsym;
using ebt::front::Ready;
using ebt::front::Row;

// What dlsym(handle, name) returns, or NULL where libc must answer as if we were not there.
extern "C" __attribute__((visibility("hidden"), used)) void* ebt_route_dlsym(void* handle,
                                                                             const char* name) {
  LibcDlsym();
  // Only the driver's names: cuDNN, cuBLAS and curl begin with "cu" too.
  if (!g_wanted || ebt::front::t_guard != 0 || handle == RTLD_DEFAULT || handle == RTLD_NEXT ||
      name == nullptr || name[0] != 'c' || name[1] != 'u' || name[2] < 'A' || name[2] > 'Z')
    return nullptr;
  const Row* row = FindSymbol(name);
  if (row == nullptr || !HandedOut(*row) || !Ready() ||
      (g_core == nullptr && !ebt::front::Loading()))
    return nullptr;
  // Somebody else's library may export the same name: only the driver's own is replaced.
  void* answer = LibcDlsym()(handle, name);
  const auto slot = static_cast<int>(row - ebt::front::kRows);
  return answer != nullptr && answer == g_real[slot] ? EntryOf(slot, ebt::front::kDlsym) : nullptr;
}

// glibc reads the return address to know who asks (RTLD_NEXT), so a forwarded call must be a
// jump. Nothing in C promises that.
#ifndef __x86_64__
#error "the dlsym trampoline is written for x86-64"
#endif
asm(R"(
  .text
  .globl dlsym
  .type dlsym, @function
dlsym:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call ebt_route_dlsym
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  testq %rax, %rax
  jz 1f
  ret
1:
  jmp *ebt_libc_dlsym(%rip)
  .cfi_endproc
  .size dlsym, .-dlsym
)");
