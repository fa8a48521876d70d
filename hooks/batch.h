// Copies of which one call queues many: one event each, and the driver has them all at once.
#ifndef EBBTIDE_HOOKS_BATCH_H_
#define EBBTIDE_HOOKS_BATCH_H_

#include "hooks/copy.h"

namespace ebt::front {

struct FlatCopies {
  const CUdeviceptr *dsts, *srcs;
  const size_t* sizes;
  CUstream stream;
};

inline Batch BatchOf(const FlatCopies& copies, size_t count) {
  const bool whole = copies.dsts && copies.srcs && copies.sizes;
  return {&copies, whole ? count : 0, [](const void* of, size_t i, ebt_copy* out) {
            const auto& all = *static_cast<const FlatCopies*>(of);
            *out = Flat(EBT_COPY_UNIFIED, all.dsts[i], all.srcs[i], all.sizes[i], all.stream, 0);
          }};
}

template <Slot slot, Mode mode>
CUresult MemcpyBatchAsyncV1(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count,
                            size_t* failed, CUstream stream) {
  EBT_ENTER(MemcpyBatchAsyncV1);
  const FlatCopies copies = {dsts, srcs, sizes, Normalized<mode>(stream)};
  const Queuing queuing(entry, BatchOf(copies, count));
  return real(dsts, srcs, sizes, count, attributes, indices, attribute_count, failed, stream);
}

template <Slot slot, Mode mode>
CUresult MemcpyBatchAsyncV2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count,
                            CUstream stream) {
  EBT_ENTER(MemcpyBatchAsyncV2);
  const FlatCopies copies = {dsts, srcs, sizes, Normalized<mode>(stream)};
  const Queuing queuing(entry, BatchOf(copies, count));
  return real(dsts, srcs, sizes, count, attributes, indices, attribute_count, stream);
}

struct RegionCopies {
  const CUDA_MEMCPY3D_BATCH_OP* list;
  CUstream stream;
};

// Lengths are in elements: bytes between two pointers, else an array's, whose largest is taken. A
// block too many costs time, nothing else.
inline size_t ElementBytes(const CUDA_MEMCPY3D_BATCH_OP& one) {
  constexpr size_t kLargest = 16;
  return one.src.type == CU_MEMCPY_OPERAND_TYPE_POINTER &&
                 one.dst.type == CU_MEMCPY_OPERAND_TYPE_POINTER
             ? 1
             : kLargest;
}

inline Side SideOf(const CUmemcpy3DOperand& operand, const CUextent3D& extent, size_t element) {
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER || extent.width == 0 || extent.height == 0 ||
      extent.depth == 0)
    return {};
  const auto& pointer = operand.op.ptr;
  const size_t row = (pointer.rowLength ? pointer.rowLength : extent.width) * element;
  const size_t layer = (pointer.layerHeight ? pointer.layerHeight : extent.height) * row;
  return {pointer.ptr,
          (extent.depth - 1) * layer + (extent.height - 1) * row + extent.width * element};
}

inline Batch BatchOf(const RegionCopies& copies, size_t count) {
  return {&copies, copies.list ? count : 0, [](const void* of, size_t i, ebt_copy* out) {
            const auto& all = *static_cast<const RegionCopies*>(of);
            const CUDA_MEMCPY3D_BATCH_OP& one = all.list[i];
            const size_t element = ElementBytes(one);
            *out = Region(EBT_COPY_UNIFIED, SideOf(one.dst, one.extent, element),
                          SideOf(one.src, one.extent, element),
                          {one.extent.width * element, one.extent.height, one.extent.depth},
                          all.stream, 0);
          }};
}

template <Slot slot, Mode mode>
CUresult Memcpy3DBatchAsyncV1(size_t count, CUDA_MEMCPY3D_BATCH_OP* list, size_t* failed,
                              unsigned long long flags, CUstream stream) {
  EBT_ENTER(Memcpy3DBatchAsyncV1);
  const RegionCopies copies = {list, Normalized<mode>(stream)};
  const Queuing queuing(entry, BatchOf(copies, count));
  return real(count, list, failed, flags, stream);
}

template <Slot slot, Mode mode>
CUresult Memcpy3DBatchAsyncV2(size_t count, CUDA_MEMCPY3D_BATCH_OP* list, unsigned long long flags,
                              CUstream stream) {
  EBT_ENTER(Memcpy3DBatchAsyncV2);
  const RegionCopies copies = {list, Normalized<mode>(stream)};
  const Queuing queuing(entry, BatchOf(copies, count));
  return real(count, list, flags, stream);
}

struct Decompressions {
  const CUmemDecompressParams* list;
  CUstream stream;
};

// Two events each: the bytes, and the four that say how many they were.
inline Batch BatchOf(const Decompressions& all, size_t count) {
  return {&all, all.list ? 2 * count : 0, [](const void* of, size_t i, ebt_copy* out) {
            const auto& [list, stream] = *static_cast<const Decompressions*>(of);
            const CUmemDecompressParams& one = list[i / 2];
            if (i % 2 == 0) {
              *out = {EBT_COPY_DTOD,   Address(one.dst), Address(one.src),
                      one.dstNumBytes, stream,           0,
                      one.dstNumBytes, one.srcNumBytes};
            } else {
              *out = Region(EBT_COPY_DTOD, {Address(one.dstActBytes), sizeof(*one.dstActBytes)}, {},
                            {sizeof(*one.dstActBytes), 1, 1}, stream, 0);
            }
          }};
}

template <Slot slot, Mode mode>
CUresult MemBatchDecompressAsync(CUmemDecompressParams* list, size_t count, unsigned flags,
                                 size_t* failed, CUstream stream) {
  EBT_ENTER(MemBatchDecompressAsync);
  // How much will be written need not be said: then the whole block has to stay.
  for (size_t i = 0; list && i < count; ++i)
    if (list[i].dstNumBytes == 0) AddressTaken(entry, Address(list[i].dst), "a decompression");
  const Decompressions all = {list, Normalized<mode>(stream)};
  const Queuing queuing(entry, BatchOf(all, count));
  return real(list, count, flags, failed, stream);
}

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_BATCH_H_
