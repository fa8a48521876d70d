// What the application of the conformance suite does with a block: on the device, and in its own
// book of what every byte must be. Included by conformance_application.h alone.
#ifndef EBBTIDE_TESTS_UNIT_CONFORMANCE_OPERATIONS_H_
#define EBBTIDE_TESTS_UNIT_CONFORMANCE_OPERATIONS_H_

#include "tests/unit/conformance_application.h"

namespace ebt::test {

// Arithmetic stays away from infinity, since two machines need not agree on the bits of a NaN.
inline bool AllBelow(const float* values, size_t count, float limit) {
  return std::all_of(values, values + count,
                     [limit](float value) { return std::fabs(value) < limit; });
}

inline CUresult LaunchOver(CUfunction function, size_t count, CUstream stream, void** arguments) {
  return cuLaunchKernel(function, static_cast<unsigned>((count + 255) / 256), 1, 1, 256, 1, 1, 0,
                        stream, arguments, nullptr);
}

inline void Application::Use(size_t slot, size_t stream, uint64_t kind, uint64_t choice) {
  const bool neighbour = slots_[slot].arena != &subject_.blocks();
  if (kind < (neighbour ? 40 : 14)) {
    if (choice % 6 == 0) return FreeIdle(slot);
    return FreeIn(slot, stream, choice % 2 == 0);
  }
  const size_t size = slots_[slot].content.size();
  const size_t most = std::min(size, (choice >> 8) % 16 == 0 ? kMostFloats : kMostFloats / 16);
  const size_t count = 1 + (choice >> 12) % most;
  const size_t first = (choice >> 28) % (size - count + 1);
  // The others that it works with, at the same number of floats.
  const auto other = [&](unsigned shift) -> Access {
    size_t at = (choice >> shift) % slots_.size();
    if (slots_[at].content.size() < count) at = slot;
    return {at, at == slot ? first : slots_[at].content.size() - count, count, false};
  };
  const Access here{slot, first, count, true};
  const float value = static_cast<float>(choice >> 44);
  if (kind < 22) return Fill(slot, first, count, stream, value);
  if (kind < 36) return Axpy(here, other(40), stream, choice % 2 == 0 ? 0.5F : -0.75F);
  if (kind < 44) return Multiply(here, other(40), other(50), stream);
  if (kind < 56) return Set8(slot, first, count, stream, choice);
  if (kind < 62) return Set32(slot, first, count, stream, value);
  if (kind < 75) return Upload(slot, first, count, stream, choice);
  if (kind < 90) return Read(slot, first, count, stream);
  Copy(here, other(40), stream);
}

inline void Application::FreeIn(size_t slot, size_t stream, bool look) {
  Block& block = slots_[slot];
  if (look) Read(slot, 0, std::min(block.content.size(), kBuffer), stream);
  order_.BeforeWrite(block.uses, stream);
  Note("free", slot, stream, block.offset, block.bytes());
  block.arena->Give(block.offset, block.bytes(), order_.At(stream));
  block.content.clear();
}

inline void Application::FreeIdle(size_t slot) {
  Block& block = slots_[slot];
  order_.SynchronizeAll();
  Note("free idle", slot, 0, block.offset, block.bytes());
  block.arena->GiveIdle(block.offset, block.bytes());
  block.content.clear();
}

inline void Application::Fill(size_t slot, size_t first, size_t count, size_t stream, float value) {
  uint64_t n = count;
  CUdeviceptr p = Address(slot, first);
  void* arguments[] = {&p, &value, &n};
  Work("fill", {{slot, first, count, true}}, stream,
       [&](CUstream on) { return LaunchOver(kernels_.fill, count, on, arguments); });
  std::fill_n(Content(slot, first), count, value);
}

inline void Application::Axpy(Access y, Access x, size_t stream, float factor) {
  float* const to = Content(y.slot, y.first);
  const float* const from = Content(x.slot, x.first);
  if (!AllBelow(to, y.count, 1e30F) || !AllBelow(from, x.count, 1e30F))
    return Fill(y.slot, y.first, y.count, stream, factor);
  uint64_t n = y.count;
  CUdeviceptr to_device = Address(y.slot, y.first), from_device = Address(x.slot, x.first);
  void* arguments[] = {&to_device, &from_device, &factor, &n};
  Work("axpy", {y, x}, stream,
       [&](CUstream on) { return LaunchOver(kernels_.axpy, n, on, arguments); });
  for (size_t i = 0; i < y.count; ++i) to[i] = to[i] + factor * from[i];
}

inline void Application::Multiply(Access out, Access a, Access b, size_t stream) {
  float* const to = Content(out.slot, out.first);
  const float* const one = Content(a.slot, a.first);
  const float* const two = Content(b.slot, b.first);
  if (!AllBelow(one, a.count, 1e14F) || !AllBelow(two, b.count, 1e14F))
    return Set32(out.slot, out.first, out.count, stream, 3.0F);
  uint64_t n = out.count;
  CUdeviceptr device[] = {Address(out.slot, out.first), Address(a.slot, a.first),
                          Address(b.slot, b.first)};
  void* arguments[] = {&device[0], &device[1], &device[2], &n};
  Work("mix", {out, a, b}, stream,
       [&](CUstream on) { return LaunchOver(kernels_.mix, n, on, arguments); });
  for (size_t i = 0; i < out.count; ++i) to[i] = one[i] * two[i] + 0.5F * two[i];
}

// Of bytes, at any of them.
inline void Application::Set8(size_t slot, size_t first, size_t count, size_t stream,
                              uint64_t choice) {
  const auto value = static_cast<unsigned char>(choice % 0x40);
  const size_t skipped = (choice >> 6) % 4;
  const size_t bytes = count * sizeof(float) - skipped;
  Work("memset D8", {{slot, first, count, true}}, stream, [&](CUstream on) {
    return cuMemsetD8Async(Address(slot, first) + skipped, value, bytes, on);
  });
  memset(reinterpret_cast<unsigned char*>(Content(slot, first)) + skipped, value, bytes);
}

inline void Application::Set32(size_t slot, size_t first, size_t count, size_t stream,
                               float value) {
  Work("memset D32", {{slot, first, count, true}}, stream, [&](CUstream on) {
    return cuMemsetD32Async(Address(slot, first), std::bit_cast<uint32_t>(value), count, on);
  });
  std::fill_n(Content(slot, first), count, value);
}

inline void Application::Upload(size_t slot, size_t first, size_t count, size_t stream,
                                uint64_t choice) {
  float* const content = Content(slot, first);
  for (size_t i = 0; i < count; ++i)
    content[i] = static_cast<float>(static_cast<int32_t>(Mix(choice + i) >> 40) - (1 << 23));
  const float* source = content;  // pageable, so the driver has read it when the call returns
  if (choice % 4 != 0) {
    if (upload_used_ + count > kBuffer) Check();
    source = upload_ + upload_used_;
    memcpy(upload_ + upload_used_, content, count * sizeof(float));
    upload_used_ += count;
  }
  Work("copy in", {{slot, first, count, true}}, stream, [&](CUstream on) {
    return cuMemcpyHtoDAsync(Address(slot, first), source, count * sizeof(float), on);
  });
}

inline void Application::Copy(Access dst, Access src, size_t stream) {
  if (dst.slot == src.slot) return Fill(dst.slot, dst.first, dst.count, stream, 7.0F);
  const size_t bytes = dst.count * sizeof(float);
  Work("copy", {dst, src}, stream, [&](CUstream on) {
    return cuMemcpyDtoDAsync(Address(dst.slot, dst.first), Address(src.slot, src.first), bytes, on);
  });
  memcpy(Content(dst.slot, dst.first), Content(src.slot, src.first), bytes);
}

inline void Application::Read(size_t slot, size_t first, size_t count, size_t stream) {
  if (read_used_ + count > kBuffer) Check();
  const size_t bytes = count * sizeof(float);
  float* const to = read_ + read_used_;
  Work("copy out", {{slot, first, count, false}}, stream,
       [&](CUstream on) { return cuMemcpyDtoHAsync(to, Address(slot, first), bytes, on); });
  memcpy(expected_.data() + read_used_, Content(slot, first), bytes);
  pending_.push_back({read_used_, count, slot, first, operations_});
  read_used_ += count;
}

inline void Application::Check() {
  order_.SynchronizeAll();
  if (order_.result() == CUDA_SUCCESS &&
      memcmp(read_, expected_.data(), read_used_ * sizeof(float)) != 0) {
    for (const Pending& read : pending_) {
      for (size_t i = 0; i < read.count; ++i) {
        const auto is = std::bit_cast<uint32_t>(read_[read.at + i]);
        const auto should_be = std::bit_cast<uint32_t>(expected_[read.at + i]);
        if (is != should_be)
          return Fail(absl::StrCat("float ", read.first + i, " of block ", read.slot,
                                   ", read by operation ", read.operation, ", is 0x", absl::Hex(is),
                                   " and should be 0x", absl::Hex(should_be)));
      }
    }
  }
  pending_.clear();
  read_used_ = upload_used_ = 0;
}

}  // namespace ebt::test

#endif  // EBBTIDE_TESTS_UNIT_CONFORMANCE_OPERATIONS_H_
