// The one zstd stream of a profile file. It runs through all packed chunks: each holds what the
// stream yields when it is flushed, so a chunk is unpacked with those before it alone, and a step
// that repeats an earlier one packs to little although it lies in another chunk.
#ifndef EBBTIDE_SRC_PROFILE_PACKED_STREAM_H_
#define EBBTIDE_SRC_PROFILE_PACKED_STREAM_H_

#include <zstd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "src/profile/encoding.h"

namespace ebt::profile {

// Measured with Gpt2Stream (tests/unit/profile_gpt2_stream.h), bytes and processor time a step of
// 226 KB: level 1 12.3 KB, 0.31 ms; 3 9.6 KB, 0.40 ms; 5 7.8 KB, 0.87 ms. A window of 1 MiB holds
// too little of the steps before: 14.0 KB at level 3, and 8 MiB gain nothing over 4.
inline constexpr int kPackLevel = 3;
inline constexpr int kPackWindowLog = 22;

class StreamPacker {
 public:
  // The payload of a kZstd chunk that holds `content`, so many events or functions:
  // length of the content, length of its piece of the stream, that piece, and zeros up to what
  // kMostBytesAByte and kMostItemsAByte demand. False: no memory, and the stream has ended.
  bool Pack(std::string_view content, uint64_t items, std::string& payload);
  // Of the compressor, some 6 MiB from the first Pack on.
  size_t memory() const { return ZSTD_sizeof_CCtx(context_.get()); }

 private:
  bool Begin();

  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  };
  std::unique_ptr<ZSTD_CCtx, Free> context_;
  std::string piece_;
};

class StreamUnpacker {
 public:
  // The content of the chunk that comes next in the stream. Valid until the next call; empty once
  // !in.ok(). Throws std::bad_alloc.
  std::string_view Unpack(Cursor& in);

 private:
  void Begin();

  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_DCtx, Free> context_;
  std::string content_;
};

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_PACKED_STREAM_H_
