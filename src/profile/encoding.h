// The bytes of a profile file, one primitive at a time. profiles/FORMAT.md is the grammar;
// writer.cc and reader.cc put these together.
#ifndef EBBTIDE_SRC_PROFILE_ENCODING_H_
#define EBBTIDE_SRC_PROFILE_ENCODING_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "src/profile/types.h"

namespace ebt::profile {

// File header: magic (8 bytes), format version (u16), reserved (u16, 0). The first byte is no
// text and the line ends are there to be spoilt, so a file that went through a text-mode
// transfer is told at once.
inline constexpr std::string_view kMagic{
    "\x89"
    "EBTP\r\n\x1a",
    8};
inline constexpr uint16_t kFormatVersion = 2;
inline constexpr uint16_t kFirstPackedVersion = 2;  // chunks may be packed, blocks have codes
inline constexpr size_t kHeaderBytes = 12;

// Chunk header: type (u8), codec (u8), reserved (u16, 0), payload length (u32), CRC-32C of the
// eight bytes so far (u32), CRC-32C of the payload (u32). The header has a checksum of its own
// so that a damaged length is never mistaken for a file that was cut off.
inline constexpr size_t kChunkHeaderBytes = 16;
inline constexpr uint32_t kMaxPayloadBytes = 64u << 20;
inline constexpr size_t kMaxStringBytes = 1u << 20;

enum class ChunkType : uint8_t {
  kMetadata = 1,
  kSites = 2,
  kFunctions = 3,
  kEvents = 4,
  kEnd = 5,
  kKept = 128,
};
// Chunks of an unknown type from here on may be skipped by a reader that does not know them.
inline constexpr uint8_t kFirstOptionalChunk = 128;
// kZstd: the next piece of the one zstd stream of the file (packed_stream.h).
enum class Codec : uint8_t { kNone = 0, kZstd = 1 };
// Smaller payloads stay as they are.
inline constexpr size_t kSmallestPacked = 256;
// What bounds the memory that a file may ask for, so that a reader need not believe what it says:
// a byte of a packed payload stands for at most so many bytes and items (events, functions). A
// step of GPT-2 medium packs 24 : 1 and 1.3 events a byte; what packs better is padded.
inline constexpr uint64_t kMostBytesAByte = 64;
inline constexpr uint64_t kMostItemsAByte = 4;
// The texts of all frames of a file: a frame of five bytes may name a text of a megabyte.
inline constexpr uint64_t kMostFrameTextAByte = 1024;
inline constexpr uint64_t kMostFrameText = 256u << 20;

// What an event in the file is. The first nine are EventKind's numbers.
enum class RecordKind : uint8_t {
  kAlloc = 0,
  kFree = 1,
  kLaunch = 2,
  kCopy = 3,
  kMark = 4,
  kStep = 5,
  kPhase = 6,
  kGraph = 7,
  kFailed = 8,
  kExported = 9,
  kKept = 64,  // in no chunk of events: a block of a kKept chunk, on its way there
};
// Bit 7 of an event's tag: its sequence number is its predecessor's plus one, and left out.
inline constexpr uint8_t kNextInSequence = 0x80;

// CRC-32C (Castagnoli, reflected, polynomial 0x82f63b78), as iSCSI and ext4 use it.
uint32_t Crc32c(std::string_view bytes);

// LEB128: seven bits a byte, least significant first, bit 7 set on all but the last.
void PutVarint(std::string& out, uint64_t value);
// Zigzag (0, -1, 1, -2 … become 0, 1, 2, 3 …), then LEB128: small differences of either sign
// stay small.
void PutSigned(std::string& out, int64_t value);
void PutFixed16(std::string& out, uint16_t value);  // little-endian, as all fixed fields
void PutFixed32(std::string& out, uint32_t value);
void PutFixed64(std::string& out, uint64_t value);
// Varint length, then the bytes; what is longer than kMaxStringBytes is cut.
void PutString(std::string& out, std::string_view value);

// A block that is named: twice the number of blocks allocated since it, or twice its own number
// plus one, whichever is less. `last`: the block that was allocated last. So a step names what it
// made itself, and what lives for long, by the same codes as the step before.
void PutBlockCode(std::string& out, uint32_t block, uint32_t last);

// Reads primitives off untrusted bytes. The first failure sticks: every later read returns 0,
// so a caller may read a whole record and look at ok() once.
class Cursor {
 public:
  // base: the place of `bytes` in the file, for messages.
  explicit Cursor(std::string_view bytes, uint64_t base = 0) : bytes_(bytes), base_(base) {}

  uint8_t Byte();
  uint16_t Fixed16() { return Fixed<uint16_t>(); }
  uint32_t Fixed32() { return Fixed<uint32_t>(); }
  uint64_t Fixed64() { return Fixed<uint64_t>(); }
  uint64_t Varint();
  // A varint that must not exceed `limit`.
  uint64_t Varint(uint64_t limit, const char* what);
  int64_t Signed();
  uint32_t BlockCode(uint32_t last);
  std::string_view Bytes(uint64_t count);
  std::string_view String();
  // A number of items of at least `item_bytes` each: refused when the bytes that are left
  // cannot hold them, so that nobody reserves memory on a damaged file's word.
  uint64_t Count(size_t item_bytes, const char* what);

  void Fail(const char* reason);
  bool ok() const { return reason_ == nullptr; }
  const char* reason() const { return reason_; }
  size_t remaining() const { return bytes_.size() - at_; }
  uint64_t offset() const { return base_ + at_; }  // in the file; where it failed once !ok()

 private:
  template <typename T>
  T Fixed() {
    if (!ok()) return 0;
    if (remaining() < sizeof(T)) {
      Fail("a number ends outside its chunk");
      return 0;
    }
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value |= static_cast<T>(static_cast<T>(static_cast<uint8_t>(bytes_[at_ + i])) << (8 * i));
    }
    at_ += sizeof(T);
    return value;
  }

  std::string_view bytes_;
  uint64_t base_;
  size_t at_ = 0;
  const char* reason_ = nullptr;
};

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_ENCODING_H_
