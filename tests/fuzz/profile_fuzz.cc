// Any bytes as a profile: an answer, and if it is a profile, a consistent one. The bytes are
// tried as they are, and again as the payloads of chunks with true checksums, since mutations
// hardly ever get past those: type (1 byte), length (2 bytes), payload, and so on.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "src/profile/encoding.h"
#include "src/profile/reader.h"

namespace {

void Require(bool holds) {
  if (!holds) abort();
}

void CheckTouches(const ebt::profile::Profile& profile, const ebt::profile::Event& event,
                  uint64_t at) {
  for (const uint32_t id : event.touched) {
    Require(id < profile.blocks.size());
    Require(profile.blocks[id].alloc_at <= at && at < profile.blocks[id].free_at);
  }
}

void CheckProfile(std::string_view bytes) {
  const absl::StatusOr<ebt::profile::Profile> profile = ebt::profile::ParseProfile(bytes, "fuzz");
  if (!profile.ok()) return;
  for (size_t i = 0; i < profile->blocks.size(); ++i) {
    const ebt::profile::Block& block = profile->blocks[i];
    Require(block.id == i && block.alloc_at < profile->events.size());
    Require(block.free_at == ebt::profile::kNever || block.free_at < profile->events.size());
  }
  for (size_t at = 0; at < profile->events.size(); ++at) {
    const ebt::profile::Event& event = profile->events[at];
    CheckTouches(*profile, event, at);
    Require(event.kind != ebt::profile::EventKind::kLaunch ||
            event.function < profile->functions.size());
  }
}

std::string WithTrueChecksums(std::string_view bytes) {
  using namespace ebt::profile;  // NOLINT: a dozen names of it
  std::string file(kMagic);
  PutFixed16(file, kFormatVersion);
  PutFixed16(file, 0);
  while (bytes.size() >= 3) {
    const size_t wanted = static_cast<uint8_t>(bytes[1]) | static_cast<uint8_t>(bytes[2]) << 8;
    const std::string_view payload = bytes.substr(3, wanted);
    std::string header{bytes[0], '\0'};
    PutFixed16(header, 0);
    PutFixed32(header, static_cast<uint32_t>(payload.size()));
    PutFixed32(header, Crc32c(header));
    PutFixed32(header, Crc32c(payload));
    file.append(header).append(payload);
    bytes.remove_prefix(3 + payload.size());
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckProfile(bytes);
  CheckProfile(WithTrueChecksums(bytes));
  return 0;
}
