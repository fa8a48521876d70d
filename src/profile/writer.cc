#include "src/profile/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace ebt::profile {
namespace {

// Large enough for few headers, small enough that a killed process loses little.
constexpr size_t kEventChunkBytes = 1u << 20;
// Whatever a single entry adds comes on top.
constexpr size_t kTableChunkBytes = 1u << 20;
// What fits into a payload even where it packs to more than it was.
constexpr size_t kMostContentBytes = kMaxPayloadBytes - (1u << 20);
constexpr int kOpenFlags = O_WRONLY | O_CREAT | O_CLOEXEC;
// That a process tries before it records nothing.
constexpr int kMostNames = 100;

absl::Status SystemError(absl::StatusCode code, const std::string& path, const char* what,
                         int error, const char* advice) {
  return absl::Status(code, fmt::format("{}: {} ({}): {}", path, what, strerror(error), advice));
}

// "job.ebp" → "job.4711.ebp", "job.4711.2.ebp", …
std::string WithNumbers(const std::string& path, int attempt) {
  const size_t name = path.rfind('/') + 1;  // 0 where there is no '/'
  const size_t dot = path.rfind('.');
  const size_t end = dot == std::string::npos || dot <= name ? path.size() : dot;
  const std::string again = attempt == 1 ? "" : fmt::format(".{}", attempt);
  return fmt::format("{}.{}{}{}", path.substr(0, end), ::getpid(), again, path.substr(end));
}

void PutTouched(std::string& out, absl::Span<const uint32_t> touched, uint32_t last) {
  PutVarint(out, touched.size());
  for (const uint32_t block : touched) PutBlockCode(out, block, last);
}

// Texts of one sites chunk, each stored once: frames of neighbouring sites share most of theirs.
class StringTable {
 public:
  uint64_t Index(const std::string& text) {
    const auto [it, added] = index_.try_emplace(text, index_.size());
    if (added) PutString(encoded_, text);
    return it->second;
  }
  size_t size() const { return index_.size(); }
  const std::string& encoded() const { return encoded_; }

 private:
  absl::flat_hash_map<std::string, uint64_t> index_;
  std::string encoded_;
};

void PutSite(std::string& out, StringTable& strings, const callsite::Site& site) {
  PutFixed64(out, site.id);
  PutVarint(out, site.frames.size());
  for (const callsite::Frame& frame : site.frames) {
    out.push_back(static_cast<char>(frame.kind));
    PutVarint(out, strings.Index(frame.module));
    PutVarint(out, frame.offset);
    PutVarint(out, strings.Index(frame.function));
    PutVarint(out, strings.Index(frame.file));
  }
}

}  // namespace

absl::StatusOr<ProfileWriter> ProfileWriter::Open(const std::string& path) {
  // Without O_TRUNC: whether the file may be emptied is known only once it is locked.
  return Begin(::open(path.c_str(), kOpenFlags, 0644), path);
}

absl::StatusOr<ProfileWriter> ProfileWriter::OpenBeside(const std::string& path) {
  std::string name = path;
  // One process may come here more than once: it records, becomes another program and records.
  for (int attempt = 1; attempt <= kMostNames; ++attempt) {
    const int fd = ::open(name.c_str(), kOpenFlags | O_EXCL, 0644);
    if (fd >= 0 || errno != EEXIST) return Begin(fd, name);
    struct stat status;
    if (::stat(name.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) return Open(name);
    name = WithNumbers(path, attempt);
  }
  return absl::AlreadyExistsError(
      fmt::format("{}: is there already, and so are {} like it; remove them, or choose another "
                  "file with -o or EBBTIDE_PROFILE",
                  path, kMostNames - 1));
}

absl::StatusOr<ProfileWriter> ProfileWriter::Begin(int fd, const std::string& path) {
  if (fd < 0 && errno == ENOENT) {
    return SystemError(absl::StatusCode::kNotFound, path, "cannot be written", errno,
                       "make its folder, or choose another with -o or EBBTIDE_PROFILE");
  }
  if (fd < 0) {
    return SystemError(absl::StatusCode::kPermissionDenied, path, "cannot be written", errno,
                       "choose another file with -o or EBBTIDE_PROFILE");
  }
  ProfileWriter writer(fd, path);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return SystemError(absl::StatusCode::kAlreadyExists, path,
                       "another process is writing this profile", errno,
                       "put {pid} or {rank} into the name");
  }
  struct stat status;
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && ::ftruncate(fd, 0) != 0) {
    return SystemError(absl::StatusCode::kPermissionDenied, path, "cannot be emptied", errno,
                       "choose another file with -o or EBBTIDE_PROFILE");
  }
  std::string header(kMagic);
  PutFixed16(header, kFormatVersion);
  PutFixed16(header, 0);
  if (absl::Status status = writer.WriteBytes(header); !status.ok()) return status;
  return writer;
}

ProfileWriter::ProfileWriter(ProfileWriter&& other) noexcept { *this = std::move(other); }

ProfileWriter& ProfileWriter::operator=(ProfileWriter&& other) noexcept {
  if (this == &other) return *this;
  if (fd_ >= 0) ::close(fd_);
  fd_ = std::exchange(other.fd_, -1);
  path_ = std::move(other.path_);
  failed_ = std::move(other.failed_);
  pending_ = std::move(other.pending_);
  pending_count_ = other.pending_count_;
  kept_ = std::move(other.kept_);
  kept_count_ = other.kept_count_;
  first_sequence_ = other.first_sequence_;
  last_sequence_ = other.last_sequence_;
  first_block_ = other.first_block_;
  last_block_ = other.last_block_;
  packer_ = std::move(other.packer_);
  events_ = other.events_;
  functions_ = other.functions_;
  return *this;
}

ProfileWriter::~ProfileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void ProfileWriter::AbandonAfterFork() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

absl::Status ProfileWriter::WriteBytes(std::string_view bytes) {
  if (!failed_.ok()) return failed_;
  if (fd_ < 0) return failed_ = absl::FailedPreconditionError(path_ + ": the profile is closed");
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return failed_ = SystemError(absl::StatusCode::kResourceExhausted, path_,
                                   "the profile cannot be written any further", errno,
                                   "what was written before stays readable; make room or choose "
                                   "another place with EBBTIDE_PROFILE");
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status ProfileWriter::WriteChunk(ChunkType type, std::string_view content, uint64_t items) {
  if (!failed_.ok()) return failed_;
  if (content.size() > kMostContentBytes) {
    return failed_ = absl::ResourceExhaustedError(fmt::format(
               "{}: one entry needs {} bytes and a chunk holds {}: recording cannot go on", path_,
               content.size(), kMostContentBytes));
  }
  if (content.size() < kSmallestPacked) return WritePayload(type, Codec::kNone, content);
  if (!packer_.Pack(content, items, packed_)) {
    return failed_ = absl::ResourceExhaustedError(
               path_ + ": no memory to pack the profile: recording cannot go on");
  }
  return WritePayload(type, Codec::kZstd, packed_);
}

absl::Status ProfileWriter::WritePayload(ChunkType type, Codec codec, std::string_view payload) {
  chunk_.clear();
  chunk_.push_back(static_cast<char>(type));
  chunk_.push_back(static_cast<char>(codec));
  PutFixed16(chunk_, 0);
  PutFixed32(chunk_, static_cast<uint32_t>(payload.size()));
  PutFixed32(chunk_, Crc32c(chunk_));
  PutFixed32(chunk_, Crc32c(payload));
  chunk_.append(payload);
  return WriteBytes(chunk_);
}

absl::Status ProfileWriter::AddMetadata(const std::map<std::string, std::string>& entries) {
  if (entries.empty()) return failed_;
  std::string payload;
  PutVarint(payload, entries.size());
  for (const auto& [key, value] : entries) {
    PutString(payload, key);
    PutString(payload, value);
  }
  return WriteChunk(ChunkType::kMetadata, payload);
}

absl::Status ProfileWriter::AddSites(absl::Span<const callsite::Site> sites) {
  while (!sites.empty()) {
    StringTable strings;
    std::string encoded;
    size_t count = 0;
    while (count < sites.size() && encoded.size() + strings.encoded().size() < kTableChunkBytes) {
      PutSite(encoded, strings, sites[count++]);
    }
    std::string payload;
    PutVarint(payload, strings.size());
    payload.append(strings.encoded());
    PutVarint(payload, count);
    payload.append(encoded);
    if (absl::Status status = WriteChunk(ChunkType::kSites, payload); !status.ok()) return status;
    sites.remove_prefix(count);
  }
  return failed_;
}

absl::Status ProfileWriter::AddFunctions(absl::Span<const std::string> names) {
  while (!names.empty()) {
    std::string encoded;
    size_t count = 0;
    while (count < names.size() && encoded.size() < kTableChunkBytes) {
      PutString(encoded, names[count++]);
    }
    std::string payload;
    PutVarint(payload, functions_);
    PutVarint(payload, count);
    payload.append(encoded);
    if (absl::Status status = WriteChunk(ChunkType::kFunctions, payload, count); !status.ok()) {
      return status;
    }
    functions_ += static_cast<uint32_t>(count);
    names.remove_prefix(count);
  }
  return failed_;
}

void ProfileWriter::Encode(const EventRecord& event) {
  if (event.kind == RecordKind::kKept) {
    PutVarint(kept_, event.block);
    ++kept_count_;
    return;
  }
  const bool first = pending_count_ == 0;
  if (first) {
    first_sequence_ = event.sequence;
    first_block_ = last_block_;
  }
  const bool next = !first && event.sequence == last_sequence_ + 1;
  pending_.push_back(
      static_cast<char>(static_cast<uint8_t>(event.kind) | (next ? kNextInSequence : 0)));
  if (!next) {
    const uint64_t previous = first ? first_sequence_ : last_sequence_;
    PutSigned(pending_, static_cast<int64_t>(event.sequence - previous));
  }
  switch (event.kind) {
    case RecordKind::kAlloc:
      EncodeAlloc(event);
      break;
    case RecordKind::kFree:
      PutBlockCode(pending_, event.block, last_block_);
      PutVarint(pending_, event.stream);
      break;
    case RecordKind::kLaunch:
      PutVarint(pending_, event.function);
      PutVarint(pending_, event.stream);
      PutFixed64(pending_, event.shape);
      PutTouched(pending_, event.touched, last_block_);
      break;
    case RecordKind::kCopy:
      pending_.push_back(static_cast<char>(event.copy));
      PutVarint(pending_, event.bytes);
      PutVarint(pending_, event.stream);
      PutTouched(pending_, event.touched, last_block_);
      break;
    case RecordKind::kMark:
      PutVarint(pending_, event.stream);
      PutFixed64(pending_, std::bit_cast<uint64_t>(event.gpu_ms));
      break;
    case RecordKind::kStep:
      break;
    case RecordKind::kPhase:
      PutString(pending_, event.phase);
      break;
    case RecordKind::kGraph:
      PutVarint(pending_, event.function);
      PutVarint(pending_, event.stream);
      break;
    case RecordKind::kFailed:
      PutVarint(pending_, event.bytes);
      PutVarint(pending_, event.stream);
      break;
    case RecordKind::kExported:
      PutBlockCode(pending_, event.block, last_block_);
      break;
    case RecordKind::kKept:
      break;
  }
  last_sequence_ = event.sequence;
  ++pending_count_;
  ++events_;
}

void ProfileWriter::EncodeAlloc(const EventRecord& event) {
  PutSigned(pending_, int64_t{event.block} - last_block_);
  last_block_ = event.block;
  PutVarint(pending_, event.bytes);
  PutVarint(pending_, event.address);
  pending_.push_back(static_cast<char>(event.alloc));
  PutVarint(pending_, event.device);
  PutVarint(pending_, event.stream);
  PutFixed64(pending_, event.site);
  PutFixed64(pending_, event.fingerprint);
}

absl::Status ProfileWriter::AppendEvents(absl::Span<const EventRecord> events) {
  if (!failed_.ok()) return failed_;
  for (const EventRecord& event : events) {
    Encode(event);
    if (pending_.size() < kEventChunkBytes && kept_.size() < kEventChunkBytes) continue;
    if (absl::Status status = Flush(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ProfileWriter::Flush() {
  if (absl::Status status = FlushEvents(); !status.ok() || kept_count_ == 0) return status;
  std::string payload;
  PutVarint(payload, std::exchange(kept_count_, 0));
  payload.append(std::exchange(kept_, {}));
  return WriteChunk(ChunkType::kKept, payload);
}

absl::Status ProfileWriter::FlushEvents() {
  if (!failed_.ok() || pending_count_ == 0) return failed_;
  std::string content;
  content.reserve(pending_.size() + 30);
  PutVarint(content, first_sequence_);
  PutVarint(content, first_block_);
  PutVarint(content, pending_count_);
  content.append(pending_);
  pending_.clear();
  return WriteChunk(ChunkType::kEvents, content, std::exchange(pending_count_, 0));
}

absl::Status ProfileWriter::Close() {
  if (absl::Status status = Flush(); !status.ok()) return status;
  std::string payload;
  PutVarint(payload, events_);
  if (absl::Status status = WriteChunk(ChunkType::kEnd, payload); !status.ok()) return status;
  // Network file systems report a full disk here.
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) {
    return failed_ = SystemError(absl::StatusCode::kResourceExhausted, path_,
                                 "the end of the profile could not be written", errno,
                                 "make room and record again");
  }
  return absl::OkStatus();
}

}  // namespace ebt::profile
