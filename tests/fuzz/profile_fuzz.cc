// Any bytes as a profile: an answer, and if it is a profile, a consistent one that can be written
// and reads the same again.
#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "src/profile/reader.h"
#include "src/profile/writer.h"
#include "tests/fuzz/profile_bytes.h"

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckProfile(bytes);
  CheckProfile(ebt::fuzz::WithTrueChecksums(bytes));
  return 0;
}
