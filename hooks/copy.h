// Copies and memsets: a thin body a signature, one event each.
#ifndef EBBTIDE_HOOKS_COPY_H_
#define EBBTIDE_HOOKS_COPY_H_

#include "hooks/front.h"

namespace ebt::front {

inline uint64_t Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

inline void Copied(const Entry& entry, int kind, uint64_t dst, uint64_t src, size_t bytes,
                   CUstream stream, int synchronous) {
  if (!entry.core) return;
  const ebt_copy copy = {kind, dst, src, bytes, stream, synchronous};
  entry.core->copy(&copy);
}

// The default stream of a synchronous call.
template <Mode mode>
CUstream DefaultStream() {
  return Normalized<mode>(nullptr);
}

#define EBT_COPY_BODY(Body, kind, Dst, Src, dst_address, src_address)                  \
  template <Slot slot, Mode mode>                                                      \
  CUresult Body(Dst dst, Src src, size_t bytes) {                                      \
    EBT_ENTER(Body);                                                                   \
    Copied(entry, kind, dst_address, src_address, bytes, DefaultStream<mode>(), 1);    \
    return real(dst, src, bytes);                                                      \
  }                                                                                    \
  template <Slot slot, Mode mode>                                                      \
  CUresult Body##Async(Dst dst, Src src, size_t bytes, CUstream stream) {              \
    EBT_ENTER(Body##Async);                                                            \
    Copied(entry, kind, dst_address, src_address, bytes, Normalized<mode>(stream), 0); \
    return real(dst, src, bytes, stream);                                              \
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
  Copied(entry, EBT_COPY_PEER, dst, src, bytes, DefaultStream<mode>(), 1);
  return real(dst, dst_context, src, src_context, bytes);
}

template <Slot slot, Mode mode>
CUresult MemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                         CUcontext src_context, size_t bytes, CUstream stream) {
  EBT_ENTER(MemcpyPeerAsync);
  Copied(entry, EBT_COPY_PEER, dst, src, bytes, Normalized<mode>(stream), 0);
  return real(dst, dst_context, src, src_context, bytes, stream);
}

// One side of a 2D or 3D copy: the address of its first byte, 0 for an array.
inline uint64_t SideAddress(CUmemorytype type, const void* host, CUdeviceptr device) {
  if (type == CU_MEMORYTYPE_HOST) return Address(host);
  return type == CU_MEMORYTYPE_ARRAY ? 0 : device;
}

inline int SidesKind(CUmemorytype dst, CUmemorytype src) {
  if (dst == CU_MEMORYTYPE_HOST) return EBT_COPY_DTOH;
  if (src == CU_MEMORYTYPE_HOST) return EBT_COPY_HTOD;
  if (dst == CU_MEMORYTYPE_UNIFIED || src == CU_MEMORYTYPE_UNIFIED) return EBT_COPY_UNIFIED;
  return EBT_COPY_DTOD;
}

// For CUDA_MEMCPY2D and CUDA_MEMCPY3D, whose fields bear the same names.
template <typename Region>
void CopiedRegion(const Entry& entry, const Region* region, size_t bytes, CUstream stream,
                  int synchronous) {
  Copied(entry, SidesKind(region->dstMemoryType, region->srcMemoryType),
         SideAddress(region->dstMemoryType, region->dstHost, region->dstDevice),
         SideAddress(region->srcMemoryType, region->srcHost, region->srcDevice), bytes, stream,
         synchronous);
}

template <Slot slot, Mode mode>
CUresult Memcpy2D(const CUDA_MEMCPY2D* region) {
  EBT_ENTER(Memcpy2D);
  if (region)
    CopiedRegion(entry, region, region->WidthInBytes * region->Height, DefaultStream<mode>(), 1);
  return real(region);
}

template <Slot slot, Mode mode>
CUresult Memcpy2DAsync(const CUDA_MEMCPY2D* region, CUstream stream) {
  EBT_ENTER(Memcpy2DAsync);
  if (region)
    CopiedRegion(entry, region, region->WidthInBytes * region->Height, Normalized<mode>(stream), 0);
  return real(region, stream);
}

template <Slot slot, Mode mode>
CUresult Memcpy3D(const CUDA_MEMCPY3D* region) {
  EBT_ENTER(Memcpy3D);
  if (region)
    CopiedRegion(entry, region, region->WidthInBytes * region->Height * region->Depth,
                 DefaultStream<mode>(), 1);
  return real(region);
}

template <Slot slot, Mode mode>
CUresult Memcpy3DAsync(const CUDA_MEMCPY3D* region, CUstream stream) {
  EBT_ENTER(Memcpy3DAsync);
  if (region)
    CopiedRegion(entry, region, region->WidthInBytes * region->Height * region->Depth,
                 Normalized<mode>(stream), 0);
  return real(region, stream);
}

#define EBT_MEMSET_BODY(bits, Value)                                                             \
  template <Slot slot, Mode mode>                                                                \
  CUresult MemsetD##bits(CUdeviceptr dst, Value value, size_t count) {                           \
    EBT_ENTER(MemsetD##bits);                                                                    \
    Copied(entry, EBT_COPY_MEMSET, dst, 0, count * sizeof(Value), DefaultStream<mode>(), 0);     \
    return real(dst, value, count);                                                              \
  }                                                                                              \
  template <Slot slot, Mode mode>                                                                \
  CUresult MemsetD##bits##Async(CUdeviceptr dst, Value value, size_t count, CUstream stream) {   \
    EBT_ENTER(MemsetD##bits##Async);                                                             \
    Copied(entry, EBT_COPY_MEMSET, dst, 0, count * sizeof(Value), Normalized<mode>(stream), 0);  \
    return real(dst, value, count, stream);                                                      \
  }                                                                                              \
  template <Slot slot, Mode mode>                                                                \
  CUresult MemsetD2D##bits(CUdeviceptr dst, size_t pitch, Value value, size_t width,             \
                           size_t height) {                                                      \
    EBT_ENTER(MemsetD2D##bits);                                                                  \
    Copied(entry, EBT_COPY_MEMSET, dst, 0, width* height * sizeof(Value), DefaultStream<mode>(), \
           0);                                                                                   \
    return real(dst, pitch, value, width, height);                                               \
  }                                                                                              \
  template <Slot slot, Mode mode>                                                                \
  CUresult MemsetD2D##bits##Async(CUdeviceptr dst, size_t pitch, Value value, size_t width,      \
                                  size_t height, CUstream stream) {                              \
    EBT_ENTER(MemsetD2D##bits##Async);                                                           \
    Copied(entry, EBT_COPY_MEMSET, dst, 0, width* height * sizeof(Value),                        \
           Normalized<mode>(stream), 0);                                                         \
    return real(dst, pitch, value, width, height, stream);                                       \
  }
EBT_MEMSET_BODY(8, unsigned char)
EBT_MEMSET_BODY(16, unsigned short)
EBT_MEMSET_BODY(32, unsigned int)
#undef EBT_MEMSET_BODY

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_COPY_H_
