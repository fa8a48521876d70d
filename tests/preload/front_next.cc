// Two libraries that define the same function; the first one's asks for the next one's. Built
// twice, with NEXT_SECOND for the second. The program needs both for a function that only one has.
#include <dlfcn.h>

extern "C" {
__attribute__((visibility("default"))) const char* FrontNext();
__attribute__((visibility("default"))) const char* FrontNextFirst();
__attribute__((visibility("default"))) const char* FrontNextSecond();
}

#ifdef NEXT_SECOND
const char* FrontNext() { return "second"; }
const char* FrontNextSecond() { return "there"; }
#else
const char* FrontNext() {
  const auto next = reinterpret_cast<const char* (*)()>(dlsym(RTLD_NEXT, "FrontNext"));
  return next ? next() : "none";
}
const char* FrontNextFirst() { return FrontNext(); }
#endif
