// Virtual memory management by the driver API, kernels by the runtime: a range that grows and
// shrinks by whole handles in every step, and a second mapping of one of them.
#include "program.cuh"

namespace {

struct Range {
  CUmemAllocationProp properties = {};
  CUmemAccessDesc access = {};
  size_t chunk = 0;
  CUdeviceptr base = 0;
  CUmemGenericAllocationHandle handles[3] = {};
};

Range Reserve() {
  Range range;
  CUdevice device;
  REQUIRE(cuCtxGetDevice(&device));
  range.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  range.properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  range.properties.location.id = device;
  range.access.location = range.properties.location;
  range.access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  REQUIRE(cuMemGetAllocationGranularity(&range.chunk, &range.properties,
                                        CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  if (range.chunk < kBytes) range.chunk = (kBytes + range.chunk - 1) / range.chunk * range.chunk;
  REQUIRE(cuMemAddressReserve(&range.base, 4 * range.chunk, 0, 0, 0));
  return range;
}

float* At(const Range& range, int i) {
  return reinterpret_cast<float*>(range.base + i * range.chunk);
}

void Map(Range* range, int i) {
  REQUIRE(cuMemCreate(&range->handles[i], range->chunk, &range->properties, 0));
  REQUIRE(cuMemMap(range->base + i * range->chunk, range->chunk, 0, range->handles[i], 0));
  REQUIRE(cuMemSetAccess(range->base + i * range->chunk, range->chunk, &range->access, 1));
}

void Unmap(Range* range, int i) {
  REQUIRE(cuMemUnmap(range->base + i * range->chunk, range->chunk));
  REQUIRE(cuMemRelease(range->handles[i]));
}

void Step(Range* range, int step, Sum* sum) {
  Map(range, 1);
  Map(range, 2);
  float* temporary = Allocated(3 * kBytes);
  Fill<<<kBlocks, kThreads>>>(At(*range, 1), static_cast<float>(step), kCount);
  Halve<<<kBlocks, kThreads>>>(temporary, At(*range, 1), kCount);
  REQUIRE(cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(At(*range, 2)), 0, kBytes, nullptr));
  Axpy<<<kBlocks, kThreads>>>(At(*range, 2), temporary, 3.0f, kCount);
  Axpy<<<kBlocks, kThreads>>>(At(*range, 0), At(*range, 2), 0.5f, kCount);
  REQUIRE(cuMemMap(range->base + 3 * range->chunk, range->chunk, 0, range->handles[0], 0));
  REQUIRE(cuMemSetAccess(range->base + 3 * range->chunk, range->chunk, &range->access, 1));
  REQUIRE(cudaDeviceSynchronize());
  sum->AddDevice(At(*range, 3), kCount);
  REQUIRE(cuMemUnmap(range->base + 3 * range->chunk, range->chunk));
  REQUIRE(cudaFree(temporary));
  Unmap(range, 2);
  Unmap(range, 1);
}

}  // namespace

int main() {
  REQUIRE(cudaFree(nullptr));
  Range range = Reserve();
  Map(&range, 0);
  Fill<<<kBlocks, kThreads>>>(At(range, 0), 1.0f, kCount);
  Sum sum;
  for (int step = 0; step < kSteps; ++step) Step(&range, step, &sum);
  Unmap(&range, 0);
  REQUIRE(cuMemAddressFree(range.base, 4 * range.chunk));
  sum.Print();
  return 0;
}
