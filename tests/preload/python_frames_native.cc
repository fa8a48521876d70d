// A library of a job's own: it allocates, on the calling thread and on one that it makes, and calls
// from as far down as one likes.
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

EXPORTED [[gnu::noinline]] int native_call_below(int depth, int (*function)(char*, int), char* out,
                                                 int size) {
  const int result =
      depth == 0 ? function(out, size) : native_call_below(depth - 1, function, out, size);
  asm volatile("");  // no tail call: every level must have a frame
  return result;
}
