// The end of streams, contexts, devices and of what kernels are in: what the core knows of them
// ends too. And who may reach into whose memory.
#ifndef EBBTIDE_HOOKS_CONTEXT_H_
#define EBBTIDE_HOOKS_CONTEXT_H_

#include "hooks/front.h"

namespace ebt::front {

template <Slot slot, Mode mode>
CUresult StreamDestroy(CUstream stream) {
  EBT_ENTER(StreamDestroy);
  if (entry.core) entry.core->lifecycle(EBT_STREAM_DESTROY, stream, nullptr);
  return real(stream);
}

template <Slot slot, Mode mode>
CUresult CtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  EBT_ENTER(CtxEnablePeerAccess);
  const CUresult result = real(peer, flags);
  if (entry.core && result == CUDA_SUCCESS) entry.core->lifecycle(EBT_PEER_CONTEXT, peer, nullptr);
  return result;
}

template <Slot slot, Mode mode>
CUresult CtxDestroy(CUcontext context) {
  EBT_ENTER(CtxDestroy);
  if (entry.core) entry.core->lifecycle(EBT_CONTEXT_DESTROY, context, nullptr);
  return real(context);
}

// Whatever is given up, functions may end with it.
template <Slot slot, Mode mode>
CUresult EndFunctions(void* of) {
  EBT_ENTER(EndFunctions);
  if (entry.core) entry.core->lifecycle(EBT_FUNCTIONS_END, of, nullptr);
  return real(of);
}

inline void* DeviceObject(CUdevice device) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(device));
}

template <Slot slot, Mode mode>
CUresult PrimaryCtxReset(CUdevice device) {
  EBT_ENTER(PrimaryCtxReset);
  if (entry.core) entry.core->lifecycle(EBT_PRIMARY_RESET, DeviceObject(device), nullptr);
  return real(device);
}

// Whether it was the last reference only the driver knows, and only afterwards.
template <Slot slot, Mode mode>
CUresult PrimaryCtxRelease(CUdevice device) {
  EBT_ENTER(PrimaryCtxRelease);
  if (entry.core) entry.core->lifecycle(EBT_PRIMARY_RELEASE, DeviceObject(device), nullptr);
  const CUresult result = real(device);
  if (entry.core) entry.core->lifecycle(EBT_PRIMARY_RELEASED, DeviceObject(device), nullptr);
  return result;
}

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_CONTEXT_H_
