// cuda.h with every ABI variant declared and no macro on any name: what is exported here is
// checked by the compiler against the prototypes of the real driver.
#ifndef EBBTIDE_TESTS_SIMCUDA_ABI_H_
#define EBBTIDE_TESTS_SIMCUDA_ABI_H_

#define __CUDA_API_VERSION_INTERNAL
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#endif  // EBBTIDE_TESTS_SIMCUDA_ABI_H_
