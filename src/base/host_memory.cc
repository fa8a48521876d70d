#include "src/base/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "src/base/config.h"

namespace ebt {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

// The names under which the two cgroup versions keep the same three figures.
struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // key in memory.stat
};
constexpr CgroupFiles kV2 = {"/memory.max", "/memory.current", "inactive_file"};
constexpr CgroupFiles kV1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                             "total_inactive_file"};

std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  uint64_t number = 0;
  // "max" is v2's word for no limit.
  if (!(file >> word) || !absl::SimpleAtoi(word, &number)) return std::nullopt;
  return number;
}

// The number behind `key` in a file of "key number" lines.
std::optional<uint64_t> ReadKey(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipWhitespace());
    uint64_t number = 0;
    if (words.size() >= 2 && words[0] == key && absl::SimpleAtoi(words[1], &number)) return number;
  }
  return std::nullopt;
}

uint64_t LeftInCgroup(const std::string& folder, const CgroupFiles& files) {
  const auto limit = ReadNumber(folder + files.limit);
  const auto usage = ReadNumber(folder + files.usage);
  if (!limit || !usage) return kUnknown;
  // Page cache counts as usage, and yields at once when somebody needs the memory.
  const uint64_t cache = ReadKey(folder + "/memory.stat", files.reclaimable).value_or(0);
  const uint64_t used = *usage - std::min(cache, *usage);
  return *limit - std::min(used, *limit);
}

// The least that the cgroup at `path` or one of its ancestors leaves. In a container the path
// may be the host's, which does not exist here; its ancestor, the mount's root, then does.
uint64_t LeftUpwards(const std::string& mount, std::string path, const CgroupFiles& files) {
  uint64_t least = kUnknown;
  while (true) {
    if (path == "/") path.clear();
    least = std::min(least, LeftInCgroup(mount + path, files));
    if (path.empty()) return least;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

uint64_t LeftInCgroups(const std::string& root) {
  uint64_t least = kUnknown;
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    // "hierarchy:controllers:path"; the path may hold colons of its own.
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[0] == "0" && parts[1].empty()) {
      least = std::min(least, LeftUpwards(root + "/sys/fs/cgroup", parts[2], kV2));
    }
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()) {
      least = std::min(least, LeftUpwards(root + "/sys/fs/cgroup/memory", parts[2], kV1));
    }
  }
  return least;
}

}  // namespace

uint64_t AvailableHostMemoryBelow(const std::string& root) {
  uint64_t least = LeftInCgroups(root);
  if (const auto kib = ReadKey(root + "/proc/meminfo", "MemAvailable:")) {
    least = std::min(least, *kib * 1024);
  }
  // A full node is not an unknown one.
  return least == kUnknown ? 0 : std::max<uint64_t>(least, 1);
}

uint64_t AvailableHostMemory() { return AvailableHostMemoryBelow(""); }

}  // namespace ebt
