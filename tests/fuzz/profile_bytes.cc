#include "tests/fuzz/profile_bytes.h"

#include <cstdint>
#include <cstdlib>

#include "src/profile/encoding.h"
#include "src/profile/packed_stream.h"

namespace ebt::fuzz {
namespace {

using namespace ebt::profile;  // NOLINT: a dozen names of it

enum How { kPlain, kPackedHere, kPackedAlready, kHows };

void PutChunk(std::string& file, StreamPacker& packer, How how, char type,
              std::string_view content) {
  std::string payload(content);
  // The writer states how many events there are; without that there may be four a byte.
  if (how == kPackedHere && !packer.Pack(content, content.size(), payload)) abort();
  std::string header{type, static_cast<char>(how == kPlain ? Codec::kNone : Codec::kZstd)};
  PutFixed16(header, 0);
  PutFixed32(header, static_cast<uint32_t>(payload.size()));
  PutFixed32(header, Crc32c(header));
  PutFixed32(header, Crc32c(payload));
  file.append(header).append(payload);
}

}  // namespace

std::string WithTrueChecksums(std::string_view bytes) {
  if (bytes.empty()) return "";
  std::string file(kMagic);
  PutFixed16(file, static_cast<uint16_t>(static_cast<uint8_t>(bytes[0]) % (kFormatVersion + 2)));
  PutFixed16(file, 0);
  bytes.remove_prefix(1);
  StreamPacker packer;
  while (bytes.size() >= 4) {
    const size_t wanted = static_cast<uint8_t>(bytes[2]) | static_cast<uint8_t>(bytes[3]) << 8;
    const std::string_view content = bytes.substr(4, wanted);
    PutChunk(file, packer, static_cast<How>(static_cast<uint8_t>(bytes[0]) % kHows), bytes[1],
             content);
    bytes.remove_prefix(4 + content.size());
  }
  return file;
}

}  // namespace ebt::fuzz
