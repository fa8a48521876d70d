// Linear memory that is read as a texture: an address goes into an object that kernels are given.
// Arrays themselves lie at no address.
#ifndef EBBTIDE_HOOKS_ARRAY_H_
#define EBBTIDE_HOOKS_ARRAY_H_

#include "hooks/front.h"

namespace ebt::front {

inline void IntoTexture(const Entry& entry, CUdeviceptr address) {
  AddressTaken(entry, address, "a texture");
}

template <Slot slot, Mode mode>
CUresult TexObjectCreate(CUtexObject* texture, const CUDA_RESOURCE_DESC* resource,
                         const CUDA_TEXTURE_DESC* description,
                         const CUDA_RESOURCE_VIEW_DESC* view) {
  EBT_ENTER(TexObjectCreate);
  if (resource && resource->resType == CU_RESOURCE_TYPE_LINEAR)
    IntoTexture(entry, resource->res.linear.devPtr);
  if (resource && resource->resType == CU_RESOURCE_TYPE_PITCH2D)
    IntoTexture(entry, resource->res.pitch2D.devPtr);
  return real(texture, resource, description, view);
}

template <Slot slot, Mode mode>
CUresult TexRefSetAddress(size_t* offset, CUtexref texture, CUdeviceptr address, size_t bytes) {
  EBT_ENTER(TexRefSetAddress);
  IntoTexture(entry, address);
  return real(offset, texture, address, bytes);
}

template <Slot slot, Mode mode>
CUresult TexRefSetAddress2D(CUtexref texture, const CUDA_ARRAY_DESCRIPTOR* description,
                            CUdeviceptr address, size_t pitch) {
  EBT_ENTER(TexRefSetAddress2D);
  IntoTexture(entry, address);
  return real(texture, description, address, pitch);
}

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_ARRAY_H_
