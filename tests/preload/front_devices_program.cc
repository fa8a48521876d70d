// A job of two devices, linked to libcuda.so.1, that prints what it saw. Its argument says what
// it does; what is right is in front_devices_test.cc.
#include <cuda.h>
#include <stdio.h>
#include <string.h>

#include <cstdint>
#include <iterator>

#include "tests/simcuda/simcuda.h"

namespace {

constexpr size_t kMiB = 1 << 20;

CUcontext g_first, g_second;
CUstream g_stream;

// The first call that fails is the only one that is told of.
void Check(CUresult result, const char* call) {
  static bool failed = false;
  if (result != CUDA_SUCCESS && !failed) printf("%s: %d\n", call, static_cast<int>(result));
  failed = failed || result != CUDA_SUCCESS;
}
#define CHECK(call) Check(call, #call)

CUdeviceptr Linear(size_t bytes) {
  CUdeviceptr ptr = 0;
  CHECK(cuMemAlloc(&ptr, bytes));
  return ptr;
}
CUdeviceptr Ordered(size_t bytes) {
  CUdeviceptr ptr = 0;
  CHECK(cuMemAllocAsync(&ptr, bytes, g_stream));
  return ptr;
}

// What device 0 reads of a block that device 1 has filled with `value`.
int FilledByPeer(CUdeviceptr ptr, unsigned char value) {
  CUstream stream = nullptr;
  unsigned char read = 0;
  CHECK(cuCtxSetCurrent(g_second));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemsetD8Async(ptr, value, 4096, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuCtxSetCurrent(g_first));
  CHECK(cuMemcpyDtoH(&read, ptr, 1));
  return read;
}

void FreeElsewhere() {
  const CUdeviceptr block = Linear(16 * kMiB);
  void* host = nullptr;
  CHECK(cuMemAllocHost(&host, 16 * kMiB));
  for (int i = 0; i < 20; ++i) CHECK(cuMemcpyHtoDAsync(block, host, 16 * kMiB, g_stream));
  printf("before %d\n", cuStreamQuery(g_stream));
  CHECK(cuCtxSetCurrent(g_second));
  CHECK(cuMemFree(block));
  CHECK(cuCtxSetCurrent(g_first));
  printf("after %d\n", cuStreamQuery(g_stream));
}

void Pitched(size_t rows) {  // of 1 MiB
  CUdeviceptr ptr = 0;
  size_t pitch = 0;
  CHECK(cuMemAllocPitch(&ptr, &pitch, kMiB, rows, 4));
}
CUmemGenericAllocationHandle Handle(CUmemLocation location, size_t bytes) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location;
  CUmemGenericAllocationHandle handle = 0;
  CHECK(cuMemCreate(&handle, bytes, &properties, 0));
  return handle;
}
void HandleOfFirst(size_t bytes) { Handle({CU_MEM_LOCATION_TYPE_DEVICE, {0}}, bytes); }

// Of the device one that is given back and one that is not, and one of the host.
void Handles() {
  const auto first = Handle({CU_MEM_LOCATION_TYPE_DEVICE, {0}}, 2 * kMiB);
  Handle({CU_MEM_LOCATION_TYPE_DEVICE, {1}}, 4 * kMiB);
  Handle({CU_MEM_LOCATION_TYPE_HOST_NUMA, {0}}, 8 * kMiB);
  CHECK(cuMemRelease(first));
}

// 64 MiB are had and given back, then 80 asked for; both together are more than the device has.
void FillTwice(const char* how) {
  CUcontext second_of_first = nullptr;
  const bool ordered = strcmp(how, "ordered") == 0;
  if (ordered) {
    CHECK(cuMemFreeAsync(Ordered(64 * kMiB), g_stream));
  } else {
    CHECK(cuMemFree(Linear(64 * kMiB)));
  }
  printf("idle %d\n", static_cast<int>(simcuda_device_bytes(0) / kMiB));
  if (ordered) Ordered(80 * kMiB);
  if (strcmp(how, "linear") == 0) Linear(80 * kMiB);
  if (strcmp(how, "pitched") == 0) Pitched(80);
  if (strcmp(how, "handle") == 0) HandleOfFirst(80 * kMiB);
  if (strcmp(how, "second-context") == 0) {
    CHECK(cuCtxCreate(&second_of_first, nullptr, 0, 0));
    Linear(80 * kMiB);
  }
  if (strcmp(how, "second-device") == 0) {
    CHECK(cuCtxSetCurrent(g_second));
    HandleOfFirst(80 * kMiB);
  }
  printf("then %d\n", static_cast<int>(simcuda_device_bytes(0) / kMiB));
}

void Peer(bool by_pool) {
  const CUdeviceptr before = Ordered(4096);
  if (by_pool) {
    CUmemoryPool pool = nullptr;
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {1}},
                                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cuMemPoolSetAccess(pool, &access, 1));
  } else {
    CHECK(cuCtxSetCurrent(g_second));
    CHECK(cuCtxEnablePeerAccess(g_first, 0));
    CHECK(cuCtxSetCurrent(g_first));
  }
  const CUdeviceptr after = Ordered(8192);
  printf("apart %d\n", after - before >= 32 * kMiB);
  printf("before %d\n", FilledByPeer(before, 3));
  printf("after %d\n", FilledByPeer(after, 4));
}

void Attributes() {
  const CUdeviceptr cold = Ordered(1000), warm = Ordered(2000);
  for (CUdeviceptr block : {cold, warm}) {
    CUdeviceptr base = 0, start = 0, start_of_all = 0;
    size_t bytes = 0, size = 0, size_of_all = 0;
    unsigned managed = 7, managed_of_all = 7;
    CUmemoryPool pool = nullptr, standard = nullptr;
    const CUdeviceptr ptr = block + 512;
    CHECK(cuDeviceGetDefaultMemPool(&standard, 0));
    CHECK(cuMemGetAddressRange(&base, &bytes, ptr));
    CHECK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, ptr));
    CHECK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, ptr));
    CHECK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, ptr));
    CHECK(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ptr));
    CUpointer_attribute all[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                 CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void* values[] = {&start_of_all, &size_of_all, &managed_of_all};
    CHECK(cuPointerGetAttributes(std::size(all), all, values, ptr));
    printf("base %d %d %d, bytes %zu %zu %zu, managed %u %u, pool %d\n", base == block,
           start == block, start_of_all == block, bytes, size, size_of_all, managed, managed_of_all,
           pool == standard);
  }
}

void Export() {
  CUipcMemHandle handle;
  printf("export %d\n", cuIpcGetMemHandle(&handle, Linear(4096)));
}

// Launches a graph, which no launch of a kernel is part of, until something is fetched.
void Graphs() {
  Ordered(2 * kMiB);  // cold
  const CUdeviceptr block = Ordered(4096);
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  CHECK(cuStreamBeginCapture(g_stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(cuMemsetD8Async(block, 1, 4096, g_stream));
  CHECK(cuStreamEndCapture(g_stream, &graph));
  CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
  const uint64_t none = simcuda_call_count("cuEventRecord");
  for (int launch = 0; launch < 6; ++launch) {
    CHECK(cuGraphLaunch(executable, g_stream));
    printf("launch %d: %d\n", launch, static_cast<int>(simcuda_call_count("cuEventRecord") - none));
  }
  CHECK(cuCtxSynchronize());
}

}  // namespace

int main(int, char** arguments) {
  const char* action = arguments[1];
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&g_second, 1));
  CHECK(cuDevicePrimaryCtxRetain(&g_first, 0));
  CHECK(cuCtxSetCurrent(g_first));
  CHECK(cuStreamCreate(&g_stream, CU_STREAM_NON_BLOCKING));
  if (strcmp(action, "free-elsewhere") == 0) FreeElsewhere();
  if (strncmp(action, "fill-", 5) == 0) FillTwice(action + 5);
  if (strcmp(action, "peer-context") == 0) Peer(false);
  if (strcmp(action, "peer-pool") == 0) Peer(true);
  if (strcmp(action, "attributes") == 0) Attributes();
  if (strcmp(action, "export") == 0) Export();
  if (strcmp(action, "graphs") == 0) Graphs();
  if (strcmp(action, "handles") == 0) Handles();
  return 0;
}
