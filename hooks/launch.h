// Everything that starts a kernel.
#ifndef EBBTIDE_HOOKS_LAUNCH_H_
#define EBBTIDE_HOOKS_LAUNCH_H_

#include "hooks/front.h"

namespace ebt::front {

template <Slot slot, Mode mode>
CUresult LaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      CUstream stream, void** params, void** extra) {
  EBT_ENTER(LaunchKernel);
  const Queuing queuing(entry, ebt_launch{function,
                                          Normalized<mode>(stream),
                                          {grid_x, grid_y, grid_z},
                                          {block_x, block_y, block_z},
                                          shared_bytes,
                                          params,
                                          extra});
  return real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
              params, extra);
}

template <Slot slot, Mode mode>
CUresult LaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params,
                        void** extra) {
  EBT_ENTER(LaunchKernelEx);
  if (!config) return real(config, function, params, extra);
  const Queuing queuing(entry, ebt_launch{function,
                                          Normalized<mode>(config->hStream),
                                          {config->gridDimX, config->gridDimY, config->gridDimZ},
                                          {config->blockDimX, config->blockDimY, config->blockDimZ},
                                          config->sharedMemBytes,
                                          params,
                                          extra});
  return real(config, function, params, extra);
}

template <Slot slot, Mode mode>
CUresult LaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                 unsigned grid_z, unsigned block_x, unsigned block_y,
                                 unsigned block_z, unsigned shared_bytes, CUstream stream,
                                 void** params) {
  EBT_ENTER(LaunchCooperativeKernel);
  const Queuing queuing(entry, ebt_launch{function,
                                          Normalized<mode>(stream),
                                          {grid_x, grid_y, grid_z},
                                          {block_x, block_y, block_z},
                                          shared_bytes,
                                          params,
                                          nullptr});
  return real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
              params);
}

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_LAUNCH_H_
