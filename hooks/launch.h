// Everything that starts a kernel. What a kernel of the interface before CUDA 4 reads lies in state
// of the driver: it is heard of when it is put there.
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

// One call, launches on several devices: `touched` belongs to one piece of work, so what each of
// these names stays in place before any is told.
template <Slot slot, Mode mode>
CUresult LaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* list, unsigned count,
                                            unsigned flags) {
  EBT_ENTER(LaunchCooperativeKernelMultiDevice);
  for (unsigned i = 0; entry.core && list && i < count; ++i) {
    const CUDA_LAUNCH_PARAMS& one = list[i];
    const ebt_launch launch = {one.function,
                               one.hStream,
                               {one.gridDimX, one.gridDimY, one.gridDimZ},
                               {one.blockDimX, one.blockDimY, one.blockDimZ},
                               one.sharedMemBytes,
                               one.kernelParams,
                               nullptr};
    entry.core->lifecycle(EBT_KERNEL_NODE, nullptr, &launch);
    const Queuing queuing(entry, launch);
  }
  return real(list, count, flags);
}

// A launch of which nothing is known but its grid.
inline ebt_launch Bare(CUfunction function, int width, int height, CUstream stream) {
  return {function,  stream, {static_cast<unsigned>(width), static_cast<unsigned>(height), 1},
          {1, 1, 1}, 0,      nullptr,
          nullptr};
}

template <Slot slot, Mode mode>
CUresult Launch(CUfunction function) {
  EBT_ENTER(Launch);
  const Queuing queuing(entry, Bare(function, 1, 1, nullptr));
  return real(function);
}

template <Slot slot, Mode mode>
CUresult LaunchGrid(CUfunction function, int width, int height) {
  EBT_ENTER(LaunchGrid);
  const Queuing queuing(entry, Bare(function, width, height, nullptr));
  return real(function, width, height);
}

template <Slot slot, Mode mode>
CUresult LaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
  EBT_ENTER(LaunchGridAsync);
  const Queuing queuing(entry, Bare(function, width, height, stream));
  return real(function, width, height, stream);
}

// Any word that lies where an address may lie in the parameters.
template <Slot slot, Mode mode>
CUresult ParamSetv(CUfunction function, int offset, void* data, unsigned bytes) {
  EBT_ENTER(ParamSetv);
  constexpr unsigned kWord = sizeof(CUdeviceptr);
  constexpr unsigned kMost = 32764;  // bytes of parameters; more is refused
  if (bytes > kMost) return real(function, offset, data, bytes);
  const unsigned first = (kWord - static_cast<unsigned>(offset) % kWord) % kWord;
  for (unsigned at = first; data && at + kWord <= bytes; at += kWord) {
    CUdeviceptr word;
    __builtin_memcpy(&word, static_cast<const char*>(data) + at, kWord);
    AddressTaken(entry, word, "a function's parameters");
  }
  return real(function, offset, data, bytes);
}

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_LAUNCH_H_
