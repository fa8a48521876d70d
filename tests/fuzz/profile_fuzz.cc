// Any bytes as a profile: an answer, and if it is a profile, a consistent one that can be written
// and reads the same again.
//
// The bytes are tried as they are, and again as chunks with true checksums, since mutations hardly
// ever get past those: the format (1 byte), then of each chunk how it is packed (1), type (1),
// length (2) and payload.
#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "src/profile/encoding.h"
#include "src/profile/packed_stream.h"
#include "src/profile/reader.h"
#include "src/profile/writer.h"

namespace {

using namespace ebt::profile;  // NOLINT: a dozen names of it

void Require(bool holds) {
  if (!holds) abort();
}

void CheckTouches(const Profile& profile, const Event& event, uint64_t at) {
  for (const uint32_t id : event.touched) {
    Require(id < profile.blocks.size());
    Require(profile.blocks[id].alloc_at <= at && at < profile.blocks[id].free_at);
  }
}

void CheckConsistent(const Profile& profile) {
  for (size_t i = 0; i < profile.blocks.size(); ++i) {
    const Block& block = profile.blocks[i];
    Require(block.id == i && block.alloc_at < profile.events.size());
    Require(block.free_at == kNever || block.free_at < profile.events.size());
  }
  for (size_t at = 0; at < profile.events.size(); ++at) {
    const Event& event = profile.events[at];
    CheckTouches(profile, event, at);
    Require(event.kind != EventKind::kLaunch || event.function < profile.functions.size());
  }
}

void CheckSame(const Event& a, const Event& b) {
  Require(a.kind == b.kind && a.stream == b.stream && a.block == b.block);
  Require(a.function == b.function && a.shape == b.shape && a.copy == b.copy);
  Require(a.bytes == b.bytes && a.gpu_ms == b.gpu_ms && a.phase == b.phase);
  Require(a.touched == b.touched);
}

void CheckSame(const Block& a, const Block& b) {
  Require(a.site == b.site && a.fingerprint == b.fingerprint && a.bytes == b.bytes);
  Require(a.address == b.address && a.kind == b.kind && a.device == b.device);
  Require(a.stream == b.stream && a.free_stream == b.free_stream);
  Require(a.alloc_at == b.alloc_at && a.free_at == b.free_at);
  Require(a.exported == b.exported && a.kept == b.kept);
}

void CheckReadsTheSameAgain(const Profile& profile) {
  static const int fd = memfd_create("profile", 0);
  static const std::string path = fmt::format("/proc/self/fd/{}", fd);
  Require(WriteProfile(profile, path).ok());
  const absl::StatusOr<Profile> again = ReadProfile(path);
  Require(again.ok() && !again->truncated && again->metadata == profile.metadata);
  Require(again->sites.size() == profile.sites.size());
  Require(again->functions.size() == profile.functions.size());
  Require(again->events.size() == profile.events.size());
  Require(again->blocks.size() == profile.blocks.size());
  for (size_t i = 0; i < profile.events.size(); ++i) CheckSame(again->events[i], profile.events[i]);
  for (size_t i = 0; i < profile.blocks.size(); ++i) CheckSame(again->blocks[i], profile.blocks[i]);
}

void CheckProfile(std::string_view bytes) {
  const absl::StatusOr<Profile> profile = ParseProfile(bytes, "fuzz");
  if (!profile.ok()) return Require(!profile.status().message().empty());
  CheckConsistent(*profile);
  CheckReadsTheSameAgain(*profile);
}

enum How { kPlain, kPackedHere, kPackedAlready, kHows };

void PutChunk(std::string& file, StreamPacker& packer, How how, char type,
              std::string_view content) {
  std::string payload(content);
  // The writer states how many events there are; without that there may be four a byte.
  if (how == kPackedHere) Require(packer.Pack(content, content.size(), payload));
  std::string header{type, static_cast<char>(how == kPlain ? Codec::kNone : Codec::kZstd)};
  PutFixed16(header, 0);
  PutFixed32(header, static_cast<uint32_t>(payload.size()));
  PutFixed32(header, Crc32c(header));
  PutFixed32(header, Crc32c(payload));
  file.append(header).append(payload);
}

std::string WithTrueChecksums(std::string_view bytes) {
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckProfile(bytes);
  if (!bytes.empty()) CheckProfile(WithTrueChecksums(bytes));
  return 0;
}
