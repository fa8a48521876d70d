// Linked to libcuda.so.1: the loader finds the functions.
#include <cstring>

#include "tests/preload/front_program.h"

namespace {

#define LINKED(name) \
  if (strcmp(base, #name) == 0) return reinterpret_cast<void*>(&name)

void* Linked(const char*, const char* base) {
  LINKED(cuInit);
  LINKED(cuDevicePrimaryCtxRetain);
  LINKED(cuCtxSetCurrent);
  LINKED(cuMemAlloc);
  LINKED(cuMemFree);
  LINKED(cuMemcpyHtoD);
  LINKED(cuMemcpyDtoH);
  LINKED(cuMemcpyDtoHAsync);
  LINKED(cuMemsetD8Async);
  LINKED(cuMemAllocAsync);
  LINKED(cuMemFreeAsync);
  LINKED(cuModuleLoadData);
  LINKED(cuModuleGetFunction);
  LINKED(cuLaunchKernel);
  LINKED(cuStreamCreate);
  LINKED(cuStreamSynchronize);
  return nullptr;
}

}  // namespace

int main() { return UseDriver(&Linked); }
