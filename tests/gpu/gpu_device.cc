#include "tests/gpu/gpu_device.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "absl/strings/str_cat.h"

// The text of kernels.ptx, with a zero behind it for the driver's compiler.
asm(R"(
    .pushsection .rodata
    .global gpu_kernels_ptx
gpu_kernels_ptx:
    .incbin ")" GPU_KERNELS_PTX R"("
    .byte 0
    .popsection
)");
extern "C" const char gpu_kernels_ptx[];

namespace ebt::test {
namespace {

bool SimulatedIsWanted() {
  const char* value = getenv("TEST_ON_SIMULATED");
  return value != nullptr && std::string_view(value) == "1";
}

// Fills `gpu`; returns why that cannot be done.
std::string LoadFunctions(Gpu* gpu) {
  gpu->library = dlopen("libcuda.so.1", RTLD_NOW);
  if (gpu->library == nullptr) return dlerror();
  gpu->simulated = gpu->Symbol("simcuda_now_ms") != nullptr;
  if (gpu->simulated && !SimulatedIsWanted()) return "libcuda.so.1 is the simulated driver";
  const char* lacking = nullptr;
#define EBT_GPU_LOAD(name, parameters)                                           \
  gpu->fn_##name = reinterpret_cast<CUresult(*) parameters>(gpu->Symbol(#name)); \
  if (gpu->fn_##name == nullptr) lacking = #name;
  EBT_GPU_FUNCTIONS(EBT_GPU_LOAD)
#undef EBT_GPU_LOAD
  if (lacking != nullptr) return absl::StrCat("the driver lacks ", lacking);
  const auto driver = LoadDriverApi([gpu](const char* name) { return gpu->Symbol(name); });
  if (!driver.ok()) return std::string(driver.status().message());
  gpu->driver = *driver;
  return "";
}

std::string OpenDevice(Gpu* gpu) {
  const auto refused = [gpu](const char* call, CUresult result) {
    return absl::StrCat(call, ": ", ErrorName(gpu->driver, result));
  };
  CUresult result = gpu->fn_cuInit(0);
  if (result != CUDA_SUCCESS) return refused("cuInit", result);
  result = gpu->driver.fn_cuDeviceGet(&gpu->device, 0);
  if (result != CUDA_SUCCESS) return refused("cuDeviceGet", result);
  char name[256] = "";
  gpu->driver.fn_cuDeviceGetName(name, sizeof(name), gpu->device);
  gpu->name = name;
  if (gpu->name.find("simulated") != std::string::npos && !SimulatedIsWanted())
    return absl::StrCat("the device is ", gpu->name);
  result = gpu->fn_cuDevicePrimaryCtxRetain(&gpu->context, gpu->device);
  if (result != CUDA_SUCCESS) return refused("cuDevicePrimaryCtxRetain", result);
  return "";
}

Gpu FindGpu() {
  Gpu gpu;
  gpu.missing = LoadFunctions(&gpu);
  if (gpu.missing.empty()) gpu.missing = OpenDevice(&gpu);
  return gpu;
}

}  // namespace

void* Gpu::Symbol(const char* symbol) const { return dlsym(library, symbol); }

const Gpu& TheGpu() {
  static const Gpu gpu = FindGpu();
  return gpu;
}

bool Await(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void GpuTest::SetUp() {
  if (!gpu_.missing.empty()) GTEST_SKIP() << "no NVIDIA GPU here: " << gpu_.missing;
  ASSERT_EQ(gpu_.driver.fn_cuCtxSetCurrent(gpu_.context), CUDA_SUCCESS);
}

void GpuTest::TearDown() {
  if (!gpu_.missing.empty()) return;
  EXPECT_EQ(gpu_.driver.fn_cuCtxSynchronize(), CUDA_SUCCESS) << "the device has faulted";
  for (CUstream stream : streams_) gpu_.driver.fn_cuStreamDestroy_v2(stream);
}

uint64_t GpuTest::UsedBytes() const {
  size_t free_bytes = 0, total_bytes = 0;
  EXPECT_EQ(gpu_.driver.fn_cuMemGetInfo_v2(&free_bytes, &total_bytes), CUDA_SUCCESS);
  return total_bytes - free_bytes;
}

uint64_t GpuTest::SettledBytes() const {
  uint64_t before = UsedBytes();
  for (int i = 0; i < 100; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const uint64_t now = UsedBytes();
    if (now == before) break;
    before = now;
  }
  return before;
}

CUstream GpuTest::NewStream() {
  CUstream stream = nullptr;
  EXPECT_EQ(gpu_.driver.fn_cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
            CUDA_SUCCESS);
  streams_.push_back(stream);
  return stream;
}

CUfunction GpuTest::Kernel(const char* name) const {
  static const CUmodule module = [this] {
    CUmodule loaded = nullptr;
    EXPECT_EQ(gpu_.fn_cuModuleLoadData(&loaded, gpu_kernels_ptx), CUDA_SUCCESS);
    return loaded;
  }();
  CUfunction function = nullptr;
  EXPECT_EQ(gpu_.fn_cuModuleGetFunction(&function, module, name), CUDA_SUCCESS) << name;
  return function;
}

void GpuTest::Say(const std::string& figure) const {
  printf("[ MEASURED ] %s: %s%s\n", gpu_.name.c_str(), figure.c_str(),
         gpu_.simulated ? " (simulated)" : "");
  fflush(stdout);
}

}  // namespace ebt::test
