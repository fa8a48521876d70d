// What the simulated driver promises about addresses, memory and entry points.
#include <dlfcn.h>

#include <cstring>
#include <vector>

#include "tests/simcuda/kernel_abi.h"
#include "tests/unit/simcuda_fixture.h"

namespace ebt {
namespace {

TEST_F(SimCuda, SaysThatItIsSimulated) {
  char name[64];
  ASSERT_EQ(cuDeviceGetName(name, sizeof name, 0), CUDA_SUCCESS);
  EXPECT_STREQ(name, "NVIDIA H200 (simulated)");
  int count = 0;
  ASSERT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2);
}

TEST_F(SimCuda, AReservationLiesWhereItIsAskedForIfThatIsFree) {
  CUdeviceptr first = 0, second = 0, third = 0;
  ASSERT_EQ(cuMemAddressReserve(&first, 4 * kMiB, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressFree(first, 4 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressReserve(&second, 2 * kMiB, 0, first, 0), CUDA_SUCCESS);
  EXPECT_EQ(second, first);
  ASSERT_EQ(cuMemAddressReserve(&third, 2 * kMiB, 0, first, 0), CUDA_SUCCESS);
  EXPECT_NE(third, first);
  EXPECT_EQ(cuMemAddressFree(second, 2 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(third, 2 * kMiB), CUDA_SUCCESS);
}

TEST_F(SimCuda, OneHandleAtTwoAddressesShowsTheSameBytes) {
  CUdeviceptr range = 0;
  ASSERT_EQ(cuMemAddressReserve(&range, 4 * kMiB, 0, 0, 0), CUDA_SUCCESS);
  CUmemGenericAllocationHandle handle = Create(2 * kMiB, CU_MEM_LOCATION_TYPE_DEVICE);
  MapAt(range, 2 * kMiB, handle);
  MapAt(range + 2 * kMiB, 2 * kMiB, handle);
  ASSERT_EQ(cuMemsetD32(range + 8, 7, 1), CUDA_SUCCESS);
  uint32_t seen = 0;
  ASSERT_EQ(cuMemcpyDtoH(&seen, range + 2 * kMiB + 8, 4), CUDA_SUCCESS);
  EXPECT_EQ(seen, 7u);
  EXPECT_EQ(simcuda_device_bytes(0), 2 * kMiB);
  // The memory lives until the handle and both mappings are gone.
  ASSERT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  ASSERT_EQ(cuMemUnmap(range, 2 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(simcuda_device_bytes(0), 2 * kMiB);
  ASSERT_EQ(cuMemUnmap(range + 2 * kMiB, 2 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(simcuda_device_bytes(0), 0u);
  EXPECT_EQ(cuMemAddressFree(range, 4 * kMiB), CUDA_SUCCESS);
}

TEST_F(SimCuda, UnmappingUnderQueuedWorkFaultsForGood) {
  CUdeviceptr busy = Allocate(40 * kMiB), range = 0;
  ASSERT_EQ(cuMemAddressReserve(&range, 2 * kMiB, 0, 0, 0), CUDA_SUCCESS);
  CUmemGenericAllocationHandle handle = Create(2 * kMiB, CU_MEM_LOCATION_TYPE_DEVICE);
  MapAt(range, 2 * kMiB, handle);
  ASSERT_EQ(Occupy(busy, 10'000'000, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8Async(range, 1, 16, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemUnmap(range, 2 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr more = 0;
  EXPECT_EQ(cuMemAlloc(&more, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(range, 2 * kMiB), CUDA_SUCCESS);
}

TEST_F(SimCuda, WorkRunsOnTheMappingThatIsThereWhenItRuns) {
  CUdeviceptr busy = Allocate(40 * kMiB), range = 0;
  ASSERT_EQ(cuMemAddressReserve(&range, 4 * kMiB, 0, 0, 0), CUDA_SUCCESS);
  CUmemGenericAllocationHandle first = Create(2 * kMiB, CU_MEM_LOCATION_TYPE_DEVICE);
  CUmemGenericAllocationHandle second = Create(2 * kMiB, CU_MEM_LOCATION_TYPE_HOST_NUMA);
  MapAt(range, 2 * kMiB, first);
  ASSERT_EQ(Occupy(busy, 10'000'000, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8Async(range, 9, 1, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemUnmap(range, 2 * kMiB), CUDA_SUCCESS);
  MapAt(range, 2 * kMiB, second);
  MapAt(range + 2 * kMiB, 2 * kMiB, first);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  unsigned char in_first = 1, in_second = 1;
  ASSERT_EQ(cuMemcpyDtoH(&in_second, range, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoH(&in_first, range + 2 * kMiB, 1), CUDA_SUCCESS);
  EXPECT_EQ(in_second, 9);
  EXPECT_EQ(in_first, 0);
  EXPECT_EQ(cuMemUnmap(range, 4 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(first), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(second), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(range, 4 * kMiB), CUDA_SUCCESS);
}

TEST_F(SimCuda, TouchingAFreedPoolBlockFaults) {
  CUdeviceptr block = 0;
  ASSERT_EQ(cuMemAllocAsync(&block, 1024, stream_), CUDA_SUCCESS);
  ASSERT_EQ(Fill(block, 1, 256, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(block, stream_), CUDA_SUCCESS);
  ASSERT_EQ(Fill(block, 2, 256, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(SimCuda, AKernelPastTheEndOfItsBlockFaults) {
  CUdeviceptr block = Allocate(1024);
  ASSERT_EQ(Fill(block, 1, 257, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(SimCuda, EverythingOnTheDeviceCountsAgainstItsCapacity) {
  Allocate(200 * kMiB);
  CUmemGenericAllocationHandle handle = Create(32 * kMiB, CU_MEM_LOCATION_TYPE_DEVICE);
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle none = 0;
  // 256 - 200 - 32 = 24 MiB are left.
  EXPECT_EQ(cuMemCreate(&none, 26 * kMiB, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  CUdeviceptr block = 0;
  EXPECT_EQ(cuMemAlloc(&block, 25 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAllocAsync(&block, 25 * kMiB, stream_), CUDA_ERROR_OUT_OF_MEMORY);
  size_t free_bytes = 0, total = 0;
  ASSERT_EQ(cuMemGetInfo(&free_bytes, &total), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes, 24 * kMiB);
  EXPECT_EQ(total, 256 * kMiB);
  EXPECT_EQ(cuMemGetInfo(nullptr, &total), CUDA_SUCCESS);
  EXPECT_EQ(simcuda_peak_device_bytes(0), 232 * kMiB);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc(&block, 25 * kMiB), CUDA_SUCCESS);
}

TEST_F(SimCuda, PoolAttributesCountAndReset) {
  CUmemoryPool pool = nullptr;
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  CUdeviceptr a = 0, b = 0;
  ASSERT_EQ(cuMemAllocAsync(&a, kMiB, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&b, 2 * kMiB, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(b, stream_), CUDA_SUCCESS);
  auto get = [&](CUmemPool_attribute attribute) {
    cuuint64_t value = 0;
    EXPECT_EQ(cuMemPoolGetAttribute(pool, attribute, &value), CUDA_SUCCESS);
    return value;
  };
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), kMiB);
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 3 * kMiB);
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32 * kMiB);
  cuuint64_t zero = 0, one = 1;
  EXPECT_EQ(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero), CUDA_SUCCESS);
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_USED_MEM_HIGH), kMiB);
  // With the default threshold of 0 a synchronization gives a free chunk back.
  ASSERT_EQ(cuMemFreeAsync(a, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  EXPECT_EQ(simcuda_device_bytes(0), 0u);
}

TEST_F(SimCuda, FreedPoolMemoryServesItsStreamAtOnceAndOthersLater) {
  CUstream other = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  CUdeviceptr busy = Allocate(40 * kMiB), a = 0, b = 0, c = 0;
  ASSERT_EQ(Occupy(busy, 10'000'000, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&a, 4 * kMiB, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(a, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&b, 4 * kMiB, other), CUDA_SUCCESS);
  EXPECT_NE(b, a);
  ASSERT_EQ(cuMemAllocAsync(&c, 4 * kMiB, stream_), CUDA_SUCCESS);
  EXPECT_EQ(c, a);
  ASSERT_EQ(Fill(c, 1, kMiB, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(b), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(c), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(c, stream_), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(SimCuda, ProcAddressHonoursVersionAndStreamFlags) {
  auto look = [](const char* base, int version, cuuint64_t flags) {
    void* function = nullptr;
    cuGetProcAddress(base, &function, version, flags, nullptr);
    return function;
  };
  auto symbol = [](const char* name) { return dlsym(RTLD_DEFAULT, name); };
  EXPECT_EQ(look("cuMemAdvise", 12000, 0), symbol("cuMemAdvise"));
  EXPECT_EQ(look("cuMemAdvise", 12020, 0), symbol("cuMemAdvise_v2"));
  EXPECT_EQ(look("cuMemPrefetchAsync", 12010, 2), symbol("cuMemPrefetchAsync_ptsz"));
  EXPECT_EQ(look("cuMemPrefetchAsync", 13000, 2), symbol("cuMemPrefetchAsync_v2_ptsz"));
  EXPECT_EQ(look("cuLaunchKernel", 13000, 1), symbol("cuLaunchKernel"));
  EXPECT_EQ(look("cuLaunchKernel", 13000, 2), symbol("cuLaunchKernel_ptsz"));
  EXPECT_EQ(look("cuMemAlloc", 13000, 2), symbol("cuMemAlloc_v2"));
  EXPECT_EQ(look("cuMemAlloc", 3000, 0), symbol("cuMemAlloc"));
  EXPECT_EQ(look("cuGetProcAddress", 11030, 0), symbol("cuGetProcAddress"));
  EXPECT_EQ(look("cuGetProcAddress", 12000, 0), symbol("cuGetProcAddress_v2"));

  void* function = &function;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(cuGetProcAddress("cuMemAllocAsync", &function, 11010, 0, &status),
            CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(cuGetProcAddress("cuNoSuchThing", &function, 13000, 0, &status), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  // The runtime's first request.
  EXPECT_EQ(cuGetProcAddress("", &function, 0, 0, nullptr), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(function, nullptr);
}

TEST_F(SimCuda, TheOldAbiIsExportedAndRefuses) {
  auto alloc =
      reinterpret_cast<CUresult (*)(unsigned*, unsigned)>(dlsym(RTLD_DEFAULT, "cuMemAlloc"));
  ASSERT_NE(alloc, nullptr);
  unsigned address = 0;
  EXPECT_EQ(alloc(&address, 16), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(SimCuda, SeededFaultsStrikeTheCallsTheyName) {
  CUdeviceptr address = 0;
  auto alloc = [&] { return cuMemAlloc(&address, 512); };
  ASSERT_EQ(simcuda_set_faults("cuMemAlloc_v2:2"), 1);
  EXPECT_EQ(alloc(), CUDA_SUCCESS);
  EXPECT_EQ(alloc(), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(alloc(), CUDA_SUCCESS);
  ASSERT_EQ(simcuda_set_faults("cuMemAlloc_v2:2+=801"), 1);
  EXPECT_EQ(alloc(), CUDA_SUCCESS);
  EXPECT_EQ(alloc(), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(alloc(), CUDA_ERROR_NOT_SUPPORTED);
  ASSERT_EQ(simcuda_set_faults("cuMemFree_v2:1,cuMemAlloc_v2:%2"), 1);
  EXPECT_EQ(alloc(), CUDA_SUCCESS);
  EXPECT_EQ(alloc(), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(alloc(), CUDA_SUCCESS);
  EXPECT_EQ(alloc(), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(simcuda_set_faults("cuNoSuchThing:1"), 0);
  EXPECT_EQ(simcuda_set_faults("cuMemAlloc_v2:0"), 0);
}

TEST_F(SimCuda, CallsAreCounted) {
  const uint64_t before = simcuda_call_count("cuMemGetInfo_v2");
  cuMemGetInfo(nullptr, nullptr);
  cuMemGetInfo(nullptr, nullptr);
  EXPECT_EQ(simcuda_call_count("cuMemGetInfo_v2"), before + 2);
  EXPECT_EQ(simcuda_call_count("cuMemGetInfo*"), before + 2);  // and none of the old ABI
}

TEST_F(SimCuda, LibraryKernelsAreRefusedWhereTheDriverRefusesThem) {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  ASSERT_EQ(cuLibraryLoadData(&library, "any image", nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "ebt_axpy"), CUDA_SUCCESS);
  size_t offset = 0, bytes = 0;
  EXPECT_EQ(cuFuncGetParamInfo(reinterpret_cast<CUfunction>(kernel), 2, &offset, &bytes),
            CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(cuKernelGetParamInfo(kernel, 3, &offset, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(offset, 24u);
  EXPECT_EQ(bytes, 8u);
  EXPECT_EQ(cuKernelGetParamInfo(kernel, 4, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLibraryGetKernel(&kernel, library, "unheard_of"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
}

TEST_F(SimCuda, AddressQuestionsAreAnsweredForTheBlock) {
  CUdeviceptr block = 0, base = 0;
  size_t bytes = 0;
  ASSERT_EQ(cuMemAllocAsync(&block, 1024, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetAddressRange(&base, &bytes, block + 100), CUDA_SUCCESS);
  EXPECT_EQ(base, block);
  EXPECT_EQ(bytes, 1024u);
  CUdeviceptr start = 0;
  ASSERT_EQ(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, block + 100),
            CUDA_SUCCESS);
  EXPECT_EQ(start, block);
  CUipcMemHandle handle;
  EXPECT_EQ(cuIpcGetMemHandle(&handle, block), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcGetMemHandle(&handle, Allocate(512)), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(block, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, block), CUDA_ERROR_NOT_FOUND);
}

TEST_F(SimCuda, APeersMemoryIsReachedOnlyWhenEnabled) {
  CUdeviceptr here = Allocate(1024);
  CUcontext peer = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&peer, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(peer), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxEnablePeerAccess(context_, 0), CUDA_SUCCESS);
  ASSERT_EQ(Fill(here, 1, 256, CU_STREAM_LEGACY), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxDisablePeerAccess(context_), CUDA_SUCCESS);
  ASSERT_EQ(Fill(here, 1, 256, CU_STREAM_LEGACY), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);  // the other device is sound
}

TEST_F(SimCuda, PitchedCopiesMoveRowsAndPlanes) {
  // Two planes of two rows of two bytes, out of rows of 4 and planes of 12 bytes.
  const unsigned char host[24] = {1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0,
                                  5, 6, 0, 0, 7, 8, 0, 0, 0, 0, 0, 0};
  CUdeviceptr device = Allocate(8);
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host;
  copy.srcPitch = 4;
  copy.srcHeight = 3;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = device;
  copy.dstPitch = 2;
  copy.dstHeight = 2;
  copy.WidthInBytes = copy.Height = copy.Depth = 2;
  ASSERT_EQ(cuMemcpy3DAsync(&copy, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  unsigned char packed[8];
  ASSERT_EQ(cuMemcpyDtoH(packed, device, 8), CUDA_SUCCESS);
  const unsigned char expected[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(memcmp(packed, expected, 8), 0);

  CUDA_MEMCPY2D rows = {};
  rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = device;
  rows.srcPitch = 4;
  rows.srcXInBytes = 1;
  rows.dstMemoryType = CU_MEMORYTYPE_HOST;
  rows.dstHost = packed;
  rows.dstPitch = 2;
  rows.WidthInBytes = rows.Height = 2;
  ASSERT_EQ(cuMemcpy2D(&rows), CUDA_SUCCESS);
  const unsigned char columns[4] = {2, 3, 6, 7};
  EXPECT_EQ(memcmp(packed, columns, 4), 0);
}

TEST_F(SimCuda, KernelsComputeWhatTheyAreNamedFor) {
  CUdeviceptr x = Allocate(8), y = Allocate(8), sum = Allocate(8);
  ASSERT_EQ(Fill(x, 3, 2, stream_), CUDA_SUCCESS);
  ASSERT_EQ(Fill(y, 1, 2, stream_), CUDA_SUCCESS);
  float a = 0.5f;
  uint64_t n = 1;  // the second element stays
  void* axpy[] = {&y, &x, &a, &n};
  ASSERT_EQ(cuLaunchKernel(Function("ebt_axpy"), 1, 1, 1, 32, 1, 1, 0, stream_, axpy, nullptr),
            CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8Async(sum, 0, 8, stream_), CUDA_SUCCESS);
  n = 2;
  // By `extra`: a buffer laid out like the parameters.
  struct {
    uint64_t p, n, sum;
  } arguments = {y, 2, sum};
  size_t size = sizeof arguments;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  ASSERT_EQ(cuLaunchKernel(Function("ebt_checksum"), 1, 1, 1, 32, 1, 1, 0, stream_, nullptr, extra),
            CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  float values[2];
  uint64_t checksum = 0;
  ASSERT_EQ(cuMemcpyDtoH(values, y, 8), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoH(&checksum, sum, 8), CUDA_SUCCESS);
  EXPECT_EQ(values[0], 2.5f);
  EXPECT_EQ(values[1], 1.0f);
  // 2.5 is 0x40200000, 1.0 is 0x3f800000; the factors are 1 and 0x9e3779b97f4a7c15.
  EXPECT_EQ(checksum, 0x40200000u + 0x3f800000u * 0x9e3779b97f4a7c15u);
}

TEST_F(SimCuda, AdamOfOneTensorAndOfAListAgree) {
  // m = 0.5*0 + 0.5*2 = 1; v = 0.75*0 + 0.25*4 = 1; p = 5 - 1 * (1*2) / (sqrt(1*4) + 0) = 4.
  CUdeviceptr p[2], g = Allocate(4), m = Allocate(4), v = Allocate(4);
  ASSERT_EQ(Fill(g, 2, 1, stream_), CUDA_SUCCESS);
  float lr = 1, beta1 = 0.5f, beta2 = 0.75f, eps = 0, bias1 = 2, bias2 = 4;
  uint64_t n = 1;
  for (int i = 0; i < 2; ++i) {
    p[i] = Allocate(4);
    ASSERT_EQ(Fill(p[i], 5, 1, stream_), CUDA_SUCCESS);
    ASSERT_EQ(Fill(m, 0, 1, stream_), CUDA_SUCCESS);
    ASSERT_EQ(Fill(v, 0, 1, stream_), CUDA_SUCCESS);
    kernel::MultiAdam list = {};
    list.p[0] = p[i], list.g[0] = g, list.m[0] = m, list.v[0] = v, list.n[0] = 1;
    list.lr = lr, list.beta1 = beta1, list.beta2 = beta2, list.eps = eps;
    list.bias1 = bias1, list.bias2 = bias2, list.tensors = 1;
    void* one[] = {&p[i], &g, &m, &v, &lr, &beta1, &beta2, &eps, &bias1, &bias2, &n};
    void* many[] = {&list};
    ASSERT_EQ(cuLaunchKernel(Function(i == 0 ? "ebt_adam" : "ebt_multi_adam"), 1, 1, 1, 32, 1, 1, 0,
                             stream_, i == 0 ? one : many, nullptr),
              CUDA_SUCCESS);
    float value = 0;
    ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoH(&value, p[i], 4), CUDA_SUCCESS);
    EXPECT_EQ(value, 4.0f);
  }
}

}  // namespace
}  // namespace ebt
