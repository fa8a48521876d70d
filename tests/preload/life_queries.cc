#include "tests/preload/life_queries.h"

#include <cuda.h>
#include <stdio.h>
#include <unistd.h>

#include <cstdint>
#include <iterator>

#include "tests/preload/pointer_attributes.h"

namespace ebt::test {
namespace {

constexpr size_t kCount = std::size(kSameAnswers);
constexpr uint64_t kUnwritten = 0x7777'7777'7777'7777;

struct Known {
  CUcontext context;
  CUmemoryPool pool;
};

// An address, context or pool by what it is to the block.
void Print(const char* how, CUpointer_attribute attribute, int result, uint64_t word,
           CUdeviceptr block, const Known& known) {
  if (word == block && block != 0) {
    printf("  %s %d: %d base\n", how, attribute, result);
  } else if (word > block && word < block + (4 << 20) && block != 0) {
    printf("  %s %d: %d base + %d\n", how, attribute, result, static_cast<int>(word - block));
  } else if (word == reinterpret_cast<uintptr_t>(known.context)) {
    printf("  %s %d: %d the context\n", how, attribute, result);
  } else if (word == reinterpret_cast<uintptr_t>(known.pool)) {
    printf("  %s %d: %d the pool\n", how, attribute, result);
  } else {
    printf("  %s %d: %d %llx\n", how, attribute, result, static_cast<unsigned long long>(word));
  }
}

void Ask(const char* what, CUdeviceptr block, CUdeviceptr ptr, const Known& known) {
  printf("%s\n", what);
  uint64_t words[kCount];
  void* values[kCount];
  CUpointer_attribute attributes[kCount];
  for (size_t i = 0; i < kCount; ++i) {
    words[i] = kUnwritten;
    const int result = cuPointerGetAttribute(&words[i], kSameAnswers[i], ptr);
    // Where one answer is an error, what was written is not looked at.
    Print("one", kSameAnswers[i], result, result == CUDA_SUCCESS ? words[i] : 0, block, known);
    attributes[i] = kSameAnswers[i];
    words[i] = kUnwritten;
    values[i] = &words[i];
  }
  const int result = cuPointerGetAttributes(kCount, attributes, values, ptr);
  for (size_t i = 0; i < kCount; ++i)
    Print("several", kSameAnswers[i], result, words[i], block, known);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  const int range = cuMemGetAddressRange(&base, &bytes, ptr);
  printf("  range %d: %d %d\n", range, base == block, static_cast<int>(bytes));
  printf("  none %d %d %d\n", cuMemGetAddressRange(nullptr, nullptr, ptr),
         cuPointerGetAttribute(nullptr, CU_POINTER_ATTRIBUTE_RANGE_SIZE, ptr),
         cuPointerGetAttributes(1, nullptr, nullptr, ptr));
  values[0] = nullptr;
  printf("  one of none %d\n", cuPointerGetAttributes(kCount, attributes, values, ptr));
}

int Set(CUdeviceptr ptr, unsigned value) {
  return cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr);
}

void Ids(CUdeviceptr linear, CUdeviceptr ordered) {
  uint64_t of_linear = 0, of_middle = 0, of_ordered = 0;
  cuPointerGetAttribute(&of_linear, CU_POINTER_ATTRIBUTE_BUFFER_ID, linear);
  cuPointerGetAttribute(&of_middle, CU_POINTER_ATTRIBUTE_BUFFER_ID, linear + 4096);
  cuPointerGetAttribute(&of_ordered, CU_POINTER_ATTRIBUTE_BUFFER_ID, ordered);
  printf("ids %d %d\n", of_linear == of_middle, of_linear != of_ordered);
}

struct Blocks {
  Known known{};
  CUdeviceptr linear = 0, ordered = 0;
  Blocks() {
    cuDevicePrimaryCtxRetain(&known.context, 0);
    cuCtxSetCurrent(known.context);
    cuDeviceGetDefaultMemPool(&known.pool, 0);
    cuMemAlloc(&linear, 2 << 20);
    cuMemAllocAsync(&ordered, 1 << 20, nullptr);
  }
};

}  // namespace

int Queries() {
  Blocks blocks;
  const auto& [known, linear, ordered] = blocks;
  Ask("linear", linear, linear, known);
  Ask("linear, inside", linear, linear + 1000, known);
  Ask("linear, behind", linear, linear + (2 << 20), known);
  Ask("ordered", ordered, ordered, known);
  Ask("ordered, inside", ordered, ordered + (1 << 20) - 1, known);
  Ids(linear, ordered);
  printf("set %d %d %d\n", Set(linear, 1), Set(linear + (2 << 20), 1),
         cuPointerSetAttribute(nullptr, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, linear));
  Ask("linear, set", linear, linear, known);
  printf("unset %d\n", Set(linear, 0));
  size_t total = 0;
  printf("info %d %d %d, %d\n", cuMemGetInfo(nullptr, &total), cuMemGetInfo(&total, nullptr),
         cuMemGetInfo(nullptr, nullptr), total > 0);
  printf("middle %d %d\n", cuMemFree(linear + 4096), cuMemFreeAsync(ordered + 4096, nullptr));
  printf("free %d, again %d\n", cuMemFree(linear), cuMemFree(linear));
  Ask("linear, freed", linear, linear, known);
  printf("free %d, again %d\n", cuMemFreeAsync(ordered, nullptr), cuMemFreeAsync(ordered, nullptr));
  int local = 0;
  Ask("host", 0, reinterpret_cast<CUdeviceptr>(&local), known);
  printf("foreign %d\n", cuMemFree(reinterpret_cast<CUdeviceptr>(&local)));
  return 0;
}

int Pools() {
  const Blocks blocks;
  const CUmemoryPool pool = blocks.known.pool;
  const auto get = [&](CUmemPool_attribute attribute) {
    cuuint64_t value = 0;
    const int result = cuMemPoolGetAttribute(pool, attribute, &value);
    return result == CUDA_SUCCESS ? static_cast<long long>(value) : -result;
  };
  const auto set = [&](CUmemPool_attribute attribute, cuuint64_t value) {
    return cuMemPoolSetAttribute(pool, attribute, &value);
  };
  const auto flag = [&](CUmemPool_attribute attribute, int value) {
    int read = -1;
    const int result = cuMemPoolSetAttribute(pool, attribute, &value);
    cuMemPoolGetAttribute(pool, attribute, &read);
    printf("flag %d: %d %d\n", attribute, result, read);
  };
  printf("threshold %d %lld\n", set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, uint64_t{1} << 40),
         get(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
  flag(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 0);
  flag(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 0);
  flag(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1);
  const auto tell = [&](const char* when) {
    size_t free_bytes = 0, total = 0;
    cuMemGetInfo(&free_bytes, &total);
    const long long used = get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    printf("%s: used %lld, high %lld, reserved covers it %d %d, fits %d\n", when, used,
           get(CU_MEMPOOL_ATTR_USED_MEM_HIGH), get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= used,
           get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
           free_bytes + static_cast<size_t>(used) <= total);
  };
  tell("one");
  CUdeviceptr second = 0;
  printf("more %d\n", cuMemAllocFromPoolAsync(&second, 3 << 20, pool, nullptr));
  tell("two");
  printf("freed %d\n", cuMemFreeAsync(second, nullptr));
  tell("freed");
  printf("reset %d %d\n", set(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0),
         set(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0));
  tell("reset");
  printf("wrong %d %d\n", set(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 7),
         cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(99), &second));
  printf("trim %d %d\n", cuMemPoolTrimTo(pool, 0), cuMemPoolTrimTo(pool, 1 << 30));
  tell("trimmed");
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, {0}};
  CUmemGenericAllocationHandle handle = 0;
  printf("host %d", cuMemCreate(&handle, 2 << 20, &properties, 0));
  printf(" %d\n", cuMemRelease(handle));
  return 0;
}

int Exports() {
  const Blocks blocks;
  for (const CUdeviceptr block : {blocks.linear, blocks.ordered}) {
    CUipcMemHandle handle;
    CUmemPoolPtrExportData data;
    CUmemGenericAllocationHandle generic = 0;
    int file = -1;
    const int ipc = cuIpcGetMemHandle(&handle, block);
    const int range = cuMemGetHandleForAddressRange(&file, block, 1 << 20,
                                                    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    const int retain = cuMemRetainAllocationHandle(&generic, reinterpret_cast<void*>(block));
    printf("%d %d %d %d, file %d\n", ipc, range, retain, cuMemPoolExportPointer(&data, block),
           file >= 0);
  }
  return 0;
}

// A prefetch of nothing is an error in the driver; other work of no bytes is none.
int NoBytes() {
  const Blocks blocks;
  CUdeviceptr managed = 0, native = 0;
  cuMemAllocManaged(&managed, 2 << 20, CU_MEM_ATTACH_GLOBAL);
  cuMemAlloc(&native, 5 << 20);  // larger than what a plan knows
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  int local = 0;
  const struct {
    const char* name;
    CUdeviceptr ptr;
  } places[] = {{"linear", blocks.linear},
                {"linear, inside", blocks.linear + 4096},
                {"linear, behind", blocks.linear + (2 << 20)},
                {"ordered", blocks.ordered},
                {"managed", managed},
                {"native", native},
                {"host", reinterpret_cast<CUdeviceptr>(&local)},
                {"null", 0}};
  const CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  for (const auto& [name, ptr] : places) {
    printf("%s: prefetch %d, advise %d %d, ", name, cuMemPrefetchAsync(ptr, 0, device, 0, stream),
           cuMemAdvise(ptr, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, device),
           cuMemAdvise(ptr, 0, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
    printf("copy %d %d %d %d %d %d, ", cuMemcpy(ptr, native, 0), cuMemcpyDtoD(ptr, native, 0),
           cuMemcpyHtoD(ptr, &local, 0), cuMemcpyDtoH(&local, ptr, 0),
           cuMemcpyDtoDAsync(native, ptr, 0, stream), cuMemcpyHtoDAsync(ptr, &local, 0, stream));
    printf("set %d %d %d %d %d, ", cuMemsetD8(ptr, 1, 0), cuMemsetD32(ptr, 1, 0),
           cuMemsetD8Async(ptr, 1, 0, stream), cuMemsetD2D8(ptr, 4096, 1, 0, 4),
           cuMemsetD2D32Async(ptr, 4096, 1, 16, 0, stream));
    CUDA_MEMCPY2D rows = {};
    rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.srcDevice = native;
    rows.dstDevice = ptr;
    rows.srcPitch = rows.dstPitch = 4096;
    rows.WidthInBytes = 16;
    const int no_rows = cuMemcpy2DAsync(&rows, stream);
    rows.Height = 4;
    rows.WidthInBytes = 0;
    printf("rows %d %d\n", no_rows, cuMemcpy2DAsync(&rows, stream));
  }
  printf("empty %d %d\n", cuMemFree(0), cuMemFreeAsync(0, stream));
  CUdeviceptr nothing = 7;
  printf("of no bytes %d", cuMemAlloc(&nothing, 0));
  printf(" %d\n", cuMemAllocAsync(&nothing, 0, stream));
  printf("all of it %d\n", cuCtxSynchronize());
  return 0;
}

}  // namespace ebt::test
