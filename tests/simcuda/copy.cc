// Copies and memsets.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "api.h"
#include "graph.h"
#include "state.h"

namespace sim {
namespace {

constexpr Ns kCopyOverhead = 2600;  // makes 64 KiB run at 17 GB/s and 4 MiB at 53
constexpr double kLink = 55, kLinkBoth = 48, kPeerLink = 400, kMemory = 3600;  // GB/s
constexpr double kManagedHostCopy = 8, kHostCopy = 10;
constexpr Ns kMemsetMinimum = Microseconds(2);

// `planes` planes of `rows` rows of `width` bytes.
struct Shape {
  uint64_t dst = 0, src = 0;
  uint64_t width = 0, rows = 1, planes = 1;
  uint64_t dst_pitch = 0, src_pitch = 0;  // bytes from row to row
  uint64_t dst_plane = 0, src_plane = 0;  // bytes from plane to plane
  uint64_t Bytes() const { return width * rows * planes; }
};

// Where a side lies may change until the copy runs, so all of this is asked then.
struct Route {
  Place dst, src;
  Engine engine = Engine::kNone;
};

Route RouteOf(const Shape& shape) {
  Route route = {PlaceOf(shape.dst), PlaceOf(shape.src)};
  const bool to = route.dst.device >= 0, from = route.src.device >= 0;
  route.engine = to && from ? Engine::kCompute
                 : to       ? Engine::kCopyIn
                 : from     ? Engine::kCopyOut
                            : Engine::kNone;
  return route;
}

Ns CopyTime(const Shape& shape, Device* device) {
  const Route route = RouteOf(shape);
  const uint64_t bytes = shape.Bytes();
  if (bytes == 0) return 0;
  if (route.engine == Engine::kNone) return Transfer(bytes, kHostCopy);
  if (route.engine == Engine::kCompute) {
    const bool peers = route.dst.device != route.src.device;
    return kCopyOverhead + (peers ? Transfer(bytes, kPeerLink) : Transfer(2 * bytes, kMemory));
  }
  const bool in = route.engine == Engine::kCopyIn;
  (in ? device->link_in : device->link_out) += bytes;
  if (route.dst.managed_host || route.src.managed_host) {
    return kCopyOverhead + Transfer(bytes, kManagedHostCopy);
  }
  const Engine other = in ? Engine::kCopyOut : Engine::kCopyIn;
  const bool busy = device->free_at[static_cast<int>(other)] > S().device_now;
  return kCopyOverhead + Transfer(bytes, busy ? kLinkBoth : kLink);
}

// Whether a device could know the address: it lies in memory of ours or in a reserved range.
bool KnownDeviceAddress(uint64_t address) {
  if (FindRegion(address) != nullptr) return true;
  auto next = S().reservations.upper_bound(address);
  if (next == S().reservations.begin()) return false;
  return address < std::prev(next)->first + std::prev(next)->second;
}

// Pageable host memory may be named by any copy; a reserved range without a mapping by none.
bool SideAccessible(uint64_t address, uint64_t bytes, bool write, Device* device) {
  if (!KnownDeviceAddress(address)) return true;
  return Accessible({address, bytes, !write, write}, device);
}

CUresult Move(const Shape& shape, Device* device) {
  for (uint64_t i = 0; i < shape.rows * shape.planes; ++i) {
    const uint64_t row = i % shape.rows, plane = i / shape.rows;
    const uint64_t dst = shape.dst + row * shape.dst_pitch + plane * shape.dst_plane;
    const uint64_t src = shape.src + row * shape.src_pitch + plane * shape.src_plane;
    if (!SideAccessible(dst, shape.width, true, device) ||
        !SideAccessible(src, shape.width, false, device)) {
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    memmove(reinterpret_cast<void*>(dst), reinterpret_cast<const void*>(src), shape.width);
  }
  return CUDA_SUCCESS;
}

Work WorkOf(const Shape& shape, Device* device) {
  Work work;
  work.engine = [shape] { return RouteOf(shape).engine; };
  work.duration = [shape, device] { return CopyTime(shape, device); };
  work.effect = [shape, device] { return Move(shape, device); };
  return work;
}

CUresult Copy(const Shape& shape, CUstream handle, bool synchronous) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (shape.Bytes() == 0) return CUDA_SUCCESS;
  if (shape.dst == 0 || shape.src == 0) return CUDA_ERROR_INVALID_VALUE;
  Device* device = stream->context->device;
  const Route route = RouteOf(shape);
  Shape from = shape;
  std::shared_ptr<std::vector<std::byte>> staged;
  const bool captured = stream->capture != nullptr;
  if (captured && synchronous) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (route.src.pageable && !KnownDeviceAddress(shape.src) && !synchronous && !captured) {
    // The driver stages pageable memory before the call returns.
    staged = std::make_shared<std::vector<std::byte>>(shape.Bytes());
    from.src = reinterpret_cast<uint64_t>(staged->data());
    from.src_pitch = shape.width;
    from.src_plane = shape.width * shape.rows;
    Shape stage = shape;
    stage.dst = from.src;
    stage.dst_pitch = shape.width;
    stage.dst_plane = shape.width * shape.rows;
    if (Move(stage, device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  }
  Work work = WorkOf(from, device);
  if (staged) work.effect = [from, device, staged] { return Move(from, device); };
  TokenRef done = Enqueue(stream, std::move(work));
  const bool blocks = synchronous || (route.dst.pageable && !KnownDeviceAddress(shape.dst)) ||
                      route.dst.managed_host || route.src.managed_host;
  if (blocks && !captured) AwaitToken(done);
  return CUDA_SUCCESS;
}

CUresult CopyLine(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream,
                  bool synchronous) {
  return Copy({.dst = dst, .src = src, .width = bytes}, stream, synchronous);
}

CUresult Copy2D(const CUDA_MEMCPY2D* copy, CUstream stream, bool synchronous) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (copy->srcMemoryType == CU_MEMORYTYPE_ARRAY || copy->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const uint64_t src = copy->srcMemoryType == CU_MEMORYTYPE_HOST
                           ? reinterpret_cast<uint64_t>(copy->srcHost)
                           : copy->srcDevice;
  const uint64_t dst = copy->dstMemoryType == CU_MEMORYTYPE_HOST
                           ? reinterpret_cast<uint64_t>(copy->dstHost)
                           : copy->dstDevice;
  Shape shape;
  shape.src_pitch = copy->srcPitch == 0 ? copy->WidthInBytes : copy->srcPitch;
  shape.dst_pitch = copy->dstPitch == 0 ? copy->WidthInBytes : copy->dstPitch;
  if (copy->WidthInBytes > shape.src_pitch || copy->WidthInBytes > shape.dst_pitch) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  shape.src = src + copy->srcY * shape.src_pitch + copy->srcXInBytes;
  shape.dst = dst + copy->dstY * shape.dst_pitch + copy->dstXInBytes;
  shape.width = copy->WidthInBytes;
  shape.rows = copy->Height;
  return Copy(shape, stream, synchronous);
}

CUresult ShapeOf(const CUDA_MEMCPY3D* copy, Shape* out) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (copy->srcMemoryType == CU_MEMORYTYPE_ARRAY || copy->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  Shape& shape = *out;
  shape.src_pitch = copy->srcPitch == 0 ? copy->WidthInBytes : copy->srcPitch;
  shape.dst_pitch = copy->dstPitch == 0 ? copy->WidthInBytes : copy->dstPitch;
  shape.src_plane = shape.src_pitch * (copy->srcHeight == 0 ? copy->Height : copy->srcHeight);
  shape.dst_plane = shape.dst_pitch * (copy->dstHeight == 0 ? copy->Height : copy->dstHeight);
  shape.src = (copy->srcMemoryType == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(copy->srcHost)
                                                         : copy->srcDevice) +
              copy->srcZ * shape.src_plane + copy->srcY * shape.src_pitch + copy->srcXInBytes;
  shape.dst = (copy->dstMemoryType == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(copy->dstHost)
                                                         : copy->dstDevice) +
              copy->dstZ * shape.dst_plane + copy->dstY * shape.dst_pitch + copy->dstXInBytes;
  shape.width = copy->WidthInBytes;
  shape.rows = copy->Height;
  shape.planes = copy->Depth;
  return CUDA_SUCCESS;
}

CUresult Copy3D(const CUDA_MEMCPY3D* copy, CUstream stream, bool synchronous) {
  Shape shape;
  const CUresult result = ShapeOf(copy, &shape);
  return result == CUDA_SUCCESS ? Copy(shape, stream, synchronous) : result;
}

// Between two pointers: lengths are bytes.
CUresult ShapeOf(const CUDA_MEMCPY3D_BATCH_OP& one, Shape* out) {
  if (one.src.type != CU_MEMCPY_OPERAND_TYPE_POINTER ||
      one.dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const auto& src = one.src.op.ptr;
  const auto& dst = one.dst.op.ptr;
  Shape& shape = *out;
  shape.src = src.ptr;
  shape.dst = dst.ptr;
  shape.width = one.extent.width;
  shape.rows = one.extent.height;
  shape.planes = one.extent.depth;
  shape.src_pitch = src.rowLength == 0 ? shape.width : src.rowLength;
  shape.dst_pitch = dst.rowLength == 0 ? shape.width : dst.rowLength;
  shape.src_plane = shape.src_pitch * (src.layerHeight == 0 ? shape.rows : src.layerHeight);
  shape.dst_plane = shape.dst_pitch * (dst.layerHeight == 0 ? shape.rows : dst.layerHeight);
  return CUDA_SUCCESS;
}

template <typename T>
void Fill(uint64_t address, T value, uint64_t count) {
  std::fill_n(reinterpret_cast<T*>(address), count, value);
}

template <typename T>
CUresult MemsetWork(CUdeviceptr address, size_t pitch, T value, size_t width, size_t height,
                    Device* device, Work* work) {
  if (address == 0 || address % sizeof(T) != 0 || !KnownDeviceAddress(address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t row_bytes = width * sizeof(T);
  auto rows_accessible = [=] {
    for (uint64_t row = 0; row < height; ++row) {
      if (!Accessible({address + row * pitch, row_bytes, false, true}, device)) return false;
    }
    return true;
  };
  work->engine = [] { return Engine::kCompute; };
  work->duration = [=]() -> Ns {
    if (!rows_accessible()) return kMemsetMinimum;
    Traffic traffic;
    AccessScope access;
    for (uint64_t row = 0; row < height; ++row) {
      Touch({address + row * pitch, row_bytes, false, true}, device, &traffic);
    }
    return std::max(kMemsetMinimum, TrafficTime(traffic));
  };
  work->effect = [=] {
    if (!rows_accessible()) return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint64_t row = 0; row < height; ++row) Fill(address + row * pitch, value, width);
    return CUDA_SUCCESS;
  };
  return CUDA_SUCCESS;
}

template <typename T>
CUresult Memset(CUdeviceptr address, size_t pitch, T value, size_t width, size_t height,
                CUstream handle) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  Work work;
  const CUresult result =
      MemsetWork(address, pitch, value, width, height, stream->context->device, &work);
  if (result == CUDA_SUCCESS) Enqueue(stream, std::move(work));
  return result;
}

CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace

CUresult Memcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  // Between two places of the device the host does not wait.
  const bool waits = PlaceOf(dst).device < 0 || PlaceOf(src).device < 0;
  return CopyLine(dst, src, bytes, nullptr, waits);
}
CUresult MemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return CopyLine(dst, src, bytes, stream, false);
}
CUresult MemcpyPeer(CUdeviceptr dst, CUcontext, CUdeviceptr src, CUcontext, size_t bytes) {
  return CopyLine(dst, src, bytes, nullptr, false);
}
CUresult MemcpyPeerAsync(CUdeviceptr dst, CUcontext, CUdeviceptr src, CUcontext, size_t bytes,
                         CUstream stream) {
  return CopyLine(dst, src, bytes, stream, false);
}
CUresult MemcpyHtoD(CUdeviceptr dst, const void* src, size_t bytes) {
  return CopyLine(dst, Address(src), bytes, nullptr, true);
}
CUresult MemcpyDtoH(void* dst, CUdeviceptr src, size_t bytes) {
  return CopyLine(Address(dst), src, bytes, nullptr, true);
}
CUresult MemcpyHtoDAsync(CUdeviceptr dst, const void* src, size_t bytes, CUstream stream) {
  return CopyLine(dst, Address(src), bytes, stream, false);
}
CUresult MemcpyDtoHAsync(void* dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return CopyLine(Address(dst), src, bytes, stream, false);
}
CUresult Memcpy2D(const CUDA_MEMCPY2D* copy) { return Copy2D(copy, nullptr, true); }
CUresult Memcpy2DAsync(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return Copy2D(copy, stream, false);
}
CUresult Memcpy3D(const CUDA_MEMCPY3D* copy) { return Copy3D(copy, nullptr, true); }
CUresult Memcpy3DAsync(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return Copy3D(copy, stream, false);
}

CUresult CopyNodeWork(const CUDA_MEMCPY3D* copy, Work* work) {
  Shape shape;
  const CUresult result = ShapeOf(copy, &shape);
  if (result == CUDA_SUCCESS) *work = WorkOf(shape, CurrentContext()->device);
  return result;
}

CUresult SetNodeWork(const CUDA_MEMSET_NODE_PARAMS_v1& set, Work* work) {
  Device* device = CurrentContext()->device;
  switch (set.elementSize) {
    case 1:
      return MemsetWork<uint8_t>(set.dst, set.pitch, static_cast<uint8_t>(set.value), set.width,
                                 set.height, device, work);
    case 2:
      return MemsetWork<uint16_t>(set.dst, set.pitch, static_cast<uint16_t>(set.value), set.width,
                                  set.height, device, work);
    case 4:
      return MemsetWork<uint32_t>(set.dst, set.pitch, set.value, set.width, set.height, device,
                                  work);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult MemcpyBatch(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                     CUmemcpyAttributes*, size_t*, size_t, size_t* failed, CUstream stream) {
  if (failed != nullptr) *failed = SIZE_MAX;
  if (dsts == nullptr || srcs == nullptr || sizes == nullptr || count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    const CUresult result = CopyLine(dsts[i], srcs[i], sizes[i], stream, false);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}
CUresult MemcpyBatch2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                      CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count,
                      CUstream stream) {
  return MemcpyBatch(dsts, srcs, sizes, count, attributes, indices, attribute_count, nullptr,
                     stream);
}
CUresult Memcpy3DBatch(size_t count, CUDA_MEMCPY3D_BATCH_OP* list, size_t* failed,
                       unsigned long long flags, CUstream stream) {
  if (failed != nullptr) *failed = SIZE_MAX;
  if (list == nullptr || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    Shape shape;
    CUresult result = ShapeOf(list[i], &shape);
    if (result == CUDA_SUCCESS) result = Copy(shape, stream, false);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}
CUresult Memcpy3DBatch2(size_t count, CUDA_MEMCPY3D_BATCH_OP* list, unsigned long long flags,
                        CUstream stream) {
  return Memcpy3DBatch(count, list, nullptr, flags, stream);
}

#define SIM_MEMSETS(bits, type)                                                                   \
  CUresult MemsetD##bits(CUdeviceptr address, type value, size_t count) {                         \
    return Memset<type>(address, 0, value, count, 1, nullptr);                                    \
  }                                                                                               \
  CUresult MemsetD##bits##Async(CUdeviceptr address, type value, size_t count, CUstream stream) { \
    return Memset<type>(address, 0, value, count, 1, stream);                                     \
  }                                                                                               \
  CUresult MemsetD2D##bits(CUdeviceptr address, size_t pitch, type value, size_t width,           \
                           size_t height) {                                                       \
    return Memset<type>(address, pitch, value, width, height, nullptr);                           \
  }                                                                                               \
  CUresult MemsetD2D##bits##Async(CUdeviceptr address, size_t pitch, type value, size_t width,    \
                                  size_t height, CUstream stream) {                               \
    return Memset<type>(address, pitch, value, width, height, stream);                            \
  }
SIM_MEMSETS(8, unsigned char)
SIM_MEMSETS(16, unsigned short)
SIM_MEMSETS(32, unsigned int)

}  // namespace sim
