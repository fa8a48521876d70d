#include "driver.h"

#include <dlfcn.h>

#include <stdexcept>

namespace demo {
namespace {

using ProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t,
                                 CUdriverProcAddressQueryResult*);

void* OpenDriver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    throw std::runtime_error(std::string("no driver: ") + dlerror() +
                             "; on a machine without a GPU set LD_LIBRARY_PATH to the folder of "
                             "the simulated one (tests/simcuda in the build folder)");
  }
  return library;
}

void* Find(void* library, ProcAddress proc_address, const char* symbol, const char* base,
           int version) {
  void* function = nullptr;
  if (proc_address == nullptr) {
    function = dlsym(library, symbol);
  } else if (proc_address(base, &function, version, CU_GET_PROC_ADDRESS_DEFAULT, nullptr) !=
             CUDA_SUCCESS) {
    function = nullptr;
  }
  if (function == nullptr) {
    throw std::runtime_error(std::string("the driver has no ") + symbol +
                             "; CUDA 12.0 is the oldest that does");
  }
  return function;
}

}  // namespace

void Driver::Check(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  fn_cuGetErrorName(result, &name);
  throw std::runtime_error(std::string(call) + ": " + (name == nullptr ? "unknown error" : name) +
                           " (" + std::to_string(result) + ")");
}

Driver LoadDriver(Via via) {
  void* library = OpenDriver();
  ProcAddress proc_address = nullptr;
  if (via == Via::kProcAddress) {
    proc_address = reinterpret_cast<ProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
    if (proc_address == nullptr) throw std::runtime_error("the driver has no cuGetProcAddress_v2");
  }
  Driver driver;
#define DEMO_FIND(symbol, base, version) \
  driver.fn_##symbol =                   \
      reinterpret_cast<decltype(&::symbol)>(Find(library, proc_address, #symbol, base, version));
  DEMO_DRIVER_FUNCTIONS(DEMO_FIND)
#undef DEMO_FIND
  driver.peak_bytes =
      reinterpret_cast<decltype(driver.peak_bytes)>(dlsym(library, "simcuda_peak_device_bytes"));
  return driver;
}

}  // namespace demo
