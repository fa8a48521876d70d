// The kernels that the simulated device can compute, found by name in any image.
#ifndef EBBTIDE_TESTS_SIMCUDA_KERNELS_H_
#define EBBTIDE_TESTS_SIMCUDA_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "clock.h"
#include "memory.h"

namespace sim {

struct Parameter {
  size_t offset = 0, bytes = 0;
};

struct Grid {
  unsigned blocks[3] = {1, 1, 1};
  unsigned threads[3] = {1, 1, 1};
  // Elements that the x dimension covers.
  uint64_t Width() const { return uint64_t{blocks[0]} * threads[0]; }
};

struct Kernel {
  const char* name;
  std::vector<Parameter> parameters;
  size_t parameter_bytes;
  // What the launch touches, from its packed parameters.
  std::vector<Span> (*spans)(const std::byte* parameters, const Grid& grid);
  // Computes it. Only called when all that it touches may be accessed.
  void (*run)(const std::byte* parameters, const Grid& grid);
  // Arithmetic time an element, in picoseconds, beside the memory traffic.
  uint64_t picoseconds = 0;
  // What it touches through pointers that lie in device memory: asked when it runs, and only when
  // every one of `spans` may be accessed. Null: nothing.
  std::vector<Span> (*reached)(const std::byte* parameters, const Grid& grid) = nullptr;
};

// Null: no such kernel.
const Kernel* FindKernel(const std::string& name);

// The kernel behind a CUfunction or a CUkernel; null when the handle is neither.
const Kernel* KernelOfHandle(void* handle);

}  // namespace sim

#endif  // EBBTIDE_TESTS_SIMCUDA_KERNELS_H_
