// Finds the driver at run time, in the ways that programs do. Its first argument says what it is
// to do; see main.
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>

#include "tests/preload/front_program.h"

namespace {

using ProcAddress1 = CUresult (*)(const char*, void**, int, cuuint64_t);
using ProcAddress2 = CUresult (*)(const char*, void**, int, cuuint64_t, void*);

void* g_handle;
ProcAddress1 g_proc1;
ProcAddress2 g_proc2;
int g_version = 12000;
cuuint64_t g_flags;

void* ByHandle(const char* symbol, const char*) { return dlsym(g_handle, symbol); }
void* ByDefault(const char* symbol, const char*) { return dlsym(RTLD_DEFAULT, symbol); }
void* ByNext(const char* symbol, const char*) { return dlsym(RTLD_NEXT, symbol); }

// As a program that is compiled for per-thread default streams: their variant where there is one.
void* ByPerThreadName(const char* symbol, const char*) {
  for (const char* suffix : {"_ptsz", "_ptds"}) {
    char name[64];
    snprintf(name, sizeof(name), "%s%s", symbol, suffix);
    if (void* found = dlsym(g_handle, name)) return found;
  }
  return dlsym(g_handle, symbol);
}

void* ByProcAddress1(const char*, const char* base) {
  void* found = nullptr;
  return g_proc1(base, &found, g_version, g_flags) == CUDA_SUCCESS ? found : nullptr;
}

// The way of the CUDA runtime: no status is asked for.
void* ByProcAddress2(const char*, const char* base) {
  void* found = nullptr;
  return g_proc2(base, &found, g_version, g_flags, nullptr) == CUDA_SUCCESS ? found : nullptr;
}

// cuGetProcAddress asked for itself: at 11030 it has four parameters, at 12000 five.
Find ByItsOwnAnswer() {
  if (g_version < 12000) {
    g_proc1 = reinterpret_cast<ProcAddress1>(ByProcAddress2(nullptr, "cuGetProcAddress"));
    return g_proc1 ? &ByProcAddress1 : nullptr;
  }
  g_proc2 = reinterpret_cast<ProcAddress2>(ByProcAddress2(nullptr, "cuGetProcAddress"));
  return g_proc2 ? &ByProcAddress2 : nullptr;
}

Find FinderCalled(const char* way) {
  if (strcmp(way, "dlsym") == 0) return &ByHandle;
  if (strcmp(way, "per-thread") == 0) return &ByPerThreadName;
  if (strcmp(way, "default") == 0) return &ByDefault;
  if (strcmp(way, "next") == 0) return &ByNext;
  g_proc1 = reinterpret_cast<ProcAddress1>(dlsym(g_handle, "cuGetProcAddress"));
  g_proc2 = reinterpret_cast<ProcAddress2>(dlsym(g_handle, "cuGetProcAddress_v2"));
  if (!g_proc1 || !g_proc2) return nullptr;
  if (strcmp(way, "proc1") == 0) return &ByProcAddress1;
  if (strcmp(way, "proc2") == 0) return &ByProcAddress2;
  return ByItsOwnAnswer();
}

// "symbol file": which library answers for each of the names.
int Where(Find find, char** names) {
  for (; *names; ++names) {
    Dl_info info = {};
    void* found = find(*names, *names);
    const bool known = found && dladdr(found, &info) && info.dli_fname;
    const char* slash = known ? strrchr(info.dli_fname, '/') : nullptr;
    printf("%s %s\n", *names, slash ? slash + 1 : "-");
  }
  return 0;
}

// What dlerror says before and after look-ups that fail and that succeed.
int Errors() {
  dlerror();
  if (dlsym(g_handle, "cuMemAlloc_v2") == nullptr || dlerror() != nullptr) return 1;
  for (const char* missing : {"cuNoSuchFunction", "cuGetProcAddress_ptsz", "noSuchFunction"}) {
    const bool found = dlsym(g_handle, missing) != nullptr;
    const char* error = dlerror();
    if (!found && (error == nullptr || strstr(error, missing) == nullptr)) return 2;
    if (dlerror() != nullptr) return 3;
  }
  if (dlsym(g_handle, "cuMemFree_v2") == nullptr || dlerror() != nullptr) return 4;
  return 0;
}

// Uses the driver as found at each of the versions, with each of the flags.
int Sweep(Find find, char** versions) {
  for (; *versions; ++versions) {
    g_version = atoi(*versions);
    for (g_flags = 0; g_flags <= 2; ++g_flags)
      if (const int failed = UseDriver(find)) return failed;
  }
  return 0;
}

int Wait(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A child that uses the driver before its parent has.
int ForkBefore(Find find) {
  const pid_t child = fork();
  if (child == 0) exit(UseDriver(find));
  return Wait(child) * 10 + UseDriver(find);
}

// A child of a process that has used the driver: it asks for functions, and ends in earnest.
int ForkAfter(Find find) {
  if (const int failed = UseDriver(find)) return failed;
  const pid_t child = fork();
  if (child == 0) {
    const auto version =
        reinterpret_cast<CUresult (*)(int*)>(find("cuDriverGetVersion", "cuDriverGetVersion"));
    int number = 0;
    exit(find("cuMemAlloc_v2", "cuMemAlloc") && version && version(&number) == CUDA_SUCCESS ? 0
                                                                                            : 1);
  }
  return Wait(child) * 10 + UseDriver(find);
}

void* AllocateForever(void* argument) {
  const auto find = *static_cast<Find*>(argument);
  if (!UseContext(find)) abort();
  const auto allocate = reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t, CUstream)>(
      find("cuMemAllocAsync", "cuMemAllocAsync"));
  const auto release = reinterpret_cast<CUresult (*)(CUdeviceptr, CUstream)>(
      find("cuMemFreeAsync", "cuMemFreeAsync"));
  while (true) {
    CUdeviceptr block = 0;
    if (allocate(&block, 4096, nullptr) == CUDA_SUCCESS) release(block, nullptr);
  }
}

// The process ends while threads are inside the driver.
int ExitWithThreads(Find find) {
  if (const int failed = UseDriver(find)) return failed;
  for (int i = 0; i < 4; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, &AllocateForever, &find) != 0) return 9;
  }
  usleep(50'000);
  return 0;
}

void* LoadLibrary(void* path) { return dlopen(static_cast<const char*>(path), RTLD_NOW); }

// A library's constructor uses the driver in one thread, under the loader's lock, while another
// thread is the first to use it.
int LoadMeanwhile(Find find, char* library) {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, &LoadLibrary, library) != 0) return 9;
  usleep(50'000);
  const int failed = UseDriver(find);
  void* handle = nullptr;
  pthread_join(thread, &handle);
  const auto found = handle ? reinterpret_cast<int (*)()>(dlsym(handle, "Found")) : nullptr;
  return failed != 0 || !found ? 8 : !found();
}

// Frees most of the device's 512 MiB and asks for as much again in the other way: 5 when what
// was freed could not be had.
int Exhaust(Find find) {
  if (const int failed = UseDriver(find)) return failed;
  const auto allocate_async = reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t, CUstream)>(
      find("cuMemAllocAsync", "cuMemAllocAsync"));
  const auto free_async = reinterpret_cast<CUresult (*)(CUdeviceptr, CUstream)>(
      find("cuMemFreeAsync", "cuMemFreeAsync"));
  const auto synchronize =
      reinterpret_cast<CUresult (*)(CUstream)>(find("cuStreamSynchronize", "cuStreamSynchronize"));
  const auto allocate =
      reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t)>(find("cuMemAlloc_v2", "cuMemAlloc"));
  CUdeviceptr first = 0, second = 0;
  if (allocate_async(&first, 400 << 20, nullptr) != CUDA_SUCCESS) return 4;
  if (free_async(first, nullptr) != CUDA_SUCCESS || synchronize(nullptr) != CUDA_SUCCESS) return 6;
  return allocate(&second, 400 << 20) == CUDA_SUCCESS ? 0 : 5;
}

// After the driver: a C++ library whose exceptions must find their way.
int Throwing(Find find, const char* library) {
  if (const int failed = UseDriver(find)) return failed;
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return fprintf(stderr, "%s\n", dlerror()), 8;
  const auto throw_and_catch = reinterpret_cast<int (*)()>(dlsym(handle, "ThrowAndCatch"));
  return throw_and_catch ? throw_and_catch() : 7;
}

}  // namespace

// front_client ACTION WAY VERSION FLAGS [MORE...]
int main(int count, char** arguments) {
  if (count < 5) return 99;
  g_handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!g_handle) return 98;
  g_version = atoi(arguments[3]);
  g_flags = strtoull(arguments[4], nullptr, 10);
  const char* action = arguments[1];
  if (strcmp(action, "errors") == 0) return Errors();
  const Find find = FinderCalled(arguments[2]);
  if (!find) return 97;
  if (strcmp(action, "where") == 0) return Where(find, arguments + 5);
  if (strcmp(action, "sweep") == 0) return Sweep(find, arguments + 5);
  if (strcmp(action, "fork-before") == 0) return ForkBefore(find);
  if (strcmp(action, "fork-after") == 0) return ForkAfter(find);
  if (strcmp(action, "threads") == 0) return ExitWithThreads(find);
  if (strcmp(action, "meanwhile") == 0) return LoadMeanwhile(find, arguments[5]);
  if (strcmp(action, "exhaust") == 0) return Exhaust(find);
  if (strcmp(action, "throwing") == 0) return Throwing(find, arguments[5]);
  return UseDriver(find);
}
