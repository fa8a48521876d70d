// A library of a job's own that allocates: on the calling thread and on one that it makes.
#include <cuda.h>

#include <cstddef>
#include <thread>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

[[gnu::noinline]] CUresult Allocate(size_t bytes) {
  CUcontext context = nullptr;
  CUdeviceptr block = 0;
  CUresult result = cuDevicePrimaryCtxRetain(&context, 0);
  if (result == CUDA_SUCCESS) result = cuCtxSetCurrent(context);
  if (result == CUDA_SUCCESS) result = cuMemAlloc(&block, bytes);
  return result;
}

}  // namespace

EXPORTED int native_allocate(size_t bytes) { return Allocate(bytes); }

EXPORTED int native_allocate_on_a_thread(size_t bytes) {
  CUresult result = CUDA_ERROR_UNKNOWN;
  std::thread([&] { result = Allocate(bytes); }).join();
  return result;
}
