#include "src/profile/event_assembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace ebt::profile {
namespace {

class Assembly {
 public:
  Assembly(FileEvents&& from, const std::string& name, Profile& profile)
      : from_(std::move(from)), name_(name), profile_(profile) {}

  absl::Status Run() {
    std::stable_sort(
        from_.events.begin(), from_.events.end(),
        [](const FileEvent& a, const FileEvent& b) { return a.sequence < b.sequence; });
    profile_.events.reserve(from_.events.size());
    for (FileEvent& event : from_.events) {
      if (absl::Status status = Take(event); !status.ok()) return status;
    }
    for (const uint32_t file_id : from_.kept) {
      if (const auto it = ids_.find(file_id); it != ids_.end())
        profile_.blocks[it->second].kept = true;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Take(FileEvent& from) {
    switch (from.kind) {
      case RecordKind::kAlloc:
        return Allocate(from);
      case RecordKind::kFree:
        Free(from);
        return absl::OkStatus();
      case RecordKind::kExported:
        if (Block* block = Alive(from.event.block)) block->exported = true;
        return absl::OkStatus();
      default:
        KeepAlive(from.event.touched);
        profile_.events.push_back(std::move(from.event));
        return absl::OkStatus();
    }
  }

  absl::Status Allocate(FileEvent& from) {
    Block block = from_.allocs[from.alloc];
    const auto id = static_cast<uint32_t>(profile_.blocks.size());
    if (!ids_.try_emplace(block.id, id).second) {
      return absl::DataLossError(
          fmt::format("{}: byte {}: block {} is allocated twice: the file is damaged, record again",
                      name_, from_.alloc_offsets[from.alloc], block.id));
    }
    block.id = id;
    block.alloc_at = profile_.events.size();
    profile_.blocks.push_back(block);
    last_touch_.push_back(0);
    from.event.block = id;
    profile_.events.push_back(std::move(from.event));
    return absl::OkStatus();
  }

  void Free(FileEvent& from) {
    Block* block = Alive(from.event.block);
    if (block == nullptr) return;
    block->free_at = profile_.events.size();
    block->free_stream = from.event.stream;
    from.event.block = block->id;
    profile_.events.push_back(std::move(from.event));
  }

  // In place: what is kept never overtakes what is read.
  void KeepAlive(std::vector<uint32_t>& touched) {
    const uint64_t stamp = profile_.events.size() + 1;
    size_t kept = 0;
    for (const uint32_t file_id : touched) {
      const Block* block = Alive(file_id);
      if (block == nullptr || std::exchange(last_touch_[block->id], stamp) == stamp) continue;
      touched[kept++] = block->id;
    }
    touched.resize(kept);
  }

  Block* Alive(uint32_t file_id) {
    const auto it = ids_.find(file_id);
    if (it == ids_.end()) return nullptr;
    Block& block = profile_.blocks[it->second];
    return block.free_at == kNever ? &block : nullptr;
  }

  FileEvents from_;
  const std::string& name_;
  Profile& profile_;
  absl::flat_hash_map<uint32_t, uint32_t> ids_;  // the file's number of a block → index
  std::vector<uint64_t> last_touch_;             // of each block: `at` + 1 of its last touch
};

}  // namespace

absl::Status Assemble(FileEvents&& from, const std::string& name, Profile& profile) {
  return Assembly(std::move(from), name, profile).Run();
}

}  // namespace ebt::profile
