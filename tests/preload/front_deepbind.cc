// A library that is linked to the driver, and that looks one of its functions up too.
#include <cuda.h>
#include <dlfcn.h>

// 0 when every call was right.
extern "C" __attribute__((visibility("default"))) int UseOnce() {
  CUcontext context = nullptr;
  CUdeviceptr block = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS || cuMemAlloc(&block, 4096) != CUDA_SUCCESS)
    return 1;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto release =
      driver ? reinterpret_cast<CUresult (*)(CUdeviceptr)>(dlsym(driver, "cuMemFree_v2")) : nullptr;
  return release && release(block) == CUDA_SUCCESS ? 0 : 2;
}

// Never called: nothing is bound for it.
extern "C" __attribute__((visibility("default"))) int UseManaged() {
  CUdeviceptr block = 0;
  return cuMemAllocManaged(&block, 4096, CU_MEM_ATTACH_GLOBAL);
}
