#include "hooks/front.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ebbtide/ebbtide.h"
#include "hooks/libc_versions.h"
#include "hooks/resolve.h"

namespace ebt::front {

void* g_real[kSlots];
bool g_exported[kSlots];
const ebt_core* g_core;
bool g_wanted;
__thread int t_guard;

namespace {

enum Progress : int { kUntouched, kUnderWay, kDone };
int g_progress = kUntouched;
__thread bool t_under_way __attribute__((tls_model("initial-exec")));
void* g_driver;

void* RealFunction(const char* symbol) { return LibcDlsym()(g_driver, symbol); }
int* Guard() { return &t_guard; }

int RowCalls(int row, ebt_row_calls* out) {
  if (row < 0 || row >= kSlots) return 0;
  const auto calls = [row](Way way) {
    return __atomic_load_n(&ebt_calls[row][way], __ATOMIC_RELAXED);
  };
  *out = {kRows[row].symbol, kRows[row].family,     kRows[row].service,   calls(kLinked),
          calls(kDlsym),     calls(kProcAddressV1), calls(kProcAddressV2)};
  return 1;
}

const ebt_front kFront = {EBT_CORE_ABI, sizeof(ebt_front), &RealFunction,
                          // The core looks Python's functions up with it, never the driver's.
                          [](void* handle, const char* name) { return LibcDlsym()(handle, name); },
                          &Guard, &RowCalls};

// "<folder of this library>/libebbtide-core.so" into path.
bool CorePath(char* path, size_t size) {
  static const char kName[] = "libebbtide-core.so";
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&CorePath), &info) || !info.dli_fname) return false;
  const char* slash = strrchr(info.dli_fname, '/');
  const size_t folder = slash ? static_cast<size_t>(slash - info.dli_fname) + 1 : 0;
  if (folder + sizeof(kName) > size) return false;
  memcpy(path, info.dli_fname, folder);
  memcpy(path + folder, kName, sizeof(kName));
  return true;
}

void LoadCore() {
  char path[4096];
  if (!CorePath(path, sizeof(path))) return Say("the engine's folder is not known", nullptr);
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return Say("the engine cannot be loaded, the program runs without Ebbtide", dlerror());
  const auto open = reinterpret_cast<ebt_core_open_fn>(LibcDlsym()(handle, "ebt_core_open"));
  const ebt_core* core = open ? open(&kFront) : nullptr;
  if (!open || (core && core->abi != EBT_CORE_ABI))
    return Say(
        "the engine beside this library is of another version, the program runs without "
        "Ebbtide",
        path);
  if (!core || !core->active) return;
  __atomic_store_n(&g_core, core, __ATOMIC_RELEASE);
}

// Two threads may do this at once: both find the same.
bool FindDriver() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!driver) return false;
  __atomic_store_n(&g_driver, driver, __ATOMIC_RELEASE);
  for (int i = 0; i < kSlots; ++i) {
    void* real = RealFunction(kRows[i].symbol);
    g_exported[i] = real != nullptr;
    __atomic_store_n(&g_real[i], real, __ATOMIC_RELEASE);
    if (real && kRows[i].service == kCounted)
      __atomic_store_n(&ebt_target[i], real, __ATOMIC_RELEASE);
  }
  return true;
}

// Nothing of ours may run in a child: the engine's threads and the context stayed behind.
void InChild() {
  const ebt_core* core = g_core;
  __atomic_store_n(&g_core, static_cast<const ebt_core*>(nullptr), __ATOMIC_RELEASE);
  // One that is itself the first to use the driver is a process like any other.
  if (g_progress != kUntouched) ebt_counting = 0;
  if (core) core->forked();
}

// A library that passes us by can be all that uses the driver: its process is to be told of too.
void BeforeEnd() {
  if (ebt_counting != 0 && dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)) Ready();
}

// torch reads this in a static initializer, long before the core is there.
void AskTorchForStreamOrder() {
  const char* backend = getenv("EBBTIDE_TORCH_BACKEND");
  if (backend && *backend && strcmp(backend, "async") != 0) return;
  if (getenv("PYTORCH_ALLOC_CONF")) return;
  setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", 0);
}

constexpr const char* kVariables[] = {
#define EBT_ENV(name, default_value, meaning) name,
#include "src/base/env_vars.def"
#undef EBT_ENV
};

// "NAME=value" of the environment: is NAME one of ours?
bool IsKnownVariable(const char* entry) {
  for (const char* name : kVariables) {
    const size_t length = strlen(name);
    if (strncmp(entry, name, length) == 0 && entry[length] == '=') return true;
  }
  return false;
}

// One line, and none from the processes that this one starts.
void StayOut(const char* why, const char* detail) {
  Say(why, detail);
  static char off[] = "EBBTIDE_MODE=off";
  for (char** entry = environ; entry && *entry; ++entry) {
    // Not by setenv: a shell has its own, whose variables are then read from here anew.
    if (strncmp(*entry, off, sizeof("EBBTIDE_MODE=") - 1) == 0) {
      *entry = off;
      return;
    }
  }
  setenv("EBBTIDE_MODE", "off", 1);
}

bool IsActive() {
  const char* mode = getenv("EBBTIDE_MODE");
  return mode && (strcasecmp(mode, "record") == 0 || strcasecmp(mode, "replay") == 0);
}

bool IsSet(const char* name) {
  const char* value = getenv(name);
  return value && *value;
}

// EBBTIDE_MODE=record or replay, or coverage. The core says what it makes of the other variables;
// here is only what would keep it from ever being loaded.
bool IsWanted() {
  if (IsActive()) return true;
  const char* mode = getenv("EBBTIDE_MODE");
  if (mode && *mode) {
    if (strcasecmp(mode, "off") != 0) {
      StayOut("EBBTIDE_MODE is off, record or replay; the program runs without Ebbtide", mode);
      return false;
    }
  }
  if (IsSet("EBBTIDE_COVERAGE")) return true;
  if (mode && *mode) return false;
  for (char** entry = environ; entry && *entry; ++entry) {
    if (strncmp(*entry, "EBBTIDE_", 8) != 0 || IsKnownVariable(*entry)) continue;
    StayOut(
        "EBBTIDE_MODE is not set, and this is no variable of Ebbtide (`ebbtide env` lists "
        "them); the program runs without it",
        *entry);
    return false;
  }
  return false;
}

__attribute__((constructor)) void Begin() {
  LibcDlsym();
  g_wanted = IsWanted();
  if (!g_wanted) return;
  ebt_counting = IsSet("EBBTIDE_COVERAGE");
  if (ebt_counting != 0) atexit(&BeforeEnd);
  if (IsActive()) AskTorchForStreamOrder();
  pthread_atfork(nullptr, nullptr, &InChild);
}

}  // namespace

DlsymFn ebt_libc_dlsym;

void SetRealIfMissing(int slot, void* real) {
  void* missing = nullptr;
  __atomic_compare_exchange_n(&g_real[slot], &missing, real, false, __ATOMIC_ACQ_REL,
                              __ATOMIC_ACQUIRE);
  if (kRows[slot].service == kCounted)
    __atomic_store_n(&ebt_target[slot], __atomic_load_n(&g_real[slot], __ATOMIC_ACQUIRE),
                     __ATOMIC_RELEASE);
}

DlsymFn LibcDlsym() {
  if (!ebt_libc_dlsym) {
    void* found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (!found) found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    ebt_libc_dlsym = reinterpret_cast<DlsymFn>(found);
  }
  return ebt_libc_dlsym;
}

bool Ready() {
  if (__atomic_load_n(&g_progress, __ATOMIC_ACQUIRE) == kDone) return g_driver != nullptr;
  if (t_under_way) return false;
  int untouched = kUntouched;
  if (!__atomic_compare_exchange_n(&g_progress, &untouched, kUnderWay, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE)) {
    // The other thread may be waiting for the loader's lock, and this one hold it: inside the
    // constructor of a library that uses the driver. So the wait has an end.
    for (int i = 0; i < 10'000; ++i) {
      if (__atomic_load_n(&g_progress, __ATOMIC_ACQUIRE) == kDone) return g_driver != nullptr;
      usleep(100);
    }
    return FindDriver();
  }
  const int guard = t_guard;
  t_under_way = true;
  t_guard = 1;
  if (FindDriver() && g_wanted) LoadCore();
  t_guard = guard;
  t_under_way = false;
  __atomic_store_n(&g_progress, kDone, __ATOMIC_RELEASE);
  return g_driver != nullptr;
}

bool Loading() { return g_wanted && __atomic_load_n(&g_progress, __ATOMIC_ACQUIRE) == kUnderWay; }

void Say(const char* text, const char* detail) {
  char line[1024] = "ebbtide: ";
  size_t used = strlen(line);
  const auto append = [&](const char* piece) {
    const size_t room = sizeof(line) - 1 - used;
    const size_t length = strnlen(piece, room);
    for (size_t i = 0; i < length; ++i) {
      // A variable may hold a line break; a message is one line all the same.
      const bool control = static_cast<unsigned char>(piece[i]) < 0x20 || piece[i] == 0x7f;
      line[used++] = control ? ' ' : piece[i];
    }
  };
  append(text);
  if (detail) {
    append(": ");
    append(detail);
  }
  line[used++] = '\n';
  if (write(STDERR_FILENO, line, used) < 0) return;
}

}  // namespace ebt::front

// The C API of ebbtide.h.
using ebt::front::Entry;

extern "C" {
__attribute__((visibility("default"))) const char* ebbtide_version(void) { return EBBTIDE_VERSION; }
__attribute__((visibility("default"))) void ebbtide_step(void) {
  const Entry entry;
  if (entry.core) entry.core->mark(EBT_MARK_STEP, nullptr);
}
__attribute__((visibility("default"))) void ebbtide_phase(const char* name) {
  const Entry entry;
  if (entry.core && name) entry.core->mark(EBT_MARK_PHASE, name);
}
__attribute__((visibility("default"))) int ebbtide_get_statistics(ebbtide_statistics* out,
                                                                  size_t size) {
  if (!out) return 1;
  memset(out, 0, size);
  const Entry entry;
  return entry.core ? entry.core->statistics(out, size) : 1;
}
}
