// A small program of the driver API, whichever way it found the functions.
#ifndef EBBTIDE_TESTS_PRELOAD_FRONT_PROGRAM_H_
#define EBBTIDE_TESTS_PRELOAD_FRONT_PROGRAM_H_

#include <cuda.h>

// An exported symbol ("cuMemAlloc_v2") and the name that cuGetProcAddress knows it by
// ("cuMemAlloc"). NULL: not to be had.
using Find = void* (*)(const char* symbol, const char* base);

// Allocates, launches and copies; 0 when every byte was right. With stream-ordered memory: 4
// allocations, 4 frees, 3 launches and 8 copies or memsets; without it (find has no
// cuMemAllocAsync): 1, 1, 0 and 2.
int UseDriver(Find find);

// Makes device 0's primary context current in the calling thread.
bool UseContext(Find find);

#endif  // EBBTIDE_TESTS_PRELOAD_FRONT_PROGRAM_H_
