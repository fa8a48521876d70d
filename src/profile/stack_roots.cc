#include "src/profile/stack_roots.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace ebt::profile {
namespace {

// So many allocations of one thread, one behind the other, make a run.
constexpr uint64_t kLeastRun = 4;
// The program's own thread makes at least this share of all blocks.
constexpr double kLeastMain = 0.2;

// The outermost frame's module by site. Not its line: a script calls from many.
absl::flat_hash_map<uint64_t, std::string> RootModules(const Profile& profile) {
  absl::flat_hash_map<uint64_t, std::string> out;
  for (const callsite::Site& site : profile.sites) {
    if (!site.frames.empty()) out.emplace(site.id, site.frames.back().module);
  }
  return out;
}

}  // namespace

std::vector<Root> FindRoots(const Profile& profile, const Usage& usage) {
  const auto modules = RootModules(profile);
  absl::flat_hash_map<std::string, uint64_t> parameters;
  for (const Block& block : profile.blocks) {
    const auto module = modules.find(block.site);
    if (usage.in_model[block.id] && module != modules.end()) ++parameters[module->second];
  }
  std::vector<Root> out(profile.blocks.size(), Root::kUnknown);
  if (parameters.empty()) return out;
  const auto main =
      std::max_element(parameters.begin(), parameters.end(), [](const auto& a, const auto& b) {
        return a.second != b.second ? a.second < b.second : a.first < b.first;
      });
  uint64_t known = 0, mains = 0;
  for (const Block& block : profile.blocks) {
    const auto module = modules.find(block.site);
    if (module == modules.end()) continue;
    out[block.id] = module->second == main->first ? Root::kMain : Root::kOther;
    ++known;
    mains += out[block.id] == Root::kMain;
  }
  // Stacks that were cut off end anywhere.
  if (double(mains) < kLeastMain * double(known)) out.assign(out.size(), Root::kUnknown);
  return out;
}

std::vector<RootRun> FindRootRuns(const Profile& profile, const std::vector<Root>& roots,
                                  uint64_t begin, uint64_t end) {
  std::vector<RootRun> runs;
  RootRun next;  // the run that may begin
  uint64_t length = 0;
  for (uint64_t at = begin; at < end; ++at) {
    const Event& event = profile.events[at];
    if (event.kind != EventKind::kAlloc || roots[event.block] == Root::kUnknown) continue;
    const Root root = roots[event.block];
    if (root != next.root) {
      next = {at, end, root};
      length = 0;
    }
    if (++length != kLeastRun || (!runs.empty() && runs.back().root == root)) continue;
    if (!runs.empty()) runs.back().end = next.begin;
    runs.push_back(next);
  }
  return runs;
}

}  // namespace ebt::profile
