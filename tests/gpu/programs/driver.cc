// The driver API alone, linked to libcuda.so.1, with the kernels of the demo trainer: it runs on
// the simulated driver too. Built once more with CUDA_API_PER_THREAD_DEFAULT_STREAM, cuda.h makes
// every call that has a stream the per-thread variant of its symbol.
//
// Like the programs beside it, it takes steps that are alike and ends with "result HEX".
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <initializer_list>
#include <vector>

// The text of kernels.ptx, with a zero behind it for the driver's compiler.
asm(R"(
    .pushsection .rodata
    .global program_kernels_ptx
program_kernels_ptx:
    .incbin ")" PROGRAM_KERNELS_PTX R"("
    .byte 0
    .popsection
)");
extern "C" const char program_kernels_ptx[];

namespace {

constexpr int kSteps = 24;
constexpr uint64_t kCount = 1 << 18;  // floats of a buffer
constexpr size_t kBytes = kCount * sizeof(float);
constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = kCount / kThreads;

void Require(CUresult result, const char* call, int line) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  fprintf(stderr, "line %d: %s: %s\n", line, call, name ? name : "unknown error");
  exit(1);
}
#define REQUIRE(call) Require(call, #call, __LINE__)

struct Kernels {
  CUfunction fill, axpy, mix;
};

void Launch(CUfunction function, CUstream stream, std::initializer_list<const void*> arguments) {
  std::vector<void*> list;
  for (const void* argument : arguments) list.push_back(const_cast<void*>(argument));
  REQUIRE(cuLaunchKernel(function, kBlocks, 1, 1, kThreads, 1, 1, 0, stream, list.data(), nullptr));
}

void Fill(const Kernels& kernels, CUdeviceptr p, float value, CUstream stream) {
  Launch(kernels.fill, stream, {&p, &value, &kCount});
}

void Axpy(const Kernels& kernels, CUdeviceptr y, CUdeviceptr x, float a, CUstream stream) {
  Launch(kernels.axpy, stream, {&y, &x, &a, &kCount});
}

void Mix(const Kernels& kernels, CUdeviceptr out, CUdeviceptr a, CUdeviceptr b, CUstream stream) {
  Launch(kernels.mix, stream, {&out, &a, &b, &kCount});
}

Kernels Load() {
  CUmodule module;
  REQUIRE(cuModuleLoadData(&module, program_kernels_ptx));
  Kernels kernels;
  REQUIRE(cuModuleGetFunction(&kernels.fill, module, "ebt_fill"));
  REQUIRE(cuModuleGetFunction(&kernels.axpy, module, "ebt_axpy"));
  REQUIRE(cuModuleGetFunction(&kernels.mix, module, "ebt_mix"));
  return kernels;
}

// A handle under an address of its own.
struct Mapped {
  CUdeviceptr address;
  size_t bytes;
  CUmemGenericAllocationHandle handle;
};

Mapped Map(CUdevice device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  size_t unit = 0;
  REQUIRE(cuMemGetAllocationGranularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  Mapped mapped = {0, (kBytes + unit - 1) / unit * unit, 0};
  REQUIRE(cuMemAddressReserve(&mapped.address, mapped.bytes, 0, 0, 0));
  REQUIRE(cuMemCreate(&mapped.handle, mapped.bytes, &properties, 0));
  REQUIRE(cuMemMap(mapped.address, mapped.bytes, 0, mapped.handle, 0));
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  REQUIRE(cuMemSetAccess(mapped.address, mapped.bytes, &access, 1));
  return mapped;
}

void Unmap(const Mapped& mapped) {
  REQUIRE(cuMemUnmap(mapped.address, mapped.bytes));
  REQUIRE(cuMemRelease(mapped.handle));
  REQUIRE(cuMemAddressFree(mapped.address, mapped.bytes));
}

struct State {
  Kernels kernels;
  CUdeviceptr x, y;
  Mapped mapped;
  CUstream stream;
  std::vector<float> host;
};

void Step(State* state, int step, uint64_t* sum) {
  const Kernels& kernels = state->kernels;
  CUdeviceptr linear = 0, ordered = 0;
  REQUIRE(cuMemAlloc(&linear, 2 * kBytes));
  REQUIRE(cuMemAllocAsync(&ordered, kBytes, state->stream));
  for (uint64_t i = 0; i < kCount; ++i) state->host[i] = static_cast<float>(step + i % 13);
  REQUIRE(cuMemcpyHtoD(state->x, state->host.data(), kBytes));
  REQUIRE(cuMemsetD32(linear, 0, kCount));
  // A copy from pageable memory may still be on its way to the device.
  REQUIRE(cuStreamSynchronize(nullptr));
  Fill(kernels, ordered, static_cast<float>(step % 7), state->stream);
  Mix(kernels, state->mapped.address, state->x, ordered, state->stream);
  Axpy(kernels, state->y, state->mapped.address, 0.5f, state->stream);
  REQUIRE(cuMemFreeAsync(ordered, state->stream));
  REQUIRE(cuStreamSynchronize(state->stream));
  // The default stream: which one that is depends on how this was built.
  Mix(kernels, linear, state->y, state->x, nullptr);
  REQUIRE(cuMemcpyDtoDAsync(state->x, linear, kBytes, nullptr));
  REQUIRE(cuStreamSynchronize(nullptr));
  REQUIRE(cuMemcpyDtoH(state->host.data(), state->x, kBytes));
  REQUIRE(cuMemFree(linear));
  for (uint64_t i = 0; i < kBytes; ++i) {  // FNV-1a
    *sum = (*sum ^ reinterpret_cast<const unsigned char*>(state->host.data())[i]) * 0x100000001b3u;
  }
}

}  // namespace

int main() {
  CUdevice device;
  CUcontext context;
  REQUIRE(cuInit(0));
  REQUIRE(cuDeviceGet(&device, 0));
  REQUIRE(cuDevicePrimaryCtxRetain(&context, device));
  REQUIRE(cuCtxSetCurrent(context));
  State state = {Load(), 0, 0, Map(device), nullptr, std::vector<float>(kCount)};
  REQUIRE(cuStreamCreate(&state.stream, CU_STREAM_NON_BLOCKING));
  REQUIRE(cuMemAlloc(&state.x, kBytes));
  REQUIRE(cuMemAlloc(&state.y, kBytes));
  REQUIRE(cuMemsetD32(state.y, 0, kCount));
  REQUIRE(cuStreamSynchronize(nullptr));
  uint64_t sum = 0xcbf29ce484222325u;
  for (int step = 0; step < kSteps; ++step) Step(&state, step, &sum);
  Unmap(state.mapped);
  REQUIRE(cuMemFree(state.x));
  REQUIRE(cuMemFree(state.y));
  REQUIRE(cuStreamDestroy(state.stream));
  REQUIRE(cuDevicePrimaryCtxRelease(device));
  printf("result %016llx\n", static_cast<unsigned long long>(sum));
  return 0;
}
