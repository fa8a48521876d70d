#include "src/profile/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "src/profile/encoding.h"
#include "src/profile/event_assembly.h"
#include "src/profile/packed_stream.h"
#include "src/profile/payload_parser.h"

namespace ebt::profile {
namespace {

class Parser {
 public:
  Parser(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  absl::StatusOr<Profile> Run() {
    if (absl::Status status = CheckHeader(); !status.ok()) return status;
    while (!parser_->ended()) {
      absl::StatusOr<bool> more = NextChunk();
      if (!more.ok()) return more.status();
      if (!*more) break;
    }
    Profile& profile = parser_->profile();
    profile.truncated = !parser_->ended();
    if (!profile.truncated && at_ != bytes_.size()) {
      return Damaged(at_, "there is more after the end");
    }
    absl::Status status = Assemble(std::move(parser_->events()), name_, profile);
    if (!status.ok()) return status;
    return std::move(profile);
  }

 private:
  absl::Status Damaged(std::string_view place, std::string_view reason) const {
    return absl::DataLossError(fmt::format(
        "{}: {}: {}: the file is damaged, copy it again or record again", name_, place, reason));
  }

  absl::Status Damaged(uint64_t offset, std::string_view reason) const {
    return Damaged(fmt::format("byte {}", offset), reason);
  }

  absl::Status Newer(uint64_t offset, std::string_view what) const {
    return absl::FailedPreconditionError(
        fmt::format("{}: byte {}: {}, this Ebbtide (" EBBTIDE_VERSION
                    ") reads up to format {}: read it with the version that wrote it",
                    name_, offset, what, kFormatVersion));
  }

  absl::Status CheckHeader() {
    if (bytes_.size() < kHeaderBytes || bytes_.substr(0, kMagic.size()) != kMagic) {
      return absl::InvalidArgumentError(
          fmt::format("{}: byte 0: {}: make one with `ebbtide record`", name_,
                      bytes_.size() < kHeaderBytes ? "too short for an Ebbtide profile"
                                                   : "not an Ebbtide profile"));
    }
    Cursor header(bytes_.substr(kMagic.size(), kHeaderBytes - kMagic.size()), kMagic.size());
    version_ = header.Fixed16();
    const uint16_t reserved = header.Fixed16();
    if (version_ == 0) {
      return Damaged(kMagic.size(), "the format version is 0");
    }
    if (version_ > kFormatVersion) {
      return Newer(kMagic.size(), fmt::format("the profile has format {}", version_));
    }
    if (reserved != 0) {
      return Damaged(kMagic.size() + 2, "a reserved field is not 0");
    }
    at_ = kHeaderBytes;
    parser_.emplace(version_, bytes_.size());
    return absl::OkStatus();
  }

  // false: the file was cut off here.
  absl::StatusOr<bool> NextChunk() {
    if (bytes_.size() - at_ < kChunkHeaderBytes) return false;
    const std::string_view header_bytes = bytes_.substr(at_, kChunkHeaderBytes);
    Cursor header(header_bytes, at_);
    const uint8_t type = header.Byte();
    const uint8_t codec = header.Byte();
    const uint16_t reserved = header.Fixed16();
    const uint32_t length = header.Fixed32();
    const uint32_t header_crc = header.Fixed32();
    const uint32_t payload_crc = header.Fixed32();
    if (Crc32c(header_bytes.substr(0, 8)) != header_crc) {
      return Damaged(at_, "a chunk header does not match its checksum");
    }
    if (length > kMaxPayloadBytes) {
      return Damaged(at_ + 4, "a chunk is longer than chunks can be");
    }
    const uint64_t payload_at = at_ + kChunkHeaderBytes;
    if (bytes_.size() - payload_at < length) return false;
    const std::string_view payload = bytes_.substr(payload_at, length);
    if (Crc32c(payload) != payload_crc) {
      return Damaged(at_, fmt::format("a chunk of {} bytes does not match its checksum", length));
    }
    const uint64_t chunk_at = std::exchange(at_, payload_at + length);
    const bool packed =
        version_ >= kFirstPackedVersion && codec == static_cast<uint8_t>(Codec::kZstd);
    const bool optional =
        type >= kFirstOptionalChunk && type != static_cast<uint8_t>(ChunkType::kKept);
    if (optional && !packed) return true;
    if (codec != static_cast<uint8_t>(Codec::kNone) && !packed) {
      return Newer(chunk_at + 1, fmt::format("a chunk is packed with codec {}", codec));
    }
    if (reserved != 0) {
      return Damaged(chunk_at + 2, "a reserved field is not 0");
    }
    if (!packed) {
      return TakePayload(type, {.at = chunk_at}, payload, payload.size());
    }
    Cursor in(payload, payload_at);
    const std::string_view content = unpacker_.Unpack(in);
    if (!in.ok()) return Damaged(in.offset(), in.reason());
    // What is not known is a part of the stream all the same.
    if (optional) return true;
    return TakePayload(type, {.at = chunk_at, .packed = true}, content,
                       payload.size() * kMostItemsAByte);
  }

  absl::StatusOr<bool> TakePayload(uint8_t type, const ChunkPlace& place, std::string_view content,
                                   uint64_t most_items) {
    Cursor in(content);
    if (!parser_->Parse(static_cast<ChunkType>(type), in, place, most_items)) {
      return Newer(place.at, fmt::format("a chunk has the type {}", type));
    }
    if (!in.ok()) return Damaged(place.Name(in.offset()), in.reason());
    return true;
  }

  std::string_view bytes_;
  const std::string& name_;
  size_t at_ = 0;
  uint16_t version_ = 0;
  StreamUnpacker unpacker_;
  std::optional<PayloadParser> parser_;
};

absl::Status CannotRead(const std::string& path, int error) {
  const auto code =
      error == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kPermissionDenied;
  return absl::Status(code, fmt::format("{}: cannot be read ({}): name a profile that `ebbtide "
                                        "record` wrote",
                                        path, strerror(error)));
}

// Appends up to `most` bytes; fewer only at the end of the file.
absl::Status ReadPiece(int fd, const std::string& path, size_t most, std::string& bytes) {
  size_t filled = bytes.size();
  const size_t end = filled + most;
  bytes.resize(end);
  while (filled < end) {
    const ssize_t got = ::read(fd, bytes.data() + filled, end - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CannotRead(path, errno);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  bytes.resize(filled);
  return absl::OkStatus();
}

absl::Status ReadAll(int fd, const std::string& path, std::string& bytes) {
  struct stat status;
  if (::fstat(fd, &status) != 0) return CannotRead(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(path + ": not a file: name a profile");
  }
  if (absl::Status header = ReadPiece(fd, path, kHeaderBytes, bytes); !header.ok()) return header;
  // Somebody's checkpoint of many gigabytes is not read to be told that it is no profile.
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size <= bytes.size() || bytes.compare(0, kMagic.size(), kMagic) != 0) {
    return absl::OkStatus();
  }
  return ReadPiece(fd, path, size - bytes.size(), bytes);
}

}  // namespace

absl::StatusOr<Profile> ParseProfile(std::string_view bytes, const std::string& name) {
  return Parser(bytes, name).Run();
}

absl::StatusOr<Profile> ReadProfile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return CannotRead(path, errno);
  const absl::Cleanup close_file = [fd] { ::close(fd); };
  try {
    std::string bytes;
    if (absl::Status status = ReadAll(fd, path, bytes); !status.ok()) return status;
    return ParseProfile(bytes, path);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        path + ": does not fit into this machine's memory: read it on a larger one");
  }
}

}  // namespace ebt::profile
