// A library that looks the driver up while it is being loaded.
#include <dlfcn.h>
#include <unistd.h>

namespace {

bool g_found;

__attribute__((constructor)) void LookUp() {
  usleep(200'000);  // the program's own first use is under way by now
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  g_found = driver != nullptr && dlsym(driver, "cuMemAlloc_v2") != nullptr;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int Found() { return g_found; }
