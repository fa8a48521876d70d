// Modules and libraries. Any image loads; what it contains is known by name alone.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "api.h"
#include "kernels.h"
#include "state.h"

namespace sim {
namespace {

struct Container;

// A CUfunction or a CUkernel. The two look alike to a program and are told apart by handle.
struct Callable {
  const Kernel* kernel;
  Container* owner;
  bool is_kernel;
  Callable* function = nullptr;  // of a CUkernel: its CUfunction, once asked for
  int dynamic_shared = 0;
};

// A CUmodule or a CUlibrary.
struct Container {
  bool is_library = false;
  std::vector<std::unique_ptr<Callable>> callables;
};

std::set<Container*>& Containers() {
  static auto* containers = new std::set<Container*>();
  return *containers;
}

std::set<Callable*>& Callables() {
  static auto* callables = new std::set<Callable*>();
  return *callables;
}

Container* ContainerOf(void* handle, bool library) {
  auto* container = static_cast<Container*>(handle);
  return Containers().count(container) != 0 && container->is_library == library ? container
                                                                                : nullptr;
}

Callable* CallableOf(void* handle) {
  auto* callable = static_cast<Callable*>(handle);
  return Callables().count(callable) != 0 ? callable : nullptr;
}

Callable* CallableOf(void* handle, bool is_kernel) {
  Callable* callable = CallableOf(handle);
  return callable != nullptr && callable->is_kernel == is_kernel ? callable : nullptr;
}

Container* NewContainer(bool library) {
  auto* container = new Container();
  container->is_library = library;
  Containers().insert(container);
  return container;
}

CUresult FindCallable(Container* container, const char* name, bool is_kernel, Callable** result) {
  if (container == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Kernel* kernel = FindKernel(name);
  if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
  for (const auto& callable : container->callables) {
    if (callable->kernel == kernel && callable->is_kernel == is_kernel) {
      *result = callable.get();
      return CUDA_SUCCESS;
    }
  }
  container->callables.push_back(
      std::make_unique<Callable>(Callable{kernel, container, is_kernel}));
  *result = container->callables.back().get();
  Callables().insert(*result);
  return CUDA_SUCCESS;
}

CUresult CloseContainer(Container* container) {
  if (container == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& callable : container->callables) Callables().erase(callable.get());
  Containers().erase(container);
  delete container;
  return CUDA_SUCCESS;
}

CUresult ParamInfo(const Callable* callable, size_t index, size_t* offset, size_t* bytes) {
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (offset == nullptr || index >= callable->kernel->parameters.size()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *offset = callable->kernel->parameters[index].offset;
  if (bytes != nullptr) *bytes = callable->kernel->parameters[index].bytes;
  return CUDA_SUCCESS;
}

CUresult Attribute(const Callable* callable, CUfunction_attribute attribute, int* value) {
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *value = 70;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = 90;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = callable->dynamic_shared;
      return CUDA_SUCCESS;
    default:
      *value = 0;
      return attribute < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult SetAttribute(Callable* callable, CUfunction_attribute attribute, int value) {
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    if (value < 0 || value > 232448) return CUDA_ERROR_INVALID_VALUE;
    callable->dynamic_shared = value;
  }
  return attribute < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

const Kernel* KernelOfHandle(void* handle) {
  Callable* callable = CallableOf(handle);
  return callable == nullptr ? nullptr : callable->kernel;
}

CUresult ModuleLoad(CUmodule* module, const char* file) {
  if (module == nullptr || file == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (access(file, R_OK) != 0) return CUDA_ERROR_FILE_NOT_FOUND;
  return ModuleLoadData(module, file);
}

CUresult ModuleLoadData(CUmodule* module, const void* image) {
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = reinterpret_cast<CUmodule>(NewContainer(false));
  return CUDA_SUCCESS;
}

CUresult ModuleLoadDataEx(CUmodule* module, const void* image, unsigned int, CUjit_option*,
                          void**) {
  return ModuleLoadData(module, image);
}

CUresult ModuleUnload(CUmodule module) { return CloseContainer(ContainerOf(module, false)); }

CUresult ModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult ModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Callable* callable = nullptr;
  CUresult result = FindCallable(ContainerOf(module, false), name, false, &callable);
  if (result == CUDA_SUCCESS) *function = reinterpret_cast<CUfunction>(callable);
  return result;
}

CUresult ModuleGetGlobal(CUdeviceptr*, size_t*, CUmodule module, const char*) {
  return ContainerOf(module, false) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_NOT_FOUND;
}

CUresult LibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned int,
                         CUlibraryOption*, void**, unsigned int) {
  if (library == nullptr || code == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *library = reinterpret_cast<CUlibrary>(NewContainer(true));
  return CUDA_SUCCESS;
}

CUresult LibraryUnload(CUlibrary library) { return CloseContainer(ContainerOf(library, true)); }

CUresult LibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  if (kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Callable* callable = nullptr;
  CUresult result = FindCallable(ContainerOf(library, true), name, true, &callable);
  if (result == CUDA_SUCCESS) *kernel = reinterpret_cast<CUkernel>(callable);
  return result;
}

CUresult LibraryGetModule(CUmodule* module, CUlibrary library) {
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (ContainerOf(library, true) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *module = reinterpret_cast<CUmodule>(NewContainer(false));
  return CUDA_SUCCESS;
}

CUresult KernelGetFunction(CUfunction* function, CUkernel kernel) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Callable* callable = CallableOf(kernel, true);
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (callable->function == nullptr) {
    FindCallable(callable->owner, callable->kernel->name, false, &callable->function);
  }
  *function = reinterpret_cast<CUfunction>(callable->function);
  return CUDA_SUCCESS;
}

CUresult KernelGetName(const char** name, CUkernel kernel) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Callable* callable = CallableOf(kernel, true);
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = callable->kernel->name;
  return CUDA_SUCCESS;
}

CUresult KernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* bytes) {
  return ParamInfo(CallableOf(kernel, true), index, offset, bytes);
}

CUresult KernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice) {
  return Attribute(CallableOf(kernel, true), attribute, value);
}

CUresult KernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice) {
  return SetAttribute(CallableOf(kernel, true), attribute, value);
}

CUresult FuncGetName(const char** name, CUfunction function) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Callable* callable = CallableOf(function, false);
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = callable->kernel->name;
  return CUDA_SUCCESS;
}

// As the real driver: a CUkernel is refused here, though launches take one, and a function belongs
// to a context.
CUresult FuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* bytes) {
  if (CurrentContext() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return ParamInfo(CallableOf(function, false), index, offset, bytes);
}

CUresult FuncGetModule(CUmodule* module, CUfunction function) {
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Callable* callable = CallableOf(function, false);
  if (callable == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *module = reinterpret_cast<CUmodule>(callable->owner);
  return CUDA_SUCCESS;
}

CUresult FuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return Attribute(CallableOf(function), attribute, value);
}

CUresult FuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return SetAttribute(CallableOf(function), attribute, value);
}

CUresult FuncSetCacheConfig(CUfunction function, CUfunc_cache) {
  return CallableOf(function) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult FuncLoad(CUfunction function) {
  return CallableOf(function) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult FuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CallableOf(function) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult OccupancyBlocks(int* blocks, CUfunction function, int block_size, size_t shared) {
  return OccupancyBlocksFlags(blocks, function, block_size, shared, 0);
}

CUresult OccupancyBlocksFlags(int* blocks, CUfunction function, int block_size, size_t shared,
                              unsigned int) {
  if (blocks == nullptr || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (CallableOf(function) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  constexpr size_t kSharedPerMultiprocessor = 233472;
  int by_threads = std::min(2048 / block_size, 32);
  int by_shared = shared == 0 ? by_threads : static_cast<int>(kSharedPerMultiprocessor / shared);
  *blocks = block_size > 1024 ? 0 : std::min(by_threads, by_shared);
  return CUDA_SUCCESS;
}

}  // namespace sim
