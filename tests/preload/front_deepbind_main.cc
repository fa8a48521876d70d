// front_deepbind_main [MODE LIBRARY]...: uses the driver by way of each library, loaded with
// RTLD_DEEPBIND where MODE says "deep"; without any it only loads the driver.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int count, char** arguments) {
  if (!dlopen("libcuda.so.1", RTLD_NOW)) return 98;
  for (int i = 1; i + 1 < count; i += 2) {
    const int deep = strcmp(arguments[i], "deep") == 0 ? RTLD_DEEPBIND : 0;
    void* library = dlopen(arguments[i + 1], RTLD_LAZY | RTLD_LOCAL | deep);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 97;
    const auto use = reinterpret_cast<int (*)()>(dlsym(library, "UseOnce"));
    const int failed = use ? use() : 96;
    if (failed) return failed;
  }
  return 0;
}
