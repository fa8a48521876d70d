#include "src/profile/packed_stream.h"

#include <zstd_errors.h>

#include <algorithm>
#include <new>

namespace ebt::profile {

bool StreamPacker::Begin() {
  context_.reset(ZSTD_createCCtx());
  return context_ != nullptr &&
         !ZSTD_isError(
             ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, kPackLevel)) &&
         !ZSTD_isError(ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_windowLog, kPackWindowLog));
}

bool StreamPacker::Pack(std::string_view content, uint64_t items, std::string& payload) {
  if (context_ == nullptr && !Begin()) return false;
  piece_.resize(ZSTD_compressBound(content.size()));
  ZSTD_inBuffer in{content.data(), content.size(), 0};
  size_t filled = 0;
  for (size_t waiting = 1; waiting != 0;) {
    // What earlier calls left in the compressor is none of the bound's.
    if (filled == piece_.size()) piece_.resize(piece_.size() * 2);
    ZSTD_outBuffer out{piece_.data(), piece_.size(), filled};
    waiting = ZSTD_compressStream2(context_.get(), &out, &in, ZSTD_e_flush);
    if (ZSTD_isError(waiting)) return false;
    filled = out.pos;
  }
  payload.clear();
  PutVarint(payload, content.size());
  PutVarint(payload, filled);
  payload.append(piece_, 0, filled);
  const uint64_t least = std::max((content.size() + kMostBytesAByte - 1) / kMostBytesAByte,
                                  (items + kMostItemsAByte - 1) / kMostItemsAByte);
  payload.resize(std::max<size_t>(payload.size(), least));
  return true;
}

void StreamUnpacker::Begin() {
  context_.reset(ZSTD_createDCtx());
  if (context_ == nullptr) throw std::bad_alloc();
  ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kPackWindowLog);
}

std::string_view StreamUnpacker::Unpack(Cursor& in) {
  const uint64_t payload = in.remaining();
  const uint64_t length = in.Varint();
  if (length > kMaxPayloadBytes || length > payload * kMostBytesAByte) {
    in.Fail("a packed chunk claims more content than its size allows");
  }
  const std::string_view piece = in.Bytes(in.Varint());
  for (const char byte : in.Bytes(in.remaining())) {
    if (byte != 0) in.Fail("a packed chunk is longer than what it holds");
  }
  if (!in.ok()) return {};
  if (context_ == nullptr) Begin();
  // A byte more than there should be: room to see that there is more.
  content_.resize(length + 1);
  ZSTD_inBuffer from{piece.data(), piece.size(), 0};
  ZSTD_outBuffer to{content_.data(), content_.size(), 0};
  while (from.pos < from.size && to.pos < to.size) {
    const size_t result = ZSTD_decompressStream(context_.get(), &to, &from);
    if (!ZSTD_isError(result)) continue;
    if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) throw std::bad_alloc();
    in.Fail("a chunk cannot be unpacked");
    return {};
  }
  if (to.pos != length) {
    in.Fail("a chunk does not unpack to as much as it says");
    return {};
  }
  return {content_.data(), length};
}

}  // namespace ebt::profile
