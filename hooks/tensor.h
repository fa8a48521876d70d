// Tensor maps: an address goes into something opaque that kernels are given, as a parameter or
// in device memory, so that no launch shows it.
#ifndef EBBTIDE_HOOKS_TENSOR_H_
#define EBBTIDE_HOOKS_TENSOR_H_

#include "hooks/front.h"

namespace ebt::front {

inline void IntoTensorMap(const Entry& entry, const void* address) {
  AddressTaken(entry, reinterpret_cast<uintptr_t>(address), "a tensor map");
}

template <Slot slot, Mode mode>
CUresult TensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                              void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                              const cuuint32_t* box, const cuuint32_t* element_strides,
                              CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                              CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  EBT_ENTER(TensorMapEncodeTiled);
  IntoTensorMap(entry, address);
  return real(map, type, rank, address, dims, strides, box, element_strides, interleave, swizzle,
              promotion, fill);
}

template <Slot slot, Mode mode>
CUresult TensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                               void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                               const int* lower, const int* upper, cuuint32_t channels,
                               cuuint32_t pixels, const cuuint32_t* element_strides,
                               CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                               CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  EBT_ENTER(TensorMapEncodeIm2col);
  IntoTensorMap(entry, address);
  return real(map, type, rank, address, dims, strides, lower, upper, channels, pixels,
              element_strides, interleave, swizzle, promotion, fill);
}

template <Slot slot, Mode mode>
CUresult TensorMapEncodeIm2colWide(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                   void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                   int lower, int upper, cuuint32_t channels, cuuint32_t pixels,
                                   const cuuint32_t* element_strides,
                                   CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode wide,
                                   CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                   CUtensorMapFloatOOBfill fill) {
  EBT_ENTER(TensorMapEncodeIm2colWide);
  IntoTensorMap(entry, address);
  return real(map, type, rank, address, dims, strides, lower, upper, channels, pixels,
              element_strides, interleave, wide, swizzle, promotion, fill);
}

template <Slot slot, Mode mode>
CUresult TensorMapReplaceAddress(CUtensorMap* map, void* address) {
  EBT_ENTER(TensorMapReplaceAddress);
  IntoTensorMap(entry, address);
  return real(map, address);
}

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_TENSOR_H_
