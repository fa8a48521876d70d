// What stands behind an arena's addresses. The address range is there from the start; memory
// comes when a part is first used.
#ifndef EBBTIDE_SRC_MEMORY_BACKING_H_
#define EBBTIDE_SRC_MEMORY_BACKING_H_

#include <cuda.h>

#include <cstdint>

namespace ebt::memory {

class Backing {
 public:
  virtual ~Backing() = default;

  virtual CUdeviceptr base() const = 0;
  virtual uint64_t size() const = 0;

  // Puts memory behind [offset, offset + bytes). CUDA_SUCCESS or the driver's refusal, after
  // which what was there before is unchanged. Thread-safe.
  virtual CUresult Ensure(uint64_t offset, uint64_t bytes) = 0;

  // Bytes of device memory behind the range now. Thread-safe.
  virtual uint64_t device_bytes() const = 0;
};

}  // namespace ebt::memory

#endif  // EBBTIDE_SRC_MEMORY_BACKING_H_
