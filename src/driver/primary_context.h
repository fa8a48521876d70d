// The primary context of a device, as the driver sees it: references are its affair, and nobody
// here counts them.
#ifndef EBBTIDE_SRC_DRIVER_PRIMARY_CONTEXT_H_
#define EBBTIDE_SRC_DRIVER_PRIMARY_CONTEXT_H_

#include <cuda.h>

#include "src/driver/driver_api.h"

namespace ebt {

inline bool PrimaryContextIsActive(const DriverApi& driver, CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  return driver.fn_cuDevicePrimaryCtxGetState &&
         driver.fn_cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS &&
         active != 0;
}

// NULL where it is not active. Nothing is made for the asking.
inline CUcontext PrimaryContext(const DriverApi& driver, CUdevice device) {
  CUcontext context = nullptr;
  if (!driver.fn_cuDevicePrimaryCtxRetain || !driver.fn_cuDevicePrimaryCtxRelease_v2 ||
      !PrimaryContextIsActive(driver, device) ||
      driver.fn_cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
    return nullptr;
  driver.fn_cuDevicePrimaryCtxRelease_v2(device);
  return context;
}

}  // namespace ebt

#endif  // EBBTIDE_SRC_DRIVER_PRIMARY_CONTEXT_H_
