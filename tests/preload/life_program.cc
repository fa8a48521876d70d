// A small training job linked to libcuda.so.1 that lives and dies in the way that its argument
// names. Whatever becomes of it, one life of training prints "19 19": the state begins as ones, and
// step s of 8 adds half of s to it.
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <iterator>
#include <thread>

#include "ebbtide/ebbtide.h"
#include "tests/preload/life_queries.h"
#include "tests/simcuda/simcuda.h"

extern char** environ;

namespace {

constexpr size_t kStateBytes = 2 << 20, kWorkBytes = 1 << 20;
constexpr int kSteps = 8;

void Check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  printf("%s: %d\n", call, static_cast<int>(result));
  fflush(stdout);
  _exit(90);
}
#define CHECK(call) Check(call, #call)

struct Job {
  CUstream stream = nullptr;
  CUfunction fill = nullptr, axpy = nullptr;
  CUdeviceptr state = 0;
};

void Fill(const Job& job, CUdeviceptr block, float value, uint64_t floats) {
  void* parameters[] = {&block, &value, &floats};
  CHECK(cuLaunchKernel(job.fill, 64, 1, 1, 1024, 1, 1, 0, job.stream, parameters, nullptr));
}

Job Begin() {
  Job job;
  CUmodule module = nullptr;
  CHECK(cuModuleLoadData(&module, "any image"));
  CHECK(cuModuleGetFunction(&job.fill, module, "ebt_fill"));
  CHECK(cuModuleGetFunction(&job.axpy, module, "ebt_axpy"));
  CHECK(cuStreamCreate(&job.stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&job.state, kStateBytes));
  uint64_t floats = 65536;  // what one launch reaches
  for (size_t at = 0; at < kStateBytes; at += floats * sizeof(float))
    Fill(job, job.state + at, 1, floats);
  return job;
}

void Step(const Job& job, int step) {
  CUdeviceptr work = 0;
  CHECK(cuMemAllocAsync(&work, kWorkBytes, job.stream));
  uint64_t floats = 65536;
  float half = 0.5f;
  Fill(job, work, static_cast<float>(step), floats);
  for (size_t at = 0; at < kStateBytes; at += floats * sizeof(float)) {
    CUdeviceptr part = job.state + at;
    void* parameters[] = {&part, &work, &half, &floats};
    CHECK(cuLaunchKernel(job.axpy, 64, 1, 1, 1024, 1, 1, 0, job.stream, parameters, nullptr));
  }
  CHECK(cuMemFreeAsync(work, job.stream));
}

void Tell(const Job& job) {
  float first = 0, last = 0;
  CHECK(cuStreamSynchronize(job.stream));
  CHECK(cuMemcpyDtoH(&first, job.state, sizeof(first)));
  CHECK(cuMemcpyDtoH(&last, job.state + kStateBytes - sizeof(last), sizeof(last)));
  printf("%g %g\n", static_cast<double>(first), static_cast<double>(last));
  fflush(stdout);
}

Job Train() {
  const Job job = Begin();
  for (int step = 1; step <= kSteps; ++step) Step(job, step);
  Tell(job);
  return job;
}

CUcontext Retain(CUdevice device = 0) {
  CUcontext context = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  return context;
}

// Two lives; the first one's state is never freed.
int ReleasedOnce() {
  Retain();
  Train();
  CHECK(cuDevicePrimaryCtxRelease(0));
  Retain();
  CHECK(cuMemFree(Train().state));
  return 0;
}
int ReleasedTwice() {
  Retain();
  Retain();
  const Job job = Train();
  CHECK(cuDevicePrimaryCtxRelease(0));  // not the last
  Tell(job);
  CHECK(cuDevicePrimaryCtxRelease(0));
  Retain();
  CHECK(cuMemFree(Train().state));
  return 0;
}
int Reset() {
  Retain();
  Train();
  CHECK(cuDevicePrimaryCtxReset(0));
  Retain();
  CHECK(cuMemFree(Train().state));
  return 0;
}
int Destroyed() {
  for (int life = 0; life < 2; ++life) {
    CUcontext context = nullptr;
    CHECK(cuCtxCreate(&context, nullptr, 0, 0));
    Train();
    CHECK(cuCtxDestroy(context));
  }
  return 0;
}
// Another device's contexts end, the first one's memory does not.
int OthersEnd() {
  const CUcontext first = Retain();
  const Job job = Train();
  CUcontext another = nullptr;
  Retain(1);
  CHECK(cuDevicePrimaryCtxReset(1));
  Retain(1);
  CHECK(cuDevicePrimaryCtxRelease(1));
  CHECK(cuCtxCreate(&another, nullptr, 0, 1));
  CHECK(cuCtxDestroy(another));
  CHECK(cuCtxSetCurrent(first));
  const CUresult refused = cuCtxDestroy(first);  // a primary context
  printf("refused %d\n", refused != CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(first));
  Tell(job);
  CHECK(cuMemFree(job.state));
  return 0;
}

int Wait(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
template <typename Body>
int InFork(Body&& body) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(99);
  }
  return Wait(child);
}
uint64_t Seen() {
  const auto get = reinterpret_cast<int (*)(ebbtide_statistics*, size_t)>(
      dlsym(RTLD_DEFAULT, "ebbtide_get_statistics"));
  ebbtide_statistics statistics{};
  if (!get || get(&statistics, sizeof(statistics)) != 0) return 0;
  return statistics.allocations_seen + 1000 * statistics.launches_seen;
}
int Forked() {
  Retain();
  const Job job = Train();
  const uint64_t seen = Seen();
  char shell[] = "/bin/sh", option[] = "-c", command[] = "exit 7";
  char* const argv[] = {shell, option, command, nullptr};
  const int exec = InFork([&] { execv(shell, argv); });
  const int exits = InFork([] { exit(8); });
  const int ends = InFork([] { _exit(9); });
  const int aborts = InFork([] { abort(); });
  const int again = InFork([] { _exit(InFork([] { exit(10); })); });
  const int system_code = WEXITSTATUS(system("exit 11"));
  pid_t spawned = 0;
  const int spawn =
      posix_spawn(&spawned, shell, nullptr, nullptr, argv, environ) == 0 ? Wait(spawned) : -1;
  printf("%d %d %d %d %d %d %d, seen as before %d\n", exec, exits, ends, aborts, again, system_code,
         spawn, Seen() == seen);
  Tell(job);
  CHECK(cuMemFree(job.state));
  CHECK(cuMemFree(Train().state));
  return 0;
}
// The child is the first to use the driver, then the parent does.
int ForkedBefore() {
  const int child = InFork([] {
    CHECK(cuInit(0));
    Retain();
    CHECK(cuMemFree(Train().state));
    exit(12);
  });
  printf("%d\n", child);
  CHECK(cuInit(0));
  Retain();
  CHECK(cuMemFree(Train().state));
  return 0;
}

void QueueMuch(const Job& job) {
  for (int step = 0; step < 200; ++step) Step(job, step);
}
int InFlight() {
  Retain();
  QueueMuch(Train());
  return 3;
}
int InFlightEnd() {
  Retain();
  QueueMuch(Train());
  usleep(300'000);  // what is recorded is written every now and then
  _exit(4);
}
int FromThread() {
  const CUcontext context = Retain();
  const Job job = Train();
  std::thread([context, job] {
    CHECK(cuCtxSetCurrent(context));
    QueueMuch(job);
    exit(5);
  }).detach();
  while (true) Step(job, 1);
}
int MainThreadEnds() {
  const CUcontext context = Retain();
  static CUcontext current;
  current = context;
  std::thread([] {
    usleep(20'000);
    CHECK(cuCtxSetCurrent(current));
    CHECK(cuMemFree(Train().state));
  }).detach();
  pthread_exit(nullptr);
}

// Frees what it holds at the very end of its thread, or of the process.
struct Late {
  CUdeviceptr linear = 0, ordered = 0;
  CUcontext context = nullptr;
  ~Late() {
    cuCtxSetCurrent(context);
    const CUresult first = linear ? cuMemFree(linear) : CUDA_SUCCESS;
    const CUresult second = ordered ? cuMemFreeAsync(ordered, nullptr) : CUDA_SUCCESS;
    printf("late %d %d\n", first, second);
    fflush(stdout);
  }
  void Hold(CUcontext current) {
    context = current;
    CHECK(cuMemAlloc(&linear, 4096));
    CHECK(cuMemAllocAsync(&ordered, kWorkBytes, nullptr));
  }
};
thread_local Late t_late;
Late& GlobalLate() {
  static Late late;
  return late;
}
int LateDestructors() {
  GlobalLate();  // destroyed behind everything that registers itself from here on
  CHECK(cuInit(0));
  const CUcontext context = Retain();
  const Job job = Train();
  std::thread([&] {
    t_late.context = context;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemFree(Train().state));
    t_late.Hold(context);
  }).join();
  GlobalLate().Hold(context);
  GlobalLate().linear = job.state;
  t_late.Hold(context);
  return 6;
}

// The first thing at exit: from here on the driver answers every call with
// CUDA_ERROR_DEINITIALIZED.
void TakeDriverAway() {
  simcuda_set_faults(
      "cuMemFree_v2:1+=4,cuMemFreeAsync:1+=4,cuCtxSynchronize:1+=4,cuCtxGetCurrent:1+=4,"
      "cuCtxSetCurrent:1+=4,cuMemGetInfo_v2:1+=4,cuEventQuery:1+=4,cuEventRecord:1+=4,"
      "cuEventDestroy_v2:1+=4,cuEventSynchronize:1+=4,cuStreamSynchronize:1+=4,"
      "cuStreamDestroy_v2:1+=4,cuStreamIsCapturing:1+=4,cuMemUnmap:1+=4,cuMemRelease:1+=4,"
      "cuMemAddressFree:1+=4,cuMemcpyAsync:1+=4,cuCtxGetDevice:1+=4,cuMemAlloc_v2:1+=4,"
      "cuMemAllocAsync:1+=4,cuLaunchKernel:1+=4,cuMemPrefetchAsync:1+=4,"
      "cuDevicePrimaryCtxGetState:1+=4,cuDevicePrimaryCtxRelease:1+=4,"
      "cuEventElapsedTime:1+=4,cuStreamWaitEvent:1+=4,cuPointerGetAttribute:1+=4");
}
int DriverGone() {
  GlobalLate();
  CHECK(cuInit(0));
  const CUcontext context = Retain();
  const Job job = Train();
  QueueMuch(job);
  GlobalLate().Hold(context);
  atexit(&TakeDriverAway);
  return 7;
}

struct Action {
  const char* name;
  int (*run)();
  bool initialized;  // cuInit first
};
constexpr Action kActions[] = {
    {"released-once", &ReleasedOnce, true},
    {"released-twice", &ReleasedTwice, true},
    {"reset", &Reset, true},
    {"destroyed", &Destroyed, true},
    {"others-end", &OthersEnd, true},
    {"forked", &Forked, true},
    {"forked-before", &ForkedBefore, false},
    {"in-flight", &InFlight, true},
    {"in-flight-end", &InFlightEnd, true},
    {"from-thread", &FromThread, true},
    {"main-thread-ends", &MainThreadEnds, true},
    {"late-destructors", &LateDestructors, false},
    {"driver-gone", &DriverGone, false},
    {"queries", &ebt::test::Queries, true},
    {"exports", &ebt::test::Exports, true},
    {"pools", &ebt::test::Pools, true},
    {"no-bytes", &ebt::test::NoBytes, true},
};

}  // namespace

int main(int count, char** arguments) {
  for (const Action& action : kActions) {
    if (count != 2 || strcmp(action.name, arguments[1]) != 0) continue;
    if (action.initialized) CHECK(cuInit(0));
    return action.run();
  }
  return 91;
}
