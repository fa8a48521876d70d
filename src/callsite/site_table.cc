#include "src/callsite/site_table.h"

#include <array>
#include <string_view>
#include <utility>

#include "src/callsite/stable_hash.h"

namespace ebt::callsite {
namespace {

// Beyond this many entries a look-up cache is emptied rather than grown.
constexpr size_t kMaxLookups = size_t{1} << 20;

// Code that was generated at run time lies elsewhere in every run.
constexpr std::string_view kGeneratedCode = "[anon]";

bool IsLibpython(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  return path.substr(0, 9) == "libpython";
}

}  // namespace

uint64_t HashFrame(const Frame& frame) noexcept {
  StableHash hash;
  hash.Add(static_cast<uint64_t>(frame.kind)).Add(frame.module).Add(frame.offset);
  // A line may hold several functions (lambdas), and a native name depends on what was stripped.
  if (frame.kind == Frame::Kind::kPython) hash.Add(frame.function);
  return hash.Value();
}

uint64_t HashSite(std::span<const Frame> frames) noexcept {
  StableHash hash;
  for (const Frame& frame : frames) hash.Add(HashFrame(frame));
  return hash.Value();
}

bool SiteTable::RefreshModules() {
  const uint64_t unloads = modules_.unloads();
  if (!modules_.Refresh()) return false;
  by_pc_.clear();
  return modules_.unloads() != unloads;
}

bool SiteTable::HasLibpython() const {
  for (const Module& module : modules_.modules()) {
    if (IsLibpython(module.path)) return true;
  }
  return false;
}

Frame SiteTable::DescribeNative(uint64_t pc, const Module* module) const {
  Frame frame;
  frame.kind = Frame::Kind::kNative;
  if (module == nullptr) {
    frame.module = kGeneratedCode;
    return frame;
  }
  frame.module = module->identity;
  frame.file = module->path;
  frame.offset = pc - module->bias;
  return frame;
}

SiteTable::FrameIndex SiteTable::InternFrame(Frame frame) {
  const uint64_t hash = HashFrame(frame);
  if (auto known = by_hash_.find(hash); known != by_hash_.end()) return known->second;
  if (frames_.size() >= kMaxDistinctFrames) return kFull;
  const auto index = static_cast<FrameIndex>(frames_.size());
  frame_hash_.reserve(index + 1 > frame_hash_.capacity() ? 2 * index + 64 : index + 1);
  by_hash_.reserve(by_hash_.size() + 1);
  frames_.push_back(std::move(frame));
  frame_hash_.push_back(hash);
  by_hash_.emplace(hash, index);
  return index;
}

SiteTable::FrameIndex SiteTable::IndexOfPc(uint64_t pc) {
  if (auto known = by_pc_.find(pc); known != by_pc_.end()) return known->second;
  const Module* module = modules_.Find(pc);
  const FrameIndex index =
      module != nullptr && module->ours ? kOurs : InternFrame(DescribeNative(pc, module));
  if (by_pc_.size() >= kMaxLookups) by_pc_.clear();
  by_pc_.emplace(pc, index);
  return index;
}

SiteTable::FrameIndex SiteTable::IndexOfPython(const PythonFrame& frame,
                                               const Interpreter& interpreter) {
  const uint64_t key = MixPair(0, frame.FirstWord(), frame.SecondWord());
  if (auto known = by_instruction_.find(key); known != by_instruction_.end()) {
    return known->second;
  }
  Frame described = interpreter.Describe(frame);
  described.module = paths_.NameOf(described.file);
  const FrameIndex index = InternFrame(std::move(described));
  if (by_instruction_.size() >= kMaxLookups) by_instruction_.clear();
  by_instruction_.emplace(key, index);
  return index;
}

uint64_t SiteTable::Intern(std::span<void* const> pcs, std::span<const PythonFrame> python,
                           const Interpreter* interpreter) {
  std::array<FrameIndex, kMaxFrames> index;
  size_t count = 0;
  for (void* pc : pcs) {
    // A return address may already belong to the next function; the call itself does not.
    const FrameIndex frame = IndexOfPc(reinterpret_cast<uint64_t>(pc) - 1);
    if (frame == kFull) return 0;
    if (frame == kOurs) continue;
    if (count == kMaxNativeFrames) break;
    index[count++] = frame;
  }
  for (const PythonFrame& python_frame : python) {
    if (count == kMaxFrames) break;
    const FrameIndex frame = IndexOfPython(python_frame, *interpreter);
    if (frame == kFull) return 0;
    index[count++] = frame;
  }
  if (count == 0) return 0;
  StableHash hash;
  for (size_t i = 0; i < count; ++i) hash.Add(frame_hash_[index[i]]);
  const uint64_t id = hash.Value();
  if (sites_.contains(id)) return id;
  if (sites_.size() >= kMaxSites) return 0;
  order_.reserve(order_.size() + 1 > order_.capacity() ? 2 * order_.size() + 64
                                                       : order_.size() + 1);
  sites_.emplace(id, std::vector<FrameIndex>(index.begin(), index.begin() + count));
  order_.push_back(id);
  return id;
}

uint64_t SiteTable::Name(const PythonFrame& frame, const Interpreter& interpreter) {
  const FrameIndex index = IndexOfPython(frame, interpreter);
  return index == kFull ? 0 : frame_hash_[index];
}

Site SiteTable::Lookup(uint64_t id) const {
  Site site;
  site.id = id;
  const auto known = sites_.find(id);
  if (known == sites_.end()) return site;
  site.frames.reserve(known->second.size());
  for (FrameIndex index : known->second) site.frames.push_back(frames_[index]);
  return site;
}

std::vector<uint64_t> SiteTable::InternedSince(size_t& from) const {
  if (from >= order_.size()) return {};
  std::vector<uint64_t> ids(order_.begin() + static_cast<std::ptrdiff_t>(from), order_.end());
  from = order_.size();
  return ids;
}

}  // namespace ebt::callsite
