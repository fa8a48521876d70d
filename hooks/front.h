// The front's own state: what every hook body needs and nothing more. libc only.
#ifndef EBBTIDE_HOOKS_FRONT_H_
#define EBBTIDE_HOOKS_FRONT_H_

#include <cuda.h>

#include "hooks/core_api.h"

namespace ebt::front {

// One slot a row of the table.
enum class Slot : int {
#define EBT_HOOK(symbol, base, since, mode, family, body, service) symbol##_slot,
#include "hooks/cuda_hooks.def"
#undef EBT_HOOK
  kCount
};
inline constexpr int kSlots = static_cast<int>(Slot::kCount);

enum class Mode : unsigned char { kAny, kLegacy, kPerThread };

// The columns of the table that are data (cuda_hooks.def).
struct Row {
  const char* symbol;
  const char* base;
  int since;
  Mode mode;
  const char* family;
  ebt_service service;
};
extern const Row kRows[kSlots];

// How a program came by a function. Every row has an entry for each: the function that it is
// given, which counts the call where coverage is asked for and goes on to the row's body.
enum Way : int { kLinked, kDlsym, kProcAddressV1, kProcAddressV2, kWays };
void* EntryOf(int slot, Way way);

// Whether programs are to be given the entries of a row.
bool HandedOut(const Row& row);

// The driver's own functions, by slot; NULL where this driver has none. Filled once by Ready().
extern void* g_real[kSlots];
// Notes what the driver answered for a slot that it does not export; an earlier note stays.
void SetRealIfMissing(int slot, void* real);
// By slot: the driver exports the symbol.
extern bool g_exported[kSlots];

// The engine, NULL while there is nothing to tell it (mode off, not loaded, forked child).
extern const ebt_core* g_core;

extern __thread int t_guard __attribute__((tls_model("initial-exec")));

// libc's dlsym, found on first use.
using DlsymFn = void* (*)(void*, const char*);
extern "C" {
extern __attribute__((visibility("hidden"))) DlsymFn ebt_libc_dlsym;
// By slot: where its entries lead. By slot and way: how often, and whether that is counted.
extern __attribute__((visibility("hidden"))) void* ebt_target[kSlots];
extern __attribute__((visibility("hidden"))) uint64_t ebt_calls[kSlots][kWays];
extern __attribute__((visibility("hidden"))) unsigned char ebt_counting;
}
DlsymFn LibcDlsym();

// The environment asked for something. Set by the constructor, never changed.
extern bool g_wanted;

// Finds the driver and, when wanted, loads the core. True when the driver is there. Cheap once
// it has been called. False too while this very thread is in the midst of it.
bool Ready();

// The core is wanted and not there yet: hooks are handed out and forward meanwhile.
bool Loading();

// One line on stderr, made without stdio.
void Say(const char* text, const char* detail);

// Scope of one hook: says whether the core is to be told, and keeps everything that the call
// does inside from being seen a second time. Restores what was there before.
class Entry {
 public:
  Entry()
      : before_(t_guard),
        core(before_ == 0 ? __atomic_load_n(&g_core, __ATOMIC_ACQUIRE) : nullptr) {
    t_guard = 1;
  }
  ~Entry() { t_guard = before_; }
  // Hooks are to be handed out.
  bool wanted() const { return core != nullptr || (before_ == 0 && Loading()); }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  int before_;

 public:
  const ebt_core* const core;
};

// Copies that one call queues: core_api.h's `copies`.
struct Batch {
  const void* of;
  size_t count;
  void (*copy_at)(const void* of, size_t index, ebt_copy* out);
};

// Scope of one piece of work that is being queued: tells the core when the driver has it.
class Queuing {
 public:
  Queuing(const Entry& entry, const ebt_launch& launch)
      : core_(entry.core && entry.core->launch(&launch) ? entry.core : nullptr) {}
  Queuing(const Entry& entry, const ebt_copy& copy)
      : core_(entry.core && entry.core->copy(&copy) ? entry.core : nullptr) {}
  Queuing(const Entry& entry, const Batch& batch)
      : core_(entry.core && batch.count != 0 &&
                      entry.core->copies(batch.of, batch.count, batch.copy_at)
                  ? entry.core
                  : nullptr) {}
  ~Queuing() {
    if (core_) core_->touched();
  }
  Queuing(const Queuing&) = delete;
  Queuing& operator=(const Queuing&) = delete;

 private:
  const ebt_core* const core_;
};

// The address goes into what is called `what` ("a texture"): to be said before the driver's call.
inline void AddressTaken(const Entry& entry, CUdeviceptr address, const char* what) {
  if (entry.core && address)
    entry.core->lifecycle(EBT_ADDRESS_TAKEN, reinterpret_cast<void*>(address), what);
}

// The driver's function behind a body, NULL if there is none.
template <Slot slot, typename Function>
Function Real(Function) {
  if (!__atomic_load_n(&g_real[static_cast<int>(slot)], __ATOMIC_ACQUIRE)) Ready();
  return reinterpret_cast<Function>(
      __atomic_load_n(&g_real[static_cast<int>(slot)], __ATOMIC_ACQUIRE));
}

// What a call gets when it reached us but no driver is there.
inline constexpr CUresult kNoDriver = CUDA_ERROR_NOT_INITIALIZED;

// The stream as the core understands it (core_api.h).
template <Mode mode>
CUstream Normalized(CUstream stream) {
  return mode == Mode::kPerThread && stream == nullptr ? CU_STREAM_PER_THREAD : stream;
}

}  // namespace ebt::front

// First line of every body: `real` is the driver's function, `entry` the scope.
#define EBT_ENTER(Body)                            \
  const auto real = Real<slot>(&Body<slot, mode>); \
  if (real == nullptr) return kNoDriver;           \
  const Entry entry

#endif  // EBBTIDE_HOOKS_FRONT_H_
