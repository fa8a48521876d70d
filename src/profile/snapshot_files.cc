#include "src/profile/snapshot_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "src/base/config.h"
#include "src/base/log.h"
#include "src/base/units.h"

namespace ebt::profile {
namespace {

constexpr int kMostNumbers = 10000;

absl::Status Failure(const std::string& path, int error) {
  return absl::UnavailableError(fmt::format("{} cannot be written ({})", path, strerror(error)));
}

bool WriteAll(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

// What happened, without its end.
std::string Story(const Snapshot& it, const std::string& program) {
  if (!it.refusal) return fmt::format("{} was asked what fills its memory", program);
  const SnapshotRefusal& refusal = *it.refusal;
  std::string story = fmt::format("{} asked for {}", program, FormatSize(refusal.bytes));
  if (MayBeAProbe(it)) {
    story += fmt::format(
        " of the device's {} at once, perhaps to see how much there is, and the "
        "driver had less",
        FormatSize(it.total_bytes));
  } else {
    story += " and the driver had no more";
  }
  if (refusal.count > 1) story += fmt::format(" ({} refusals so far)", refusal.count);
  return story;
}

}  // namespace

bool SnapshotFiles::Note(uint64_t bytes, Time now) {
  ++refusals_;
  largest_bytes_ = std::max(largest_bytes_, bytes);
  if (files_ >= kMostFiles) return false;
  return !kept_ || now >= next_keep_;
}

void SnapshotFiles::Refused(Snapshot snapshot, Time now) {
  next_keep_ = now + kKeepGap;
  kept_ = std::move(snapshot);
  Tick(now);
}

// The last file is for the end.
void SnapshotFiles::Tick(Time now) {
  if (!kept_ || files_ >= kMostFiles - 1 || (files_ > 0 && now < next_)) return;
  if (!MayBeAProbe(*kept_) || !probe_told_) WriteKept(now);
}

void SnapshotFiles::Finish() {
  if (kept_ && files_ < kMostFiles) WriteKept(next_);
}

void SnapshotFiles::WriteKept(Time now) {
  Snapshot snapshot = *std::exchange(kept_, std::nullopt);
  if (snapshot.refusal) {
    snapshot.refusal->count = refusals_;
    snapshot.refusal->largest_bytes = largest_bytes_;
  }
  next_ = now + kFirstGap * (1 << files_);
  ++files_;
  probe_told_ = probe_told_ || MayBeAProbe(snapshot);
  const std::string story = Story(snapshot, program_);
  const absl::StatusOr<std::string> path = WriteNumbered(stem_, "oom", SnapshotJson(snapshot));
  if (path.ok()) {
    Log(LogLevel::kWarning, "{}: {} says what filled the memory", story, *path);
  } else if (!std::exchange(failure_told_, true)) {
    Log(LogLevel::kWarning, "{}; {}: EBBTIDE_DUMP chooses where it goes", story,
        Message(path.status()));
  }
}

void SnapshotFiles::Asked(const Snapshot& snapshot) {
  if (written_ >= kMostNumbers) return;
  ++written_;
  const absl::StatusOr<std::string> path = WriteNumbered(stem_, "live", SnapshotJson(snapshot));
  const std::string story = Story(snapshot, program_);
  if (path.ok()) {
    Log(LogLevel::kWarning, "{}: {} says it", story, *path);
  } else {
    Log(LogLevel::kWarning, "{}; {}: EBBTIDE_DUMP chooses where it goes", story,
        Message(path.status()));
  }
}

std::string SnapshotStem(const std::string& file, const std::string& dump) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path stem = fs::path(file).replace_extension();
  // Nothing belongs beside a device or a pipe.
  if (fs::exists(file, error) && !fs::is_regular_file(file, error))
    stem = FillPath("ebbtide-{program}-{pid}");
  if (!dump.empty()) {
    const bool folder = dump.back() == '/' || fs::is_directory(dump, error);
    stem = folder ? fs::path(dump) / stem.filename() : fs::path(dump);
  }
  // The program may go to another folder.
  const fs::path absolute = fs::absolute(stem, error);
  return error ? stem.string() : absolute.string();
}

absl::StatusOr<std::string> WriteNumbered(const std::string& stem, const std::string& what,
                                          const std::string& text) {
  for (int number = 1; number <= kMostNumbers; ++number) {
    const std::string path = fmt::format("{}.{}-{}.json", stem, what, number);
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0644);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return Failure(path, errno);
    const bool whole = WriteAll(fd, text);
    const int error = errno;
    ::close(fd);
    if (whole) return path;
    ::unlink(path.c_str());
    return Failure(path, error);
  }
  return Failure(stem, EEXIST);
}

}  // namespace ebt::profile
