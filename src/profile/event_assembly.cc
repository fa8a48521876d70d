#include "src/profile/event_assembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace ebt::profile {
namespace {

// The file's numbers of blocks → what replaces them. Recorders count blocks up, so an array does
// for nearly every file; numbers that lie far apart go into a table.
class BlockIds {
 public:
  // allocs: how many blocks there will be.
  explicit BlockIds(size_t allocs) : dense_(2 * allocs + 1024, kNoBlock) {}

  // False: it has an id already.
  bool Add(uint32_t file_id, uint32_t id) {
    if (file_id >= dense_.size()) return sparse_.try_emplace(file_id, id).second;
    return std::exchange(dense_[file_id], id) == kNoBlock;
  }
  uint32_t Find(uint32_t file_id) const {
    if (file_id < dense_.size()) return dense_[file_id];
    const auto it = sparse_.find(file_id);
    return it == sparse_.end() ? kNoBlock : it->second;
  }

 private:
  std::vector<uint32_t> dense_;
  absl::flat_hash_map<uint32_t, uint32_t> sparse_;
};

// Everything happens in place: the events of a large recording fit into memory once.
class Assembly {
 public:
  Assembly(FileEvents&& from, const std::string& name, Profile& profile)
      : from_(std::move(from)), name_(name), profile_(profile), ids_(from_.allocs.size()) {}

  absl::Status Run() {
    Sort();
    profile_.blocks.reserve(from_.allocs.size());
    for (size_t i = 0; i < from_.events.size(); ++i) {
      absl::StatusOr<bool> stays = Take(from_.keys[i].kind, from_.events[i]);
      if (!stays.ok()) return stays.status();
      if (!*stays) continue;
      if (now_ != i) from_.events[now_] = std::move(from_.events[i]);
      ++now_;
    }
    from_.events.resize(now_);
    profile_.events = std::move(from_.events);
    for (const uint32_t file_id : from_.kept) {
      if (const uint32_t id = ids_.Find(file_id); id != kNoBlock) profile_.blocks[id].kept = true;
    }
    return absl::OkStatus();
  }

 private:
  void Sort() {
    const auto earlier = [](const FileEvents::Key& a, const FileEvents::Key& b) {
      return a.sequence != b.sequence ? a.sequence < b.sequence : a.index < b.index;
    };
    std::vector<FileEvents::Key>& keys = from_.keys;
    if (std::is_sorted(keys.begin(), keys.end(), earlier)) return;
    std::sort(keys.begin(), keys.end(), earlier);
    // Each cycle of the permutation is walked once; its keys say afterwards that they are in place.
    for (uint32_t start = 0; start < keys.size(); ++start) {
      if (keys[start].index == start) continue;
      Event first = std::move(from_.events[start]);
      uint32_t to = start;
      while (keys[to].index != start) {
        const uint32_t source = std::exchange(keys[to].index, to);
        from_.events[to] = std::move(from_.events[source]);
        to = source;
      }
      from_.events[to] = std::move(first);
      keys[to].index = to;
    }
  }

  // Whether the event stays, as the profile's event number now_.
  absl::StatusOr<bool> Take(RecordKind kind, Event& event) {
    switch (kind) {
      case RecordKind::kAlloc:
        return Allocate(event);
      case RecordKind::kFree:
        return Free(event);
      case RecordKind::kExported:
        if (Block* block = Alive(event.block)) block->exported = true;
        return false;
      default:
        KeepAlive(event.touched);
        return true;
    }
  }

  absl::StatusOr<bool> Allocate(Event& event) {
    Block block = from_.allocs[event.block];
    const auto id = static_cast<uint32_t>(profile_.blocks.size());
    if (!ids_.Add(block.id, id)) return AllocatedTwice(event.block);
    block.id = id;
    block.alloc_at = now_;
    profile_.blocks.push_back(block);
    last_touch_.push_back(0);
    event.block = id;
    return true;
  }

  absl::Status AllocatedTwice(size_t alloc) const {
    const auto chunk =
        std::upper_bound(from_.chunks.begin(), from_.chunks.end(), alloc,
                         [](size_t a, const FileEvents::Chunk& c) { return a < c.first_alloc; });
    return absl::DataLossError(fmt::format(
        "{}: {}: block {} is allocated twice: the file is damaged, record again", name_,
        std::prev(chunk)->place.Name(from_.alloc_offsets[alloc]), from_.allocs[alloc].id));
  }

  bool Free(Event& event) {
    Block* block = Alive(event.block);
    if (block == nullptr) return false;
    block->free_at = now_;
    block->free_stream = event.stream;
    event.block = block->id;
    return true;
  }

  // In place: what is kept never overtakes what is read.
  void KeepAlive(std::vector<uint32_t>& touched) {
    const uint64_t stamp = now_ + 1;
    size_t kept = 0;
    for (const uint32_t file_id : touched) {
      const Block* block = Alive(file_id);
      if (block == nullptr || std::exchange(last_touch_[block->id], stamp) == stamp) continue;
      touched[kept++] = block->id;
    }
    touched.resize(kept);
  }

  Block* Alive(uint32_t file_id) {
    const uint32_t id = ids_.Find(file_id);
    if (id == kNoBlock) return nullptr;
    Block& block = profile_.blocks[id];
    return block.free_at == kNever ? &block : nullptr;
  }

  FileEvents from_;
  const std::string& name_;
  Profile& profile_;
  BlockIds ids_;
  size_t now_ = 0;                    // events that have stayed
  std::vector<uint64_t> last_touch_;  // of each block: `at` + 1 of its last touch
};

}  // namespace

std::string ChunkPlace::Name(uint64_t offset) const {
  if (packed) return fmt::format("byte {}, byte {} of what is packed there", at, offset);
  return fmt::format("byte {}", at + kChunkHeaderBytes + offset);
}

absl::Status Assemble(FileEvents&& from, const std::string& name, Profile& profile) {
  return Assembly(std::move(from), name, profile).Run();
}

}  // namespace ebt::profile
