// From raw stacks to sites: names each frame once and keeps every site once.
#ifndef EBBTIDE_SRC_CALLSITE_SITE_TABLE_H_
#define EBBTIDE_SRC_CALLSITE_SITE_TABLE_H_

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "src/callsite/callsite.h"
#include "src/callsite/import_path.h"
#include "src/callsite/modules.h"
#include "src/callsite/python_stack.h"

namespace ebt::callsite {

// Not thread-safe: the caller serializes. What may allocate may throw std::bad_alloc and leaves
// the table usable.
class SiteTable {
 public:
  // Frames of one site: native ones, and native and Python ones together. What is further out
  // is left away.
  static constexpr size_t kMaxNativeFrames = 64;
  static constexpr size_t kMaxFrames = 128;
  // Together they bound the table: 4 bytes a frame of a site, and some 200 a distinct frame.
  static constexpr size_t kMaxSites = size_t{1} << 18;
  static constexpr size_t kMaxDistinctFrames = size_t{1} << 19;

  // Interns the stack made of return addresses and then Python frames, each innermost first,
  // without the frames that are Ebbtide's own. Returns its id; 0 if no frame is
  // left or the table is full.
  uint64_t Intern(std::span<void* const> pcs, std::span<const PythonFrame> python,
                  const Interpreter* interpreter);

  // A hash of what the Python frame is called, the same in every run.
  uint64_t Name(const PythonFrame& frame, const Interpreter& interpreter);

  Site Lookup(uint64_t id) const;
  std::vector<uint64_t> InternedSince(size_t& from) const;

  // Takes note of what was loaded or unloaded. True if something was unloaded, so that an
  // address may have changed its meaning.
  bool RefreshModules();
  // Whether a libpython is among the modules.
  bool HasLibpython() const;

 private:
  using FrameIndex = uint32_t;
  static constexpr FrameIndex kOurs = UINT32_MAX;
  static constexpr FrameIndex kFull = UINT32_MAX - 1;

  FrameIndex IndexOfPc(uint64_t pc);
  FrameIndex IndexOfPython(const PythonFrame& frame, const Interpreter& interpreter);
  FrameIndex InternFrame(Frame frame);
  Frame DescribeNative(uint64_t pc, const Module* module) const;

  ModuleTable modules_;
  ImportPaths paths_;
  std::deque<Frame> frames_;
  std::vector<uint64_t> frame_hash_;  // parallel to frames_
  absl::flat_hash_map<uint64_t, FrameIndex> by_hash_;
  // What a pc or a Python instruction turned out to be; may be emptied at any time.
  absl::flat_hash_map<uint64_t, FrameIndex> by_pc_, by_instruction_;
  absl::flat_hash_map<uint64_t, std::vector<FrameIndex>> sites_;
  std::vector<uint64_t> order_;
};

// The part of a site's id that one frame contributes, and the id of a whole stack.
uint64_t HashFrame(const Frame& frame) noexcept;
uint64_t HashSite(std::span<const Frame> frames) noexcept;

}  // namespace ebt::callsite

#endif  // EBBTIDE_SRC_CALLSITE_SITE_TABLE_H_
