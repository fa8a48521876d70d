// What a call costs through whatever is preloaded, beside the same call straight into the driver.
//
//   cost_probe pointers   compares what dlsym and cuGetProcAddress answer with the driver's exports
//   cost_probe record     a short run, to be recorded and planned
//   cost_probe measure    the same and then the measurement, in bursts that take turns: through the
//                         functions that dlsym answers with, and through the driver's own
//   cost_probe launches   launches alone, of a kernel that names no block that a plan moves; what
//                         the driver is asked for straight is then hidden from a swap engine
//                         without harm
//
// Prints one JSON object. "hooked" says whether the two differ: without a preloaded library they
// are the same functions. Times are nanoseconds of the calling thread, less those of the clock.
#include <cuda.h>
#include <dlfcn.h>
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/driver_exports.h"
#include "tests/simcuda/kernel_abi.h"

// The text of kernels.ptx, with a zero behind it for the driver's compiler.
asm(R"(
    .pushsection .rodata
    .global cost_kernels_ptx
cost_kernels_ptx:
    .incbin ")" GPU_KERNELS_PTX R"("
    .byte 0
    .popsection
)");
extern "C" const char cost_kernels_ptx[];

namespace ebt::test {
namespace {

// X(exported symbol, parameters)
#define COST_FUNCTIONS(X)                                                                    \
  X(cuInit, (unsigned))                                                                      \
  X(cuDriverGetVersion, (int*))                                                              \
  X(cuDeviceGet, (CUdevice*, int))                                                           \
  X(cuDeviceGetName, (char*, int, CUdevice))                                                 \
  X(cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice))                                        \
  X(cuCtxSetCurrent, (CUcontext))                                                            \
  X(cuDeviceGetDefaultMemPool, (CUmemoryPool*, CUdevice))                                    \
  X(cuMemPoolSetAttribute, (CUmemoryPool, CUmemPool_attribute, void*))                       \
  X(cuLibraryLoadData, (CUlibrary*, const void*, CUjit_option*, void**, unsigned,            \
                        CUlibraryOption*, void**, unsigned))                                 \
  X(cuLibraryGetKernel, (CUkernel*, CUlibrary, const char*))                                 \
  X(cuStreamCreate, (CUstream*, unsigned))                                                   \
  X(cuStreamSynchronize, (CUstream))                                                         \
  X(cuMemAllocAsync, (CUdeviceptr*, size_t, CUstream))                                       \
  X(cuMemFreeAsync, (CUdeviceptr, CUstream))                                                 \
  X(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                         \
  X(cuKernelGetParamInfo, (CUkernel, size_t, size_t*, size_t*))                              \
  X(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                     unsigned, CUstream, void**, void**))

struct Driver {
#define COST_MEMBER(name, parameters) CUresult(*fn_##name) parameters = nullptr;
  COST_FUNCTIONS(COST_MEMBER)
#undef COST_MEMBER
};

[[noreturn]] void Fail(const char* what, int code) {
  fprintf(stderr, "cost_probe: %s (%d)\n", what, code);
  exit(1);
}

void Check(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) Fail(call, result);
}

template <typename Find>
Driver Load(Find find) {
  Driver driver;
#define COST_LOAD(name, parameters)                                             \
  driver.fn_##name = reinterpret_cast<decltype(driver.fn_##name)>(find(#name)); \
  if (driver.fn_##name == nullptr) Fail("the driver lacks " #name, 0);
  COST_FUNCTIONS(COST_LOAD)
#undef COST_LOAD
  return driver;
}

// The time stamp counter, and no instruction of the measured call on the other side of it.
uint64_t Now() {
  _mm_lfence();
  const uint64_t ticks = __rdtsc();
  _mm_lfence();
  return ticks;
}

double MonotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) * 1e9 + double(now.tv_nsec);
}

double NsPerTick() {
  const double begin_ns = MonotonicNs();
  const uint64_t begin = Now();
  while (MonotonicNs() - begin_ns < 50e6) {
  }
  return (MonotonicNs() - begin_ns) / double(Now() - begin);
}

using Samples = std::vector<uint64_t>;  // ticks

uint64_t Percentile(Samples& samples, int percent) {
  if (samples.empty()) return 0;
  const size_t at = std::min(samples.size() - 1, samples.size() * size_t(percent) / 100);
  std::nth_element(samples.begin(), samples.begin() + std::ptrdiff_t(at), samples.end());
  return samples[at];
}

struct Size {
  const char* name;
  size_t bytes;
  unsigned threads;  // of its launch: each size is another step of the program
};
constexpr std::array<Size, 3> kSizes = {{{"4KiB", size_t{4} << 10, 64},
                                         {"1MiB", size_t{1} << 20, 96},
                                         {"64MiB", size_t{64} << 20, 128}}};
constexpr size_t kUnplanned = 512;    // more than a planned size: a size that no plan knows
constexpr size_t kBackground = 1000;  // blocks alive meanwhile, as many as a small training job's
constexpr size_t kBackgroundBytes = 8 << 10;
constexpr int kRecordedSteps = 40;
constexpr int kStepsPerBurst = 40;  // their launches fit into the driver's queue
constexpr int kLaunchesPerBurst = 64;

struct Measured {
  std::array<Samples, kSizes.size()> planned, dynamic;
  Samples launch, wide_launch, param_info;
};

class Program {
 public:
  explicit Program(const Driver& outer) : outer_(outer) {
    Check(outer_.fn_cuInit(0), "cuInit");
    Check(outer_.fn_cuDriverGetVersion(&version_), "cuDriverGetVersion");
    Check(outer_.fn_cuDeviceGet(&device_, 0), "cuDeviceGet");
    Check(outer_.fn_cuDeviceGetName(name_, sizeof(name_) - 1, device_), "cuDeviceGetName");
    CUcontext context = nullptr;
    Check(outer_.fn_cuDevicePrimaryCtxRetain(&context, device_), "cuDevicePrimaryCtxRetain");
    Check(outer_.fn_cuCtxSetCurrent(context), "cuCtxSetCurrent");
    // As every framework does: else the driver's pool would give its memory back at each wait.
    CUmemoryPool pool = nullptr;
    cuuint64_t keep = ~cuuint64_t{0};
    Check(outer_.fn_cuDeviceGetDefaultMemPool(&pool, device_), "cuDeviceGetDefaultMemPool");
    Check(outer_.fn_cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep),
          "cuMemPoolSetAttribute");
    // As the runtime of CUDA 12 and later does: what it launches are CUkernels.
    CUlibrary library = nullptr;
    Check(outer_.fn_cuLibraryLoadData(&library, cost_kernels_ptx, nullptr, nullptr, 0, nullptr,
                                      nullptr, 0),
          "cuLibraryLoadData");
    Check(outer_.fn_cuLibraryGetKernel(&axpy_, library, "ebt_axpy"), "cuLibraryGetKernel");
    Check(outer_.fn_cuLibraryGetKernel(&adam_, library, "ebt_multi_adam"), "cuLibraryGetKernel");
    Check(outer_.fn_cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    MakeBackground();
  }

  const char* device_name() const { return name_; }
  int version() const { return version_; }

  void Steps(const Driver& by, int steps, Measured* measured) {
    for (int i = 0; i < steps; ++i) Step(by, 0, measured ? &measured->planned : nullptr);
    Synchronize();
  }
  void UnplannedSteps(const Driver& by, int steps, Measured* measured) {
    for (int i = 0; i < steps; ++i) Step(by, kUnplanned, measured ? &measured->dynamic : nullptr);
    Synchronize();
  }
  void Launches(const Driver& by, int launches, Measured* measured) {
    for (int i = 0; i < launches; ++i) {
      const uint64_t begin = Now();
      LaunchAxpy(by, background_.back(), 32);
      const uint64_t end = Now();
      if (measured) measured->launch.push_back(end - begin);
    }
    Synchronize();
  }
  // What Ebbtide asks the driver at a launch of a function that it knows.
  void Questions(const Driver& by, int questions, Measured* measured) {
    for (int i = 0; i < questions; ++i) {
      size_t offset = 0, size = 0;
      const uint64_t begin = Now();
      Check(by.fn_cuKernelGetParamInfo(axpy_, 3, &offset, &size), "cuKernelGetParamInfo");
      measured->param_info.push_back(Now() - begin);
    }
  }
  void WideLaunches(const Driver& by, int launches, Measured* measured) {
    for (int i = 0; i < launches; ++i) {
      const uint64_t begin = Now();
      LaunchAdam(by);
      const uint64_t end = Now();
      if (measured) measured->wide_launch.push_back(end - begin);
    }
    Synchronize();
  }

 private:
  using PerSize = std::array<Samples, kSizes.size()>;

  void MakeBackground() {
    for (size_t i = 0; i < kBackground; ++i) {
      CUdeviceptr block = 0;
      Check(outer_.fn_cuMemAllocAsync(&block, kBackgroundBytes, stream_), "cuMemAllocAsync");
      Check(outer_.fn_cuMemsetD8Async(block, 0, kBackgroundBytes, stream_), "cuMemsetD8Async");
      background_.push_back(block);
    }
    // One element of each of its tensors is all that the kernel computes.
    list_.tensors = kernel::kMultiAdamTensors;
    for (int i = 0; i < kernel::kMultiAdamTensors; ++i) {
      list_.p[i] = background_[size_t(i) * 4 + 8];
      list_.g[i] = background_[size_t(i) * 4 + 9];
      list_.m[i] = background_[size_t(i) * 4 + 10];
      list_.v[i] = background_[size_t(i) * 4 + 11];
      list_.n[i] = 1;
    }
    list_.lr = list_.eps = list_.bias1 = list_.bias2 = 1;
    Synchronize();
  }

  // The wide launch is the step's optimizer: a plan may move what it names. The other blocks are
  // named by one launch each, so that a recording sees them used.
  void Step(const Driver& by, size_t more, PerSize* samples) {
    LaunchAdam(by);
    LaunchAxpy(by, background_.back(), 32);
    for (size_t i = 0; i < kSizes.size(); ++i) {
      CUdeviceptr block = 0;
      const uint64_t begin = Now();
      const CUresult allocated = by.fn_cuMemAllocAsync(&block, kSizes[i].bytes + more, stream_);
      const uint64_t there = Now();
      Check(allocated, "cuMemAllocAsync");
      LaunchAxpy(by, block, kSizes[i].threads);
      const uint64_t again = Now();
      const CUresult freed = by.fn_cuMemFreeAsync(block, stream_);
      const uint64_t end = Now();
      Check(freed, "cuMemFreeAsync");
      if (samples) (*samples)[i].push_back((there - begin) + (end - again));
    }
  }

  void LaunchAxpy(const Driver& by, CUdeviceptr y, unsigned threads) {
    CUdeviceptr x = background_.back();
    float a = 0.5f;
    uint64_t n = 32;
    void* parameters[] = {&y, &x, &a, &n};
    Check(by.fn_cuLaunchKernel(reinterpret_cast<CUfunction>(axpy_), 1, 1, 1, threads, 1, 1, 0,
                               stream_, parameters, nullptr),
          "cuLaunchKernel");
  }
  void LaunchAdam(const Driver& by) {
    void* parameters[] = {&list_};
    Check(by.fn_cuLaunchKernel(reinterpret_cast<CUfunction>(adam_), 1, kernel::kMultiAdamTensors, 1,
                               32, 1, 1, 0, stream_, parameters, nullptr),
          "cuLaunchKernel");
  }
  void Synchronize() { Check(outer_.fn_cuStreamSynchronize(stream_), "cuStreamSynchronize"); }

  const Driver& outer_;
  CUdevice device_ = 0;
  int version_ = 0;
  char name_[256] = "";
  CUkernel axpy_ = nullptr, adam_ = nullptr;
  CUstream stream_ = nullptr;
  std::vector<CUdeviceptr> background_;
  kernel::MultiAdam list_{};
};

class Report {
 public:
  Report() : ns_per_tick_(NsPerTick()) {
    Samples empty;
    for (int i = 0; i < 10'000; ++i) {
      const uint64_t begin = Now();
      empty.push_back(Now() - begin);
    }
    clock_ticks_ = Percentile(empty, 50);
  }

  void Side(const char* name, Measured& measured) {
    printf(",\n \"%s\": {", name);
    const char* separator = "";
    for (size_t i = 0; i < kSizes.size(); ++i) {
      const std::string size = kSizes[i].name;
      // A pair is two calls, each between two readings.
      Line(separator, "pair_planned_" + size, measured.planned[i], 2);
      Line(",", "pair_dynamic_" + size, measured.dynamic[i], 2);
      separator = ",";
    }
    Line(",", "launch", measured.launch, 1);
    Line(",", "launch_wide", measured.wide_launch, 1);
    Line(",", "param_info", measured.param_info, 1);
    printf("\n }");
  }
  double clock_ns() const { return double(clock_ticks_) * ns_per_tick_; }

 private:
  void Line(const char* separator, const std::string& name, Samples& samples, uint64_t readings) {
    printf("%s\n  \"%s\": {\"count\": %zu", separator, name.c_str(), samples.size());
    for (int percent : {50, 90, 99}) {
      const uint64_t ticks = Percentile(samples, percent);
      const uint64_t own = std::min(ticks, readings * clock_ticks_);
      printf(", \"p%d\": %.1f", percent, double(ticks - own) * ns_per_tick_);
    }
    printf("}");
  }

  const double ns_per_tick_;
  uint64_t clock_ticks_ = 0;
};

void Measure(Program& program, const Driver& found, const Driver& own, int rounds,
             Measured* through, Measured* straight) {
  using Turn = std::pair<const Driver*, Measured*>;
  for (int round = 0; round < rounds; ++round) {
    std::array<Turn, 2> turns = {Turn{&found, through}, Turn{&own, straight}};
    if (round % 2 == 1) std::swap(turns[0], turns[1]);
    for (const auto& [by, measured] : turns) {
      program.Steps(*by, 2, nullptr);  // whose turn it is has cold caches
      program.Steps(*by, kStepsPerBurst, measured);
    }
    for (const auto& [by, measured] : turns) {
      program.UnplannedSteps(*by, 2, nullptr);
      program.UnplannedSteps(*by, kStepsPerBurst, measured);
    }
    for (const auto& [by, measured] : turns) {
      program.Launches(*by, 4, nullptr);
      program.Launches(*by, kLaunchesPerBurst, measured);
      program.WideLaunches(*by, 4, nullptr);
      program.WideLaunches(*by, kLaunchesPerBurst, measured);
      program.Questions(*by, kLaunchesPerBurst, measured);
    }
  }
}

void MeasureLaunches(Program& program, const Driver& found, const Driver& own, int rounds,
                     Measured* through, Measured* straight) {
  for (int round = 0; round < rounds; ++round) {
    program.Steps(found, 2, nullptr);
    for (int turn = 0; turn < 2; ++turn) {
      const bool first = (turn + round) % 2 == 0;
      program.Launches(first ? found : own, 4, nullptr);
      program.Launches(first ? found : own, kLaunchesPerBurst, first ? through : straight);
    }
  }
}

int Pointers(void* handle, const DriverExports& exports) {
  const PointerCheck check = ComparePointers(handle, exports);
  printf(
      "{\"functions\": %zu, \"by_dlsym\": %d, \"by_v1\": %d, \"by_v2\": %d, \"exports\": %d, "
      "\"other\": %d, \"first_other\": \"%s\"}\n",
      exports.functions().size(), check.by_dlsym, check.by_v1, check.by_v2, check.exports,
      check.other, check.first_other.c_str());
  return 0;
}

}  // namespace

int Main(int count, char** arguments) {
  const std::string action = count > 1 ? arguments[1] : "";
  const int rounds = count > 2 ? atoi(arguments[2]) : 300;
  if (action != "pointers" && action != "record" && action != "measure" && action != "launches") {
    fprintf(stderr, "usage: cost_probe pointers|record|measure|launches [ROUNDS]\n");
    return 2;
  }
  void* const handle = dlopen("libcuda.so.1", RTLD_NOW);
  if (handle == nullptr) Fail(dlerror(), 0);
  const DriverExports exports(handle);
  if (action == "pointers") return Pointers(handle, exports);
  const Driver found = Load([&](const char* name) { return dlsym(handle, name); });
  const Driver own = Load([&](const char* name) { return exports.Of(name); });
  Program program(found);
  program.Steps(found, kRecordedSteps, nullptr);
  printf("{\"gpu\": \"%s\", \"driver_version\": %d, \"hooked\": %s", program.device_name(),
         program.version(), found.fn_cuLaunchKernel != own.fn_cuLaunchKernel ? "true" : "false");
  if (action != "record") {
    Measured through, straight;
    (action == "measure" ? Measure : MeasureLaunches)(program, found, own, rounds, &through,
                                                      &straight);
    Report report;
    printf(",\n \"clock_ns\": %.1f, \"rounds\": %d", report.clock_ns(), rounds);
    report.Side("through", through);
    report.Side("straight", straight);
  }
  printf("}\n");
  return 0;
}

}  // namespace ebt::test

int main(int count, char** arguments) { return ebt::test::Main(count, arguments); }
