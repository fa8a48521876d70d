#include "src/profile/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <new>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_set.h"
#include "src/profile/encoding.h"
#include "src/profile/event_assembly.h"

namespace ebt::profile {
namespace {

// Texts of all frames of a file. A frame takes five bytes and may name a text of a megabyte, so
// the size of the file alone does not bound what its sites become in memory.
constexpr uint64_t kMaxFrameTextBytes = 256u << 20;
constexpr uint64_t kMaxU16 = 0xffff, kMaxU32 = 0xffffffff;

class Parser {
 public:
  Parser(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  absl::StatusOr<Profile> Run() {
    if (absl::Status status = CheckHeader(); !status.ok()) return status;
    while (!ended_) {
      absl::StatusOr<bool> more = NextChunk();
      if (!more.ok()) return more.status();
      if (!*more) break;
    }
    profile_.truncated = !ended_;
    if (ended_ && at_ != bytes_.size()) return Damaged(at_, "there is more after the end");
    if (absl::Status status = Assemble(std::move(events_), name_, profile_); !status.ok()) {
      return status;
    }
    return std::move(profile_);
  }

 private:
  absl::Status Damaged(uint64_t offset, std::string_view reason) const {
    return absl::DataLossError(
        fmt::format("{}: byte {}: {}: the file is damaged, copy it again or record again", name_,
                    offset, reason));
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
    const uint16_t version = header.Fixed16();
    const uint16_t reserved = header.Fixed16();
    if (version == 0) return Damaged(kMagic.size(), "the format version is 0");
    if (version > kFormatVersion) {
      return Newer(kMagic.size(), fmt::format("the profile has format {}", version));
    }
    if (reserved != 0) return Damaged(kMagic.size() + 2, "a reserved field is not 0");
    at_ = kHeaderBytes;
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
    if (length > kMaxPayloadBytes) return Damaged(at_ + 4, "a chunk is longer than chunks can be");
    const uint64_t payload_at = at_ + kChunkHeaderBytes;
    if (bytes_.size() - payload_at < length) return false;
    const std::string_view payload = bytes_.substr(payload_at, length);
    if (Crc32c(payload) != payload_crc) {
      return Damaged(at_, fmt::format("a chunk of {} bytes does not match its checksum", length));
    }
    const uint64_t chunk_at = std::exchange(at_, payload_at + length);
    if (type >= kFirstOptionalChunk && type != static_cast<uint8_t>(ChunkType::kKept)) return true;
    if (codec != static_cast<uint8_t>(Codec::kNone)) {
      return Newer(chunk_at + 1, fmt::format("a chunk is packed with codec {}", codec));
    }
    if (reserved != 0) return Damaged(chunk_at + 2, "a reserved field is not 0");
    return ParsePayload(static_cast<ChunkType>(type), Cursor(payload, payload_at), chunk_at);
  }

  absl::StatusOr<bool> ParsePayload(ChunkType type, Cursor in, uint64_t chunk_at) {
    switch (type) {
      case ChunkType::kMetadata:
        ParseMetadata(in);
        break;
      case ChunkType::kSites:
        ParseSites(in);
        break;
      case ChunkType::kFunctions:
        ParseFunctions(in);
        break;
      case ChunkType::kEvents:
        ParseEvents(in);
        break;
      case ChunkType::kEnd:
        ParseEnd(in);
        break;
      case ChunkType::kKept:
        ParseKept(in);
        break;
      default:
        return Newer(chunk_at, fmt::format("a chunk has the type {}", static_cast<int>(type)));
    }
    if (in.ok() && in.remaining() != 0) in.Fail("a chunk is longer than what it holds");
    if (!in.ok()) return Damaged(in.offset(), in.reason());
    return true;
  }

  void ParseMetadata(Cursor& in) {
    const uint64_t count = in.Count(2, "more metadata than the chunk can hold");
    for (uint64_t i = 0; i < count && in.ok(); ++i) {
      const std::string_view key = in.String();
      const std::string_view value = in.String();
      if (in.ok()) profile_.metadata.insert_or_assign(std::string(key), std::string(value));
    }
  }

  void ParseSites(Cursor& in) {
    std::vector<std::string_view> strings(in.Count(1, "more texts than the chunk can hold"));
    for (std::string_view& text : strings) text = in.String();
    const auto text = [&]() -> std::string {
      const uint64_t index = in.Varint();
      if (index >= strings.size()) {
        in.Fail("a frame names a text that the chunk does not have");
        return {};
      }
      frame_text_bytes_ += strings[index].size();
      if (frame_text_bytes_ > kMaxFrameTextBytes) in.Fail("the sites hold too much text");
      return std::string(in.ok() ? strings[index] : std::string_view());
    };
    const uint64_t count = in.Count(9, "more sites than the chunk can hold");
    for (uint64_t i = 0; i < count && in.ok(); ++i) {
      callsite::Site site{.id = in.Fixed64()};
      const uint64_t frames = in.Count(5, "more frames than the chunk can hold");
      for (uint64_t f = 0; f < frames && in.ok(); ++f) {
        callsite::Frame& frame = site.frames.emplace_back();
        const uint8_t kind = in.Byte();
        if (kind > static_cast<uint8_t>(callsite::Frame::Kind::kPython)) {
          in.Fail("a frame is of an unknown kind");
        }
        frame.kind = static_cast<callsite::Frame::Kind>(kind);
        frame.module = text();
        frame.offset = in.Varint();
        frame.function = text();
        frame.file = text();
      }
      if (in.ok() && known_sites_.insert(site.id).second) {
        profile_.sites.push_back(std::move(site));
      }
    }
  }

  void ParseFunctions(Cursor& in) {
    if (in.Varint() != profile_.functions.size()) in.Fail("functions are not numbered in order");
    const uint64_t count = in.Count(1, "more functions than the chunk can hold");
    for (uint64_t i = 0; i < count && in.ok(); ++i) {
      profile_.functions.push_back({.id = static_cast<uint32_t>(profile_.functions.size()),
                                    .name = std::string(in.String())});
    }
  }

  void ParseEvents(Cursor& in) {
    uint64_t sequence = in.Varint();
    const uint64_t count = in.Count(1, "more events than the chunk can hold");
    for (uint64_t i = 0; i < count && in.ok(); ++i) {
      const uint64_t offset = in.offset();
      const uint8_t tag = in.Byte();
      sequence += (tag & kNextInSequence) ? 1 : static_cast<uint64_t>(in.Signed());
      FileEvent event{.sequence = sequence,
                      .kind = static_cast<RecordKind>(tag & ~kNextInSequence)};
      ParseEvent(in, event, offset);
      if (in.ok()) events_.events.push_back(std::move(event));
    }
  }

  void ParseEvent(Cursor& in, FileEvent& from, uint64_t offset) {
    Event& event = from.event;
    if (from.kind <= RecordKind::kFailed) event.kind = static_cast<EventKind>(from.kind);
    switch (from.kind) {
      case RecordKind::kAlloc:
        ParseAlloc(in, from, offset);
        return;
      case RecordKind::kFree:
        event.block = BlockNumber(in);
        event.stream = Stream(in);
        return;
      case RecordKind::kLaunch:
        event.function = static_cast<uint32_t>(in.Varint(kMaxU32, "a function number is too big"));
        if (event.function >= profile_.functions.size()) in.Fail("a launch of an unnamed function");
        event.stream = Stream(in);
        event.shape = in.Fixed64();
        ParseTouched(in, event.touched);
        return;
      case RecordKind::kCopy:
        event.copy = static_cast<CopyKind>(in.Byte());
        if (event.copy > CopyKind::kMemset) in.Fail("a copy is of an unknown kind");
        event.bytes = in.Varint();
        event.stream = Stream(in);
        ParseTouched(in, event.touched);
        return;
      case RecordKind::kMark:
        event.stream = Stream(in);
        event.gpu_ms = std::bit_cast<double>(in.Fixed64());
        if (!std::isfinite(event.gpu_ms)) in.Fail("a time is not a number");
        return;
      case RecordKind::kStep:
        return;
      case RecordKind::kPhase:
        event.phase = in.String();
        return;
      case RecordKind::kGraph:
        event.function = static_cast<uint32_t>(in.Varint(kMaxU32, "a graph number is too big"));
        event.stream = Stream(in);
        return;
      case RecordKind::kFailed:
        event.bytes = in.Varint();
        event.stream = Stream(in);
        return;
      case RecordKind::kExported:
        event.block = BlockNumber(in);
        return;
      case RecordKind::kKept:
        break;
    }
    in.Fail("an event is of an unknown kind");
  }

  void ParseKept(Cursor& in) {
    for (uint64_t left = in.Count(1, "more blocks than the chunk can hold"); left > 0 && in.ok();
         --left) {
      const uint32_t block = BlockNumber(in);
      if (in.ok()) events_.kept.push_back(block);
    }
  }

  void ParseAlloc(Cursor& in, FileEvent& from, uint64_t offset) {
    Block block;
    block.id = BlockNumber(in);
    block.bytes = in.Varint();
    block.address = in.Varint();
    block.kind = static_cast<AllocKind>(in.Byte());
    if (block.kind > AllocKind::kVmm) in.Fail("an allocation is of an unknown kind");
    block.device = static_cast<uint16_t>(in.Varint(kMaxU16, "a device number is too big"));
    block.stream = Stream(in);
    block.site = in.Fixed64();
    block.fingerprint = in.Fixed64();
    from.event.stream = block.stream;
    from.event.bytes = block.bytes;
    from.alloc = static_cast<uint32_t>(events_.allocs.size());
    if (!in.ok()) return;
    events_.allocs.push_back(block);
    events_.alloc_offsets.push_back(offset);
  }

  void ParseTouched(Cursor& in, std::vector<uint32_t>& touched) {
    const uint64_t count = in.Count(1, "more blocks than the chunk can hold");
    touched.reserve(count);
    int64_t block = 0;
    for (uint64_t i = 0; i < count && in.ok(); ++i) {
      block =
          static_cast<int64_t>(static_cast<uint64_t>(block) + static_cast<uint64_t>(in.Signed()));
      if (block < 0 || block >= static_cast<int64_t>(kNoBlock)) in.Fail("no such block number");
      touched.push_back(static_cast<uint32_t>(block));
    }
  }

  void ParseEnd(Cursor& in) {
    if (in.Varint() != events_.events.size()) in.Fail("events are missing");
    ended_ = in.ok();
  }

  static uint32_t BlockNumber(Cursor& in) {
    return static_cast<uint32_t>(in.Varint(kNoBlock - 1, "no such block number"));
  }
  static uint16_t Stream(Cursor& in) {
    return static_cast<uint16_t>(in.Varint(kMaxU16, "a stream number is too big"));
  }

  std::string_view bytes_;
  const std::string& name_;
  size_t at_ = 0;
  bool ended_ = false;
  Profile profile_;
  FileEvents events_;
  absl::flat_hash_set<uint64_t> known_sites_;
  uint64_t frame_text_bytes_ = 0;
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
