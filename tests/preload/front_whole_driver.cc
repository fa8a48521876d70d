// A libcuda.so.1 that exports every function of the table and does nothing but count: the
// simulated driver has only what it can simulate. Its witness has the names of that driver's
// (simcuda.h), and SIMCUDA_LOG gets its requests for functions. It reports no device.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iterator>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kNoDevice = 100, kNotFound = 500;
constexpr int kRefused = 801;  // by every function that only counts

enum class Mode { kAny, kLegacy, kPerThread };

struct Row {
  const char* symbol;
  const char* base;
  int since;
  Mode mode;
  void* function;
  uint64_t calls;
};

uint64_t g_unlisted;

int Called(const char* symbol, const char* base, void** answer, int version, uint64_t flags,
           void* status);

}  // namespace

#define EBT_HOOK(symbol, base, since, mode, family, body, service)                                \
  EXPORT int symbol(const char* name, void** answer, int version, uint64_t flags, void* status) { \
    return Called(#symbol, name, answer, version, flags, status);                                 \
  }
#include "hooks/cuda_hooks.def"
#undef EBT_HOOK

EXPORT int cuInit(unsigned) { return kNoDevice; }
EXPORT int cuDriverGetVersion(int* version) {
  return version ? *version = 13000, kSuccess : kInvalidValue;
}
EXPORT int cuGetExportTable(const void** table, const void*) {
  if (table) *table = nullptr;
  return kNotFound;
}
// Whatever the table does not list.
EXPORT int cuUnlisted() { return ++g_unlisted, kRefused; }

namespace {

Row g_rows[] = {
#define EBT_HOOK(symbol, base, since, mode, family, body, service) \
  {#symbol, #base, since, Mode::mode, reinterpret_cast<void*>(&symbol), 0},
#include "hooks/cuda_hooks.def"
#undef EBT_HOOK
};

void Log(const char* symbol, const char* base, void** answer, int version, uint64_t flags) {
  const char* path = getenv("SIMCUDA_LOG");
  const int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
  if (file < 0) return;
  dprintf(file, "%s %s %p %d %llu (nil)\n", symbol, base, static_cast<void*>(answer), version,
          static_cast<unsigned long long>(flags));
  close(file);
}

// The youngest ABI that the version knows. A function without a variant for per-thread streams
// answers for both.
void* Find(const char* base, int version, bool per_thread) {
  if (strcmp(base, "cuInit") == 0) return reinterpret_cast<void*>(&cuInit);
  if (strcmp(base, "cuDriverGetVersion") == 0) return reinterpret_cast<void*>(&cuDriverGetVersion);
  if (strcmp(base, "cuGetExportTable") == 0) return reinterpret_cast<void*>(&cuGetExportTable);
  const Row* best = nullptr;
  bool listed = false;
  for (const Row& row : g_rows) {
    if (strcmp(row.base, base) != 0) continue;
    listed = true;
    if (row.since > version || (row.mode == Mode::kPerThread && !per_thread)) continue;
    const bool fits_better = best && row.since >= best->since && row.mode == Mode::kPerThread;
    if (!best || row.since > best->since || fits_better) best = &row;
  }
  if (best) return best->function;
  return listed ? nullptr : reinterpret_cast<void*>(&cuUnlisted);
}

int Called(const char* symbol, const char* base, void** answer, int version, uint64_t flags,
           void*) {
  for (Row& row : g_rows) row.calls += strcmp(row.symbol, symbol) == 0;
  if (strncmp(symbol, "cuGetProcAddress", 16) != 0) return kRefused;
  if (!base || !answer || flags > 2) return kInvalidValue;
  Log(symbol, base, answer, version, flags);
  *answer = *base ? Find(base, version, flags == 2) : nullptr;
  return *answer ? kSuccess : kNotFound;
}

}  // namespace

EXPORT uint64_t simcuda_call_count(const char* symbol) {
  const size_t length = strlen(symbol);
  const bool is_base = length > 0 && symbol[length - 1] == '*';
  uint64_t calls = 0;
  bool listed = false;
  for (const Row& row : g_rows) {
    const bool wanted =
        is_base ? strlen(row.base) + 1 == length && strncmp(row.base, symbol, length - 1) == 0
                : strcmp(row.symbol, symbol) == 0;
    listed |= wanted;
    if (wanted) calls += row.calls;
  }
  return listed ? calls : g_unlisted;
}

// Everything is refused already.
EXPORT int simcuda_set_faults(const char*) { return 1; }
