// What the engine wants to find in a driver, where the table does not list it.
#include "src/driver/driver_api.h"

#define EBT_REST(name, parameters)                                                             \
  extern "C" __attribute__((weak, visibility("default"))) int front_whole_##name() asm(#name); \
  int front_whole_##name() { return CUDA_ERROR_NOT_SUPPORTED; }
EBT_DRIVER_FUNCTIONS(EBT_REST)
#undef EBT_REST
