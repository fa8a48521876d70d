// Counts the CUDA calls of a process through CUPTI, to be held against what Ebbtide counts. It
// shares nothing with Ebbtide; all it knows of it are the names of its two libraries. No part of
// the product: scripts/bench/coverage builds it on the machine with the GPU.
//
//   CUDA_INJECTION64_PATH=libwitness.so   the driver loads it within cuInit
//   WITNESS_OUT=FILE                      JSON, written at exit; {pid} is filled in
//   WITNESS_CUPTI=FILE                    the libcupti to use; default: libcupti.so.13
//
// {"pid": N, "ended": true, "walked": N, "scanned": N,
//  "driver": {"cuMemAlloc_v2": {"program": [N, N], "own": [N, N], "empty": N}, ...},
//  "runtime": {...}}
//
// "own" are Ebbtide's own calls, told by who called the driver. Of each pair the first number is
// that of the moment when exit handlers began, the second the last: with what the program's and
// its libraries' exit handlers call, the two differ. "empty" are those of the program's calls that
// failed or freed a null pointer. Calls before cuInit are not seen, nor those after the driver's
// own end.
#include <cupti.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#include <atomic>
#include <initializer_list>

namespace {

constexpr uint32_t kMostFunctions = 4096;  // CUPTI 13.0 knows 807 and 523
constexpr int kMostFrames = 24;
constexpr size_t kMostWords = 2048;  // of a stack that cannot be walked

enum Caller { kProgram, kOwn, kCallers };

struct Function {
  const char* name = nullptr;
  std::atomic<uint64_t> calls[kCallers];
  uint64_t calls_before_exit[kCallers];
  std::atomic<uint64_t> empty;
};

Function g_driver[kMostFunctions];
Function g_runtime[kMostFunctions];
std::atomic<uint64_t> g_walked, g_scanned;
char g_file[4096];
std::atomic<bool> g_silent{true};
std::atomic<bool> g_ending{false};
const link_map* g_self;

// --- who called

enum class Side { kDriver, kFront, kCore, kOther };

const char* BaseName(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

bool Begins(const char* text, const char* with) { return strncmp(text, with, strlen(with)) == 0; }

Side SideOf(const dl_find_object& object) {
  if (object.dlfo_link_map == g_self) return Side::kDriver;
  const char* name = BaseName(object.dlfo_link_map->l_name);
  for (const char* driver :
       {"libcuda.so", "libcupti.so", "libcudadebugger.so", "libnvidia-", "libnvperf"}) {
    if (Begins(name, driver)) return Side::kDriver;
  }
  if (Begins(name, "libebbtide-core.so")) return Side::kCore;
  return Begins(name, "libebbtide.so") ? Side::kFront : Side::kOther;
}

struct Walk {
  int frames = 0;
  bool arrived = false;  // behind the frames of driver, CUPTI and code that is in no file
  Side side = Side::kOther;
  uintptr_t above = 0;  // where the last frame's caller has its own
};

_Unwind_Reason_Code Visit(_Unwind_Context* context, void* argument) {
  auto* walk = static_cast<Walk*>(argument);
  const uintptr_t address = _Unwind_GetIP(context);
  if (address == 0 || ++walk->frames > kMostFrames) return _URC_END_OF_STACK;
  dl_find_object object;
  // Code that is in no file may be CUPTI's as well as the program's: who called it decides.
  walk->side = _dl_find_object(reinterpret_cast<void*>(address - 1), &object) == 0 ? SideOf(object)
                                                                                   : Side::kDriver;
  walk->above = _Unwind_GetCFA(context);
  walk->arrived = walk->side != Side::kDriver;
  return walk->arrived ? _URC_END_OF_STACK : _URC_NO_REASON;
}

bool IsCode(uintptr_t address, const dl_find_object& object) {
  const auto start = reinterpret_cast<uintptr_t>(object.dlfo_map_start);
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(start);
  const auto* segments = reinterpret_cast<const ElfW(Phdr)*>(start + header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i) {
    const uintptr_t first = object.dlfo_link_map->l_addr + segments[i].p_vaddr;
    if (segments[i].p_type == PT_LOAD && (segments[i].p_flags & PF_X) != 0 &&
        address >= first + 8 && address < first + segments[i].p_memsz) {
      return true;
    }
  }
  return false;
}

// e8 rel32, or ff /2 in the lengths that compilers use.
bool IsBehindCall(uintptr_t address) {
  const auto* code = reinterpret_cast<const uint8_t*>(address);
  if (code[-5] == 0xe8) return true;
  for (int length : {2, 3, 4, 6, 7}) {
    if (code[-length] == 0xff && (code[1 - length] & 0x38) == 0x10) return true;
  }
  return false;
}

uintptr_t EndOfStack() {
  thread_local uintptr_t end = 0;
  pthread_attr_t attributes;
  if (end == 0 && pthread_getattr_np(pthread_self(), &attributes) == 0) {
    void* start = nullptr;
    size_t bytes = 0;
    pthread_attr_getstack(&attributes, &start, &bytes);
    pthread_attr_destroy(&attributes);
    end = reinterpret_cast<uintptr_t>(start) + bytes;
  }
  return end;
}

// For frames that have no unwind tables: whichever of Ebbtide's libraries is returned to first.
// Stale words can deceive it, so "scanned" says how often it was needed.
Side ScanStack(uintptr_t from) {
  const uintptr_t end = EndOfStack();
  const auto* words = reinterpret_cast<const uintptr_t*>(from & ~uintptr_t{7});
  for (size_t i = 0; i < kMostWords && reinterpret_cast<uintptr_t>(words + i + 1) <= end; ++i) {
    dl_find_object object;
    if (words[i] < 4096 || _dl_find_object(reinterpret_cast<void*>(words[i]), &object) != 0) {
      continue;
    }
    const Side side = SideOf(object);
    if ((side == Side::kFront || side == Side::kCore) && IsCode(words[i], object) &&
        IsBehindCall(words[i])) {
      return side;
    }
  }
  return Side::kOther;
}

Caller CallerOfDriver() {
  Walk walk;
  _Unwind_Backtrace(&Visit, &walk);
  if (!walk.arrived) {
    g_scanned.fetch_add(1, std::memory_order_relaxed);
    walk.side = ScanStack(walk.above);
  } else {
    g_walked.fetch_add(1, std::memory_order_relaxed);
  }
  return walk.side == Side::kCore ? kOwn : kProgram;
}

bool FreesNothing(const Function& function, const void* parameters) {
  return function.name && parameters && Begins(function.name, "cuMemFree") &&
         !Begins(function.name, "cuMemFreeHost") && *static_cast<const uint64_t*>(parameters) == 0;
}

void Entered(Function& function, const void* parameters) {
  const Caller caller = CallerOfDriver();
  function.calls[caller].fetch_add(1, std::memory_order_relaxed);
  if (caller == kProgram && FreesNothing(function, parameters)) {
    function.empty.fetch_add(1, std::memory_order_relaxed);
  }
}

void Left(Function& function, const void* result) {
  if (result && *static_cast<const int*>(result) != 0 && CallerOfDriver() == kProgram) {
    function.empty.fetch_add(1, std::memory_order_relaxed);
  }
}

void CUPTIAPI Called(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  if (id >= kMostFunctions) return;
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  const bool entered = call.callbackSite == CUPTI_API_ENTER;
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    if (entered) {
      Entered(g_driver[id], call.functionParams);
    } else {
      Left(g_driver[id], call.functionReturnValue);
    }
  } else if (domain == CUPTI_CB_DOMAIN_RUNTIME_API && entered) {
    g_runtime[id].calls[kProgram].fetch_add(1, std::memory_order_relaxed);
  }
}

// --- what is written

void WriteFunctions(FILE* file, const char* key, const Function* functions) {
  fprintf(file, ",\n \"%s\": {", key);
  const char* comma = "";
  for (const Function* f = functions; f != functions + kMostFunctions; ++f) {
    const uint64_t program = f->calls[kProgram].load(std::memory_order_relaxed);
    const uint64_t own = f->calls[kOwn].load(std::memory_order_relaxed);
    if (program + own == 0) continue;
    fprintf(file, "%s\n  ", comma);
    if (f->name) {
      fprintf(file, "\"%s\"", f->name);
    } else {
      fprintf(file, "\"%s#%td\"", key, f - functions);
    }
    fprintf(file, ": {\"program\": [%lu, %lu], \"own\": [%lu, %lu], \"empty\": %lu}",
            f->calls_before_exit[kProgram], program, f->calls_before_exit[kOwn], own,
            f->empty.load(std::memory_order_relaxed));
    comma = ",";
  }
  fputs("}", file);
}

// A reader finds either the file of before or this one, whole.
void Write(bool ended) {
  if (g_silent.load(std::memory_order_relaxed)) return;
  char beside[sizeof g_file + 8];
  snprintf(beside, sizeof beside, "%s.tmp", g_file);
  FILE* file = fopen(beside, "we");
  if (!file) {
    dprintf(STDERR_FILENO, "witness: %s cannot be written\n", beside);
    return;
  }
  fprintf(file, "{\"pid\": %d, \"ended\": %s, \"walked\": %lu, \"scanned\": %lu", getpid(),
          ended ? "true" : "false", g_walked.load(), g_scanned.load());
  WriteFunctions(file, "driver", g_driver);
  WriteFunctions(file, "runtime", g_runtime);
  fputs("\n}\n", file);
  if (fclose(file) != 0 || rename(beside, g_file) != 0) {
    dprintf(STDERR_FILENO, "witness: %s cannot be written\n", g_file);
  }
}

void Snapshot(Function* functions) {
  for (Function* f = functions; f != functions + kMostFunctions; ++f) {
    for (int caller = 0; caller < kCallers; ++caller) {
      f->calls_before_exit[caller] = f->calls[caller].load(std::memory_order_relaxed);
    }
  }
}

void ExitBegan() {
  if (g_ending.exchange(true)) return;
  Snapshot(g_driver);
  Snapshot(g_runtime);
  Write(false);
}

__attribute__((destructor)) void ExitEnds() {
  if (g_ending.load()) Write(true);
}

// A forked child has its parent's counts and no CUDA of its own.
void ForkedChild() { g_silent.store(true); }

// --- how it begins

void FillIn(const char* pattern) {
  const char* pid = strstr(pattern, "{pid}");
  const int before = pid ? static_cast<int>(pid - pattern) : static_cast<int>(strlen(pattern));
  snprintf(g_file, sizeof g_file, "%.*s", before, pattern);
  if (!pid) return;
  const size_t used = strlen(g_file);
  snprintf(g_file + used, sizeof g_file - used, "%d%s", getpid(), pid + strlen("{pid}"));
}

int Failed(const char* what, int code) {
  dprintf(STDERR_FILENO, "witness: %s failed (%d): nothing is counted\n", what, code);
  return 0;
}

template <typename Call>
bool Find(void* library, const char* name, Call* call) {
  *call = reinterpret_cast<Call>(dlsym(library, name));
  return *call != nullptr;
}

// What the frameworks have loaded already is taken again: one process has one CUPTI.
void* OpenCupti() {
  if (void* loaded = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD)) return loaded;
  const char* named = getenv("WITNESS_CUPTI");
  return dlopen(named && *named ? named : "libcupti.so.13", RTLD_NOW);
}

int Begin() {
  const char* pattern = getenv("WITNESS_OUT");
  if (!pattern || !*pattern) return 1;
  void* cupti = OpenCupti();
  if (!cupti) {
    dprintf(STDERR_FILENO, "witness: %s\n", dlerror());
    return 0;
  }
  decltype(&cuptiSubscribe) subscribe;
  decltype(&cuptiEnableDomain) enable;
  decltype(&cuptiGetCallbackName) name_of;
  if (!Find(cupti, "cuptiSubscribe", &subscribe) || !Find(cupti, "cuptiEnableDomain", &enable) ||
      !Find(cupti, "cuptiGetCallbackName", &name_of)) {
    return Failed("dlsym", 0);
  }
  dl_find_object self;
  if (_dl_find_object(reinterpret_cast<void*>(&Begin), &self) == 0) g_self = self.dlfo_link_map;
  for (uint32_t id = 1; id < kMostFunctions; ++id) {
    if (name_of(CUPTI_CB_DOMAIN_DRIVER_API, id, &g_driver[id].name) != CUPTI_SUCCESS) {
      g_driver[id].name = nullptr;
    }
    if (name_of(CUPTI_CB_DOMAIN_RUNTIME_API, id, &g_runtime[id].name) != CUPTI_SUCCESS) {
      g_runtime[id].name = nullptr;
    }
  }
  CUpti_SubscriberHandle subscriber;
  CUptiResult result = subscribe(&subscriber, &Called, nullptr);
  if (result != CUPTI_SUCCESS) return Failed("cuptiSubscribe", result);
  for (CUpti_CallbackDomain domain : {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API}) {
    result = enable(1, subscriber, domain);
    if (result != CUPTI_SUCCESS) return Failed("cuptiEnableDomain", result);
  }
  FillIn(pattern);
  g_silent.store(false);
  pthread_atfork(nullptr, nullptr, &ForkedChild);
  atexit(&ExitBegan);
  return 1;
}

}  // namespace

// What the driver calls, once a process.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  static std::atomic<bool> begun{false};
  return begun.exchange(true) ? 1 : Begin();
}
