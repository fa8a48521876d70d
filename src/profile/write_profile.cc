#include <fmt/format.h>

#include <algorithm>

#include "src/profile/writer.h"

namespace ebt::profile {
namespace {

constexpr uint32_t kMostFunctions = 1u << 20;

// Functions numbered from 0 without a gap, up to the highest that a launch names.
absl::StatusOr<std::vector<std::string>> FunctionNames(const Profile& profile,
                                                       const std::string& path) {
  uint64_t count = 0;
  for (const Function& function : profile.functions) {
    count = std::max<uint64_t>(count, uint64_t{function.id} + 1);
  }
  for (const Event& event : profile.events) {
    if (event.kind != EventKind::kLaunch) continue;
    count = std::max<uint64_t>(count, uint64_t{event.function} + 1);
  }
  if (count > kMostFunctions) {
    return absl::InvalidArgumentError(
        fmt::format("{}: function number {} is above {}: number functions from 0", path, count - 1,
                    kMostFunctions - 1));
  }
  std::vector<std::string> names(count);
  for (uint64_t id = 0; id < count; ++id) names[id] = fmt::format("kernel#{}", id);
  for (const Function& function : profile.functions) names[function.id] = function.name;
  return names;
}

absl::StatusOr<EventRecord> RecordOf(const Profile& profile, size_t at, const std::string& path) {
  const Event& event = profile.events[at];
  EventRecord record{.kind = static_cast<RecordKind>(event.kind),
                     .copy = event.copy,
                     .stream = event.stream,
                     .block = event.block,
                     .function = event.function,
                     .shape = event.shape,
                     .bytes = event.bytes,
                     .gpu_ms = event.gpu_ms,
                     .touched = event.touched,
                     .phase = event.phase};
  if (event.kind != EventKind::kAlloc && event.kind != EventKind::kFree) return record;
  if (event.block >= profile.blocks.size()) {
    return absl::InvalidArgumentError(fmt::format("{}: event {} names block {} of {}", path, at,
                                                  event.block, profile.blocks.size()));
  }
  const Block& block = profile.blocks[event.block];
  if (event.kind == EventKind::kFree) {
    record.stream = block.free_stream;
    return record;
  }
  record.alloc = block.kind;
  record.device = block.device;
  record.stream = block.stream;
  record.bytes = block.bytes;
  record.site = block.site;
  record.fingerprint = block.fingerprint;
  record.address = block.address;
  return record;
}

absl::Status AppendAll(const Profile& profile, ProfileWriter& writer) {
  uint64_t sequence = 0;
  for (size_t at = 0; at < profile.events.size(); ++at) {
    absl::StatusOr<EventRecord> record = RecordOf(profile, at, writer.path());
    if (!record.ok()) return record.status();
    record->sequence = sequence++;
    if (absl::Status status = writer.AppendEvents({&*record, 1}); !status.ok()) return status;
    if (record->kind != RecordKind::kAlloc) continue;
    if (profile.blocks[record->block].kept) {
      const EventRecord kept{.kind = RecordKind::kKept, .block = record->block};
      if (absl::Status status = writer.AppendEvents({&kept, 1}); !status.ok()) return status;
    }
    if (!profile.blocks[record->block].exported) continue;
    const EventRecord exported{
        .sequence = sequence++, .kind = RecordKind::kExported, .block = record->block};
    if (absl::Status status = writer.AppendEvents({&exported, 1}); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteProfile(const Profile& profile, const std::string& path) {
  absl::StatusOr<std::vector<std::string>> functions = FunctionNames(profile, path);
  if (!functions.ok()) return functions.status();
  absl::StatusOr<ProfileWriter> writer = ProfileWriter::Open(path);
  if (!writer.ok()) return writer.status();
  if (absl::Status s = writer->AddMetadata(profile.metadata); !s.ok()) return s;
  if (absl::Status s = writer->AddSites(profile.sites); !s.ok()) return s;
  if (absl::Status s = writer->AddFunctions(*functions); !s.ok()) return s;
  if (absl::Status s = AppendAll(profile, *writer); !s.ok()) return s;
  return writer->Close();
}

}  // namespace ebt::profile
