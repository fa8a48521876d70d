// Writes a profile file (profiles/FORMAT.md) while the program that it is about runs.
#ifndef EBBTIDE_SRC_PROFILE_WRITER_H_
#define EBBTIDE_SRC_PROFILE_WRITER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/profile/encoding.h"
#include "src/profile/packed_stream.h"
#include "src/profile/types.h"

namespace ebt::profile {

// One event on its way into the file. Which fields count, RecordKind says (FORMAT.md). Views
// must stay valid during the call that takes the record.
struct EventRecord {
  uint64_t sequence = 0;  // the order of events across threads and chunks
  RecordKind kind = RecordKind::kStep;
  AllocKind alloc = AllocKind::kLinear;
  CopyKind copy = CopyKind::kHtoD;
  uint16_t device = 0;
  uint16_t stream = 0;
  uint32_t block = 0;     // any number that no other block of this file has
  uint32_t function = 0;  // launch: index of AddFunctions; graph: a number of its own
  uint64_t shape = 0;
  uint64_t bytes = 0;
  uint64_t site = 0;
  uint64_t fingerprint = 0;
  uint64_t address = 0;
  double gpu_ms = 0;
  absl::Span<const uint32_t> touched;
  std::string_view phase;
};

// Holds at most 12 MiB, however much is written: the compressor's 6, the chunk in the making (1 MiB
// of events, sites or functions) and its copies on the way out.
//
// Not thread-safe: one thread writes. Every function returns the first error that happened
// (unwritable path, full disk), and after that one nothing is written any more.
class ProfileWriter {
 public:
  // Creates or empties `path`, whose folder must exist, and writes the file header. Refused
  // when another live process is writing that very file.
  static absl::StatusOr<ProfileWriter> Open(const std::string& path);
  // The same without emptying anything: where there is a file at `path` already, this process's
  // number goes before the suffix ("job.ebp" becomes "job.4711.ebp", then "job.4711.2.ebp").
  // path() says which it was. What is no regular file (/dev/null, a pipe) is opened as it is.
  static absl::StatusOr<ProfileWriter> OpenBeside(const std::string& path);

  ProfileWriter(ProfileWriter&& other) noexcept;
  ProfileWriter& operator=(ProfileWriter&& other) noexcept;
  // Without Close before it the file stays as after the last Flush: readable, truncated.
  ~ProfileWriter();

  // A key that was written before gets the new value.
  absl::Status AddMetadata(const std::map<std::string, std::string>& entries);
  // Sites and functions come before the events that name them.
  absl::Status AddSites(absl::Span<const callsite::Site> sites);
  // The next function numbers, in order, from 0.
  absl::Status AddFunctions(absl::Span<const std::string> names);
  // Collects events; full chunks go to the file at once, the rest at Flush.
  absl::Status AppendEvents(absl::Span<const EventRecord> events);
  // Everything so far is in the file when this returns.
  absl::Status Flush();
  // Flush and the end chunk. Nothing can be added afterwards.
  absl::Status Close();

  // In the child after a fork: lets go of the file without writing a byte, so that the
  // parent's lock on it does not outlive the parent.
  void AbandonAfterFork() noexcept;

  const std::string& path() const { return path_; }
  uint64_t events() const { return events_; }  // appended so far

 private:
  ProfileWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  // `fd`: open(2)'s answer for `path`, errno still its.
  static absl::StatusOr<ProfileWriter> Begin(int fd, const std::string& path);

  // items: events or functions that the content holds.
  absl::Status WriteChunk(ChunkType type, std::string_view content, uint64_t items = 0);
  absl::Status WritePayload(ChunkType type, Codec codec, std::string_view payload);
  absl::Status WriteBytes(std::string_view bytes);
  void Encode(const EventRecord& event);
  void EncodeAlloc(const EventRecord& event);
  absl::Status FlushEvents();

  int fd_ = -1;
  std::string path_;
  absl::Status failed_;
  StreamPacker packer_;
  std::string packed_;   // for its capacity
  std::string chunk_;    // likewise
  std::string pending_;  // encoded events of the chunk in the making, without its prefix
  uint64_t pending_count_ = 0;
  std::string kept_;  // blocks of the next kKept chunk, encoded
  uint64_t kept_count_ = 0;
  uint64_t first_sequence_ = 0;
  uint64_t last_sequence_ = 0;
  uint32_t first_block_ = 0;  // allocated last when the chunk in the making began
  uint32_t last_block_ = 0;   // allocated last
  uint64_t events_ = 0;
  uint32_t functions_ = 0;
};

// A whole profile at once, for tools and tests. Functions that events name and the profile does
// not are written as "kernel#N".
absl::Status WriteProfile(const Profile& profile, const std::string& path);

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_WRITER_H_
