// Arrays, whose bytes lie where no program can see them, textures, which nothing samples here, and
// tensor maps.
#include <cstring>
#include <map>
#include <vector>

#include "api.h"
#include "state.h"

namespace sim {
namespace {

using Bytes = std::vector<std::byte>;

std::map<CUarray, std::unique_ptr<Bytes>>& Arrays() {
  static auto* arrays = new std::map<CUarray, std::unique_ptr<Bytes>>();
  return *arrays;
}

// [offset, offset + bytes) of an array as an address of the host; 0: there is no such place.
CUdeviceptr Inside(CUarray array, size_t offset, size_t bytes) {
  const auto found = Arrays().find(array);
  if (found == Arrays().end() || offset + bytes > found->second->size()) return 0;
  return reinterpret_cast<CUdeviceptr>(found->second->data() + offset);
}

size_t ChannelBytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    default:
      return 4;
  }
}

template <typename Handle>
CUresult NewHandle(Handle* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = (Handle)(0x7e0000000000ull + 16 * S().next_id++);
  return CUDA_SUCCESS;
}

CUresult Encode(CUtensorMap* map, void* address) {
  if (map == nullptr) return CUDA_ERROR_INVALID_VALUE;
  memcpy(map, &address, sizeof address);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult ArrayCreate(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* d) {
  if (array == nullptr || d == nullptr || d->Width == 0) return CUDA_ERROR_INVALID_VALUE;
  const size_t rows = d->Height == 0 ? 1 : d->Height;
  auto bytes = std::make_unique<Bytes>(d->Width * rows * d->NumChannels * ChannelBytes(d->Format));
  *array = reinterpret_cast<CUarray>(bytes.get());
  Arrays()[*array] = std::move(bytes);
  return CUDA_SUCCESS;
}
CUresult ArrayDestroy(CUarray array) {
  return Arrays().erase(array) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult MemcpyAtoD(CUdeviceptr dst, CUarray src, size_t offset, size_t bytes) {
  return Memcpy(dst, Inside(src, offset, bytes), bytes);
}
CUresult MemcpyDtoA(CUarray dst, size_t offset, CUdeviceptr src, size_t bytes) {
  return Memcpy(Inside(dst, offset, bytes), src, bytes);
}
CUresult MemcpyAtoA(CUarray dst, size_t dst_offset, CUarray src, size_t src_offset, size_t bytes) {
  return Memcpy(Inside(dst, dst_offset, bytes), Inside(src, src_offset, bytes), bytes);
}
CUresult MemcpyAtoH(void* dst, CUarray src, size_t offset, size_t bytes) {
  return MemcpyDtoH(dst, Inside(src, offset, bytes), bytes);
}
CUresult MemcpyHtoA(CUarray dst, size_t offset, const void* src, size_t bytes) {
  return MemcpyHtoD(Inside(dst, offset, bytes), src, bytes);
}
CUresult MemcpyAtoHAsync(void* dst, CUarray src, size_t offset, size_t bytes, CUstream stream) {
  return MemcpyDtoHAsync(dst, Inside(src, offset, bytes), bytes, stream);
}
CUresult MemcpyHtoAAsync(CUarray dst, size_t offset, const void* src, size_t bytes,
                         CUstream stream) {
  return MemcpyHtoDAsync(Inside(dst, offset, bytes), src, bytes, stream);
}

// Nothing is really compressed here. The driver refuses what lies in no memory of a device.
CUresult MemBatchDecompress(CUmemDecompressParams* list, size_t count, unsigned int flags,
                            size_t* failed, CUstream stream) {
  if (failed != nullptr) *failed = SIZE_MAX;
  if (list == nullptr || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const auto src = reinterpret_cast<CUdeviceptr>(list[i].src);
    const auto written = reinterpret_cast<CUdeviceptr>(list[i].dstActBytes);
    const auto bytes = static_cast<unsigned int>(list[i].srcNumBytes);
    CUresult result = MemcpyAsync(reinterpret_cast<CUdeviceptr>(list[i].dst), src, bytes, stream);
    if (result == CUDA_SUCCESS) result = MemsetD32Async(written, bytes, 1, stream);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult TexObjectCreate(CUtexObject* texture, const CUDA_RESOURCE_DESC* resource,
                         const CUDA_TEXTURE_DESC*, const CUDA_RESOURCE_VIEW_DESC*) {
  return resource == nullptr ? CUDA_ERROR_INVALID_VALUE : NewHandle(texture);
}
CUresult TexObjectDestroy(CUtexObject) { return CUDA_SUCCESS; }
CUresult TexRefCreate(CUtexref* texture) { return NewHandle(texture); }
CUresult TexRefSetAddress(size_t* offset, CUtexref, CUdeviceptr, size_t) {
  if (offset != nullptr) *offset = 0;
  return CUDA_SUCCESS;
}
CUresult TexRefSetAddress2D(CUtexref, const CUDA_ARRAY_DESCRIPTOR*, CUdeviceptr, size_t) {
  return CUDA_SUCCESS;
}

CUresult TensorMapTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void* address,
                        const cuuint64_t*, const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                        CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                        CUtensorMapFloatOOBfill) {
  return Encode(map, address);
}
CUresult TensorMapIm2col(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void* address,
                         const cuuint64_t*, const cuuint64_t*, const int*, const int*, cuuint32_t,
                         cuuint32_t, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                         CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return Encode(map, address);
}
CUresult TensorMapIm2colWide(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void* address,
                             const cuuint64_t*, const cuuint64_t*, int, int, cuuint32_t, cuuint32_t,
                             const cuuint32_t*, CUtensorMapInterleave, CUtensorMapIm2ColWideMode,
                             CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return Encode(map, address);
}
CUresult TensorMapReplace(CUtensorMap* map, void* address) { return Encode(map, address); }

}  // namespace sim
