// Copies and memsets: a thin body a signature, one event each.
#ifndef EBBTIDE_HOOKS_COPY_H_
#define EBBTIDE_HOOKS_COPY_H_

#include "hooks/front.h"

namespace ebt::front {

inline uint64_t Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// A copy of bytes that lie one behind the other on both sides.
inline ebt_copy Flat(int kind, uint64_t dst, uint64_t src, size_t bytes, CUstream stream,
                     int synchronous) {
  return {kind, dst, src, bytes, stream, synchronous, bytes, bytes};
}

// The default stream of a synchronous call.
template <Mode mode>
CUstream DefaultStream() {
  return Normalized<mode>(nullptr);
}

#define EBT_COPY_BODY(Body, kind, Dst, Src, dst_address, src_address)                             \
  template <Slot slot, Mode mode>                                                                 \
  CUresult Body(Dst dst, Src src, size_t bytes) {                                                 \
    EBT_ENTER(Body);                                                                              \
    const Queuing queuing(entry,                                                                  \
                          Flat(kind, dst_address, src_address, bytes, DefaultStream<mode>(), 1)); \
    return real(dst, src, bytes);                                                                 \
  }                                                                                               \
  template <Slot slot, Mode mode>                                                                 \
  CUresult Body##Async(Dst dst, Src src, size_t bytes, CUstream stream) {                         \
    EBT_ENTER(Body##Async);                                                                       \
    const Queuing queuing(                                                                        \
        entry, Flat(kind, dst_address, src_address, bytes, Normalized<mode>(stream), 0));         \
    return real(dst, src, bytes, stream);                                                         \
  }
EBT_COPY_BODY(MemcpyUnified, EBT_COPY_UNIFIED, CUdeviceptr, CUdeviceptr, dst, src)
EBT_COPY_BODY(MemcpyHtoD, EBT_COPY_HTOD, CUdeviceptr, const void*, dst, Address(src))
EBT_COPY_BODY(MemcpyDtoH, EBT_COPY_DTOH, void*, CUdeviceptr, Address(dst), src)
EBT_COPY_BODY(MemcpyDtoD, EBT_COPY_DTOD, CUdeviceptr, CUdeviceptr, dst, src)
#undef EBT_COPY_BODY

template <Slot slot, Mode mode>
CUresult MemcpyPeer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                    size_t bytes) {
  EBT_ENTER(MemcpyPeer);
  const Queuing queuing(entry, Flat(EBT_COPY_PEER, dst, src, bytes, DefaultStream<mode>(), 1));
  return real(dst, dst_context, src, src_context, bytes);
}

template <Slot slot, Mode mode>
CUresult MemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                         CUcontext src_context, size_t bytes, CUstream stream) {
  EBT_ENTER(MemcpyPeerAsync);
  const Queuing queuing(entry, Flat(EBT_COPY_PEER, dst, src, bytes, Normalized<mode>(stream), 0));
  return real(dst, dst_context, src, src_context, bytes, stream);
}

// One side of a 2D or 3D copy: where its first byte is, and how far it is to behind the last.
struct Side {
  uint64_t address = 0;  // 0 for an array
  uint64_t span = 0;
};

// Rows `pitch` bytes apart, slices `rows` rows apart; at (x bytes, y rows, z slices) begins what
// is `width` bytes wide, `height` rows high and `depth` slices deep.
struct Box {
  size_t width, height, depth;
};
inline Side SideOf(CUmemorytype type, const void* host, CUdeviceptr device, size_t pitch,
                   size_t rows, size_t x, size_t y, size_t z, const Box& box) {
  if (type == CU_MEMORYTYPE_ARRAY || box.width == 0 || box.height == 0 || box.depth == 0) return {};
  const uint64_t base = type == CU_MEMORYTYPE_HOST ? Address(host) : device;
  const uint64_t slice = pitch * rows;
  return {base + z * slice + y * pitch + x,
          (box.depth - 1) * slice + (box.height - 1) * pitch + box.width};
}

inline int SidesKind(CUmemorytype dst, CUmemorytype src) {
  if (dst == CU_MEMORYTYPE_HOST) return EBT_COPY_DTOH;
  if (src == CU_MEMORYTYPE_HOST) return EBT_COPY_HTOD;
  if (dst == CU_MEMORYTYPE_UNIFIED || src == CU_MEMORYTYPE_UNIFIED) return EBT_COPY_UNIFIED;
  return EBT_COPY_DTOD;
}

inline ebt_copy Region(int kind, const Side& dst, const Side& src, const Box& box, CUstream stream,
                       int synchronous) {
  return {kind,   dst.address, src.address, box.width * box.height * box.depth,
          stream, synchronous, dst.span,    src.span};
}

inline ebt_copy RegionOf(const CUDA_MEMCPY2D* region, CUstream stream, int synchronous) {
  if (!region) return {};
  const Box box = {region->WidthInBytes, region->Height, 1};
  return Region(SidesKind(region->dstMemoryType, region->srcMemoryType),
                SideOf(region->dstMemoryType, region->dstHost, region->dstDevice, region->dstPitch,
                       0, region->dstXInBytes, region->dstY, 0, box),
                SideOf(region->srcMemoryType, region->srcHost, region->srcDevice, region->srcPitch,
                       0, region->srcXInBytes, region->srcY, 0, box),
                box, stream, synchronous);
}

// For CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER, whose fields bear the same names.
template <typename Description>
ebt_copy RegionOf(const Description* region, CUstream stream, int synchronous) {
  if (!region) return {};
  const Box box = {region->WidthInBytes, region->Height, region->Depth};
  return Region(SidesKind(region->dstMemoryType, region->srcMemoryType),
                SideOf(region->dstMemoryType, region->dstHost, region->dstDevice, region->dstPitch,
                       region->dstHeight, region->dstXInBytes, region->dstY, region->dstZ, box),
                SideOf(region->srcMemoryType, region->srcHost, region->srcDevice, region->srcPitch,
                       region->srcHeight, region->srcXInBytes, region->srcY, region->srcZ, box),
                box, stream, synchronous);
}

#define EBT_REGION_BODY(Body, Description)                                       \
  template <Slot slot, Mode mode>                                                \
  CUresult Body(const Description* region) {                                     \
    EBT_ENTER(Body);                                                             \
    const Queuing queuing(entry, RegionOf(region, DefaultStream<mode>(), 1));    \
    return real(region);                                                         \
  }                                                                              \
  template <Slot slot, Mode mode>                                                \
  CUresult Body##Async(const Description* region, CUstream stream) {             \
    EBT_ENTER(Body##Async);                                                      \
    const Queuing queuing(entry, RegionOf(region, Normalized<mode>(stream), 0)); \
    return real(region, stream);                                                 \
  }
EBT_REGION_BODY(Memcpy2D, CUDA_MEMCPY2D)
EBT_REGION_BODY(Memcpy3D, CUDA_MEMCPY3D)
EBT_REGION_BODY(Memcpy3DPeer, CUDA_MEMCPY3D_PEER)
#undef EBT_REGION_BODY

// Copies between an array, which lies at no address, and linear memory.
template <Slot slot, Mode mode>
CUresult MemcpyAtoD(CUdeviceptr dst, CUarray src, size_t offset, size_t bytes) {
  EBT_ENTER(MemcpyAtoD);
  const Queuing queuing(
      entry, Region(EBT_COPY_DTOD, {dst, bytes}, {}, {bytes, 1, 1}, DefaultStream<mode>(), 1));
  return real(dst, src, offset, bytes);
}

template <Slot slot, Mode mode>
CUresult MemcpyDtoA(CUarray dst, size_t offset, CUdeviceptr src, size_t bytes) {
  EBT_ENTER(MemcpyDtoA);
  const Queuing queuing(
      entry, Region(EBT_COPY_DTOD, {}, {src, bytes}, {bytes, 1, 1}, DefaultStream<mode>(), 1));
  return real(dst, offset, src, bytes);
}

template <Slot slot, Mode mode>
CUresult MemcpyAtoA(CUarray dst, size_t dst_offset, CUarray src, size_t src_offset, size_t bytes) {
  EBT_ENTER(MemcpyAtoA);
  const Queuing queuing(entry,
                        Region(EBT_COPY_DTOD, {}, {}, {bytes, 1, 1}, DefaultStream<mode>(), 1));
  return real(dst, dst_offset, src, src_offset, bytes);
}

inline ebt_copy OutOfArray(const void* dst, size_t bytes, CUstream stream, int synchronous) {
  return Region(EBT_COPY_DTOH, {Address(dst), bytes}, {}, {bytes, 1, 1}, stream, synchronous);
}
inline ebt_copy IntoArray(const void* src, size_t bytes, CUstream stream, int synchronous) {
  return Region(EBT_COPY_HTOD, {}, {Address(src), bytes}, {bytes, 1, 1}, stream, synchronous);
}

template <Slot slot, Mode mode>
CUresult MemcpyAtoH(void* dst, CUarray src, size_t offset, size_t bytes) {
  EBT_ENTER(MemcpyAtoH);
  const Queuing queuing(entry, OutOfArray(dst, bytes, DefaultStream<mode>(), 1));
  return real(dst, src, offset, bytes);
}

template <Slot slot, Mode mode>
CUresult MemcpyAtoHAsync(void* dst, CUarray src, size_t offset, size_t bytes, CUstream stream) {
  EBT_ENTER(MemcpyAtoHAsync);
  const Queuing queuing(entry, OutOfArray(dst, bytes, Normalized<mode>(stream), 0));
  return real(dst, src, offset, bytes, stream);
}

template <Slot slot, Mode mode>
CUresult MemcpyHtoA(CUarray dst, size_t offset, const void* src, size_t bytes) {
  EBT_ENTER(MemcpyHtoA);
  const Queuing queuing(entry, IntoArray(src, bytes, DefaultStream<mode>(), 1));
  return real(dst, offset, src, bytes);
}

template <Slot slot, Mode mode>
CUresult MemcpyHtoAAsync(CUarray dst, size_t offset, const void* src, size_t bytes,
                         CUstream stream) {
  EBT_ENTER(MemcpyHtoAAsync);
  const Queuing queuing(entry, IntoArray(src, bytes, Normalized<mode>(stream), 0));
  return real(dst, offset, src, bytes, stream);
}

inline ebt_copy Set(CUdeviceptr dst, size_t bytes, uint64_t span, CUstream stream,
                    int synchronous) {
  return {EBT_COPY_MEMSET, dst, 0, bytes, stream, synchronous, span, 0};
}

// A 2D memset: rows `pitch` bytes apart.
inline ebt_copy SetRows(CUdeviceptr dst, size_t pitch, size_t width, size_t height, CUstream stream,
                        int synchronous) {
  const uint64_t span = width == 0 || height == 0 ? 0 : (height - 1) * pitch + width;
  return Set(dst, width * height, span, stream, synchronous);
}

#define EBT_MEMSET_BODY(bits, Value)                                                              \
  template <Slot slot, Mode mode>                                                                 \
  CUresult MemsetD##bits(CUdeviceptr dst, Value value, size_t count) {                            \
    EBT_ENTER(MemsetD##bits);                                                                     \
    const Queuing queuing(                                                                        \
        entry, Set(dst, count * sizeof(Value), count * sizeof(Value), DefaultStream<mode>(), 1)); \
    return real(dst, value, count);                                                               \
  }                                                                                               \
  template <Slot slot, Mode mode>                                                                 \
  CUresult MemsetD##bits##Async(CUdeviceptr dst, Value value, size_t count, CUstream stream) {    \
    EBT_ENTER(MemsetD##bits##Async);                                                              \
    const Queuing queuing(entry, Set(dst, count * sizeof(Value), count * sizeof(Value),           \
                                     Normalized<mode>(stream), 0));                               \
    return real(dst, value, count, stream);                                                       \
  }                                                                                               \
  template <Slot slot, Mode mode>                                                                 \
  CUresult MemsetD2D##bits(CUdeviceptr dst, size_t pitch, Value value, size_t width,              \
                           size_t height) {                                                       \
    EBT_ENTER(MemsetD2D##bits);                                                                   \
    const Queuing queuing(                                                                        \
        entry, SetRows(dst, pitch, width * sizeof(Value), height, DefaultStream<mode>(), 1));     \
    return real(dst, pitch, value, width, height);                                                \
  }                                                                                               \
  template <Slot slot, Mode mode>                                                                 \
  CUresult MemsetD2D##bits##Async(CUdeviceptr dst, size_t pitch, Value value, size_t width,       \
                                  size_t height, CUstream stream) {                               \
    EBT_ENTER(MemsetD2D##bits##Async);                                                            \
    const Queuing queuing(                                                                        \
        entry, SetRows(dst, pitch, width * sizeof(Value), height, Normalized<mode>(stream), 0));  \
    return real(dst, pitch, value, width, height, stream);                                        \
  }
EBT_MEMSET_BODY(8, unsigned char)
EBT_MEMSET_BODY(16, unsigned short)
EBT_MEMSET_BODY(32, unsigned int)
#undef EBT_MEMSET_BODY

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_COPY_H_
