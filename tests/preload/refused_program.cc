// A program linked to libcuda.so.1 whose memory does not suffice, in the way that its first
// argument names. It prints the driver's answers, and with "ready PID" that others may look now.
#include <cuda.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace {

constexpr size_t kPiece = size_t{64} << 20;
constexpr size_t kHuge = size_t{1} << 40;

volatile sig_atomic_t own_handler_ran = 0;

void Check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  printf("%s: %d\n", call, static_cast<int>(result));
  fflush(stdout);
  _exit(90);
}
#define CHECK(call) Check(call, #call)

struct Job {
  CUstream stream = nullptr;
  CUfunction fill = nullptr;
};

Job Begin() {
  Job job;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoadData(&module, "any image"));
  CHECK(cuModuleGetFunction(&job.fill, module, "ebt_fill"));
  CHECK(cuStreamCreate(&job.stream, CU_STREAM_NON_BLOCKING));
  return job;
}

void Fill(const Job& job, CUdeviceptr block) {
  float value = 1;
  uint64_t floats = 256;
  void* parameters[] = {&block, &value, &floats};
  CHECK(cuLaunchKernel(job.fill, 1, 1, 1, 256, 1, 1, 0, job.stream, parameters, nullptr));
}

// Allocates pieces until the driver refuses. What is left of the pointer shows that it was not
// written to.
void FillUp() {
  CUresult result = CUDA_SUCCESS;
  CUdeviceptr block = 0;
  int pieces = 0;
  for (; result == CUDA_SUCCESS; ++pieces) {
    block = 0x5a;
    result = cuMemAlloc(&block, kPiece);
  }
  printf("%d pieces, then %d, pointer %#llx\n", pieces - 1, static_cast<int>(result), block);
  fflush(stdout);
}

void MarkStep() {
  static const auto mark = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "ebbtide_step"));
  if (mark != nullptr) mark();
}

// Each step takes a piece for its time; what it keeps is 1 MiB a step.
void Train(const Job& job, int steps) {
  for (int step = 0; step < steps; ++step) {
    MarkStep();
    CUdeviceptr work = 0, kept = 0;
    CHECK(cuMemAlloc(&kept, 1 << 20));
    CHECK(cuMemAllocAsync(&work, kPiece, job.stream));
    for (int launch = 0; launch < 5; ++launch) Fill(job, work);
    CHECK(cuMemFreeAsync(work, job.stream));
    CHECK(cuStreamSynchronize(job.stream));
    usleep(20000);  // the recorder's thread may see that the steps suffice
  }
  MarkStep();
}

void BeReady() {
  printf("ready %d\n", static_cast<int>(getpid()));
  fflush(stdout);
}

// Until the test's file is there, or half a minute has passed.
void AwaitFile(const char* path) {
  for (int i = 0; i < 3000 && access(path, F_OK) != 0; ++i) usleep(10000);
}

void Storm() {
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    CUdeviceptr block = 0;
    refused += cuMemAlloc(&block, kHuge) == CUDA_ERROR_OUT_OF_MEMORY;
  }
  printf("%d refused\n", refused);
}

// The child touches nothing of CUDA; it is asked, and so is the parent afterwards.
void Fork(const char* file) {
  const pid_t child = fork();
  if (child == 0) {
    BeReady();
    AwaitFile(file);
    _exit(0);
  }
  BeReady();
  waitpid(child, nullptr, 0);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string action = argc > 1 ? argv[1] : "";
  const char* const file = argc > 2 ? argv[2] : "";
  if (action == "handler") signal(SIGUSR2, [](int) { own_handler_ran = 1; });
  const Job job = Begin();
  if (action == "quiet") {
    Train(job, 3);
  } else if (action == "steps") {
    Train(job, atoi(file));
    FillUp();
  } else if (action == "storm") {
    CUdeviceptr block = 0;
    CHECK(cuMemAlloc(&block, kPiece));
    Storm();
  } else if (action == "abort") {
    FillUp();
    abort();
  } else if (action == "fill") {
    FillUp();
  } else {
    CUdeviceptr block = 0;
    CHECK(cuMemAlloc(&block, kPiece));
    if (action == "fork") {
      Fork(file);
    } else {
      BeReady();
      AwaitFile(file);
    }
    if (action == "handler") printf("own handler %s\n", own_handler_ran ? "ran" : "did not run");
  }
  return 0;
}
