#include "src/profile/usage.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"

namespace ebt::profile {
namespace {

// Flags, counters and losses: who they go with says nothing.
constexpr uint64_t kFewBytes = 64;
// Of the blocks that a launch names so many may be stale words of its parameters.
constexpr double kStale = 0.05;
// The model uses a block when this share of its launches says so, or a smaller one more than once:
// an embedding is used once a step, in which a loop of an optimizer updates it fifteen times.
constexpr double kModelShare = 0.1, kLeastModelShare = 0.04;
// Of the updates of an optimizer's state at most this share lies elsewhere.
constexpr double kElsewhere = 0.1;
// Before windows are known, what lives for this share of all launches is persistent.
constexpr double kLongLife = 0.33;
// Persistence and windows follow from each other; they settle in the second round as a rule.
constexpr int kRounds = 4;
// Updates of fewer bytes than this share of the largest window's are no optimizer.
constexpr double kLeastWindow = 0.02;
// And of fewer parameters than this share of what the window with the most has: one activation as
// large as a weight makes a window of one.
constexpr double kLeastUpdated = 0.1;

// No program has more optimizers than this; damaged recordings may seem to.
constexpr size_t kMostGroups = 64;

bool IsUpdate(const Profile& profile, const Event& event, const std::vector<bool>& persistent) {
  absl::flat_hash_set<uint64_t> sizes;
  for (uint32_t block : event.touched) {
    if (persistent[block]) sizes.insert(profile.blocks[block].bytes);
  }
  const auto strangers =
      std::count_if(event.touched.begin(), event.touched.end(), [&](uint32_t block) {
        const uint64_t bytes = profile.blocks[block].bytes;
        return !persistent[block] && bytes > kFewBytes && !sizes.contains(bytes);
      });
  return double(strangers) <= kStale * double(event.touched.size());
}

void FindUses(const Profile& profile, Usage& usage) {
  usage.use.assign(profile.events.size(), Usage::Use::kNone);
  for (size_t at = 0; at < profile.events.size(); ++at) {
    const Event& event = profile.events[at];
    if (!IsLaunch(event)) continue;
    // What a graph uses is not seen: enough to end a window.
    if (event.kind == EventKind::kGraph) usage.use[at] = Usage::Use::kModel;
    const bool names_persistent =
        std::any_of(event.touched.begin(), event.touched.end(), [&](uint32_t block) {
          return usage.persistent[block] && profile.blocks[block].bytes > kFewBytes;
        });
    if (!names_persistent) continue;
    usage.use[at] =
        IsUpdate(profile, event, usage.persistent) ? Usage::Use::kUpdate : Usage::Use::kModel;
  }
}

void FindInModel(const Profile& profile, const BlockTouches& touches, Usage& usage) {
  usage.in_model.assign(profile.blocks.size(), false);
  for (uint32_t block = 0; block < profile.blocks.size(); ++block) {
    if (!usage.persistent[block]) continue;
    uint64_t model = 0, update = 0;
    for (uint32_t at : touches.Of(block)) {
      model += usage.use[at] == Usage::Use::kModel;
      update += usage.use[at] == Usage::Use::kUpdate;
    }
    const double share = double(model) / double(std::max<uint64_t>(model + update, 1));
    usage.in_model[block] = share >= (model > 1 ? kLeastModelShare : kModelShare);
  }
}

// Parameters behind which stands a block of their size that the model does not use itself: the
// gradient or the state.
std::vector<uint32_t> Updated(const Profile& profile, const Event& event, const Usage& usage) {
  absl::flat_hash_set<uint64_t> partners;
  for (uint32_t block : event.touched) {
    if (!usage.in_model[block]) partners.insert(profile.blocks[block].bytes);
  }
  std::vector<uint32_t> out;
  for (uint32_t block : event.touched) {
    if (usage.in_model[block] && partners.contains(profile.blocks[block].bytes)) {
      out.push_back(block);
    }
  }
  return out;
}

void SettleWindow(const Profile& profile, Usage::Window& window) {
  auto& updated = window.updated;
  std::sort(updated.begin(), updated.end());
  updated.erase(std::unique(updated.begin(), updated.end()), updated.end());
  for (uint32_t block : updated) window.bytes += profile.blocks[block].bytes;
}

// By function: its name contains what the user named. Empty when nothing was named.
std::vector<bool> NamedFunctions(const Profile& profile) {
  const auto named = profile.metadata.find(kStepKernelKey);
  std::vector<bool> out;
  if (named == profile.metadata.end() || named->second.empty()) return out;
  for (const Function& function : profile.functions) {
    out.push_back(absl::StrContains(function.name, named->second));
  }
  return out;
}

// False when no launch is of the kernel that the user named.
bool FindNamedWindows(const Profile& profile, Usage& usage) {
  const std::vector<bool> named = NamedFunctions(profile);
  std::vector<Usage::Window> found;
  bool open = false;
  for (size_t at = 0; at < profile.events.size(); ++at) {
    const Event& event = profile.events[at];
    const bool is_named =
        event.kind == EventKind::kLaunch && event.function < named.size() && named[event.function];
    if (is_named) {
      if (!open) found.push_back({.begin = at});
      found.back().end = at + 1;
      const auto updated = Updated(profile, event, usage);
      found.back().updated.insert(found.back().updated.end(), updated.begin(), updated.end());
    }
    open = is_named || (open && usage.use[at] != Usage::Use::kModel);
  }
  if (found.empty()) return false;
  for (Usage::Window& window : found) SettleWindow(profile, window);
  usage.windows = std::move(found);
  return true;
}

uint64_t CommonBytes(const Profile& profile, const std::vector<uint32_t>& a,
                     const std::vector<uint32_t>& b) {
  std::vector<uint32_t> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  uint64_t bytes = 0;
  for (uint32_t block : both) bytes += profile.blocks[block].bytes;
  return bytes;
}

// A window joins the group of the first one with which it shares half of the larger one.
void FindGroups(const Profile& profile, std::vector<Usage::Window>& windows) {
  std::vector<const Usage::Window*> firsts;
  for (Usage::Window& window : windows) {
    const auto same = std::find_if(firsts.begin(), firsts.end(), [&](const auto* first) {
      return 2 * CommonBytes(profile, first->updated, window.updated) >=
             std::max(first->bytes, window.bytes);
    });
    window.group = uint32_t(same - firsts.begin());
    if (same == firsts.end() && firsts.size() < kMostGroups) firsts.push_back(&window);
  }
}

// An optimizer comes again. What happens once beside windows that do is an accident of sizes:
// a batch that is as large as a weight.
void LeaveOutAccidents(std::vector<Usage::Window>& windows) {
  absl::flat_hash_map<uint32_t, uint64_t> counts;
  uint64_t repeated = 0;  // bytes of the largest window that comes again
  for (const Usage::Window& window : windows) {
    if (++counts[window.group] > 1) repeated = std::max(repeated, window.bytes);
  }
  std::erase_if(windows, [&](const Usage::Window& window) {
    return counts[window.group] == 1 && window.bytes < repeated;
  });
}

// Windows end where the model is used again, and begin with the first update of a parameter or
// of a block that nothing but these stretches touches.
void FindWindows(const Profile& profile, Usage& usage) {
  std::vector<Usage::Window> found;
  bool open = false;
  for (size_t at = 0; at < profile.events.size(); ++at) {
    if (usage.use[at] == Usage::Use::kModel) open = false;
    if (usage.use[at] != Usage::Use::kUpdate) continue;
    const auto updated = Updated(profile, profile.events[at], usage);
    if (updated.empty()) continue;
    if (!open) found.push_back({.begin = at});
    open = true;
    found.back().end = at + 1;
    found.back().updated.insert(found.back().updated.end(), updated.begin(), updated.end());
  }
  uint64_t most = 0, most_updated = 0;
  for (Usage::Window& window : found) {
    SettleWindow(profile, window);
    most = std::max(most, window.bytes);
    most_updated = std::max<uint64_t>(most_updated, window.updated.size());
  }
  std::erase_if(found, [&](const Usage::Window& window) {
    return double(window.bytes) < kLeastWindow * double(most) ||
           double(window.updated.size()) < kLeastUpdated * double(most_updated);
  });
  FindGroups(profile, found);
  LeaveOutAccidents(found);
  usage.windows = std::move(found);
}

// Right before the first state: steps are counted, weights decay.
void TakeInStepCounts(const Profile& profile, const Usage& usage, Usage::Window& window) {
  for (uint64_t at = window.begin; at-- > 0;) {
    const Event& event = profile.events[at];
    if (!IsLaunch(event)) continue;
    const bool persists =
        !event.touched.empty() && usage.use[at] != Usage::Use::kModel &&
        std::any_of(event.touched.begin(), event.touched.end(),
                    [&](uint32_t block) { return usage.persistent[block]; }) &&
        std::all_of(event.touched.begin(), event.touched.end(), [&](uint32_t block) {
          return usage.persistent[block] || profile.blocks[block].bytes <= kFewBytes;
        });
    if (!persists) return;
    window.begin = at;
  }
}

// A foreach optimizer works on its state before it comes to the parameters.
void WidenWindows(const Profile& profile, const BlockTouches& touches, Usage& usage) {
  // For each event how many windows begin at or before it, if model use does not lie between.
  const auto& windows = usage.windows;
  if (windows.empty()) return;
  std::vector<uint64_t> region_begin;
  for (const Usage::Window& window : windows) {
    uint64_t begin = window.begin;
    while (begin > 0 && usage.use[begin - 1] != Usage::Use::kModel) --begin;
    region_begin.push_back(begin);
  }
  auto in_a_region = [&](uint32_t at) {
    const auto next = std::upper_bound(region_begin.begin(), region_begin.end(), uint64_t{at});
    return next != region_begin.begin() &&
           at < windows[size_t(next - region_begin.begin()) - 1].end;
  };
  auto is_state = [&](uint32_t block) {
    if (!usage.persistent[block] || usage.in_model[block]) return false;
    uint64_t inside = 0, all = 0;
    for (uint32_t at : touches.Of(block)) {
      // Before the first region lies set-up, which fills state.
      if (usage.use[at] != Usage::Use::kUpdate || at < region_begin.front()) continue;
      ++all;
      inside += in_a_region(at);
    }
    return inside > 0 && double(inside) > (1 - kElsewhere) * double(all);
  };
  std::vector<bool> state(profile.blocks.size());
  for (uint32_t block = 0; block < profile.blocks.size(); ++block) state[block] = is_state(block);
  for (size_t i = 0; i < windows.size(); ++i) {
    for (uint64_t at = region_begin[i]; at < windows[i].begin; ++at) {
      const auto& touched = profile.events[at].touched;
      if (usage.use[at] != Usage::Use::kUpdate) continue;
      if (!std::any_of(touched.begin(), touched.end(), [&](uint32_t b) { return state[b]; })) {
        continue;
      }
      usage.windows[i].begin = at;
      break;
    }
    TakeInStepCounts(profile, usage, usage.windows[i]);
  }
}

std::vector<bool> LongLived(const Profile& profile, const Usage& usage) {
  const double least = std::max(1.0, kLongLife * double(usage.launches_before.back()));
  std::vector<bool> out;
  for (const Block& block : profile.blocks) {
    const uint64_t free_at = std::min<uint64_t>(block.free_at, profile.events.size());
    const uint64_t alloc_at = std::min(block.alloc_at, free_at);
    out.push_back(double(usage.launches_before[free_at] - usage.launches_before[alloc_at]) >=
                  least);
  }
  return out;
}

// Where no optimizer comes again, gradients that stay behind its window cannot be told from the
// rest that stays.
std::vector<bool> SeesWindowOnce(const Profile& profile, const Usage& usage) {
  std::vector<bool> out;
  for (const Block& block : profile.blocks) {
    out.push_back(
        std::any_of(usage.windows.begin(), usage.windows.end(), [&](const Usage::Window& window) {
          return block.alloc_at < window.end && window.end <= block.free_at;
        }));
  }
  return out;
}

std::vector<bool> SeesWindowsTwice(const Profile& profile, const Usage& usage) {
  // For each window the next one of its group, and from each window on the earliest end of such
  // a second one.
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  const auto& windows = usage.windows;
  std::vector<uint64_t> second(windows.size() + 1, kNone);
  absl::flat_hash_map<uint32_t, uint64_t> end_of_next;
  for (size_t i = windows.size(); i-- > 0;) {
    const auto next = end_of_next.find(windows[i].group);
    second[i] = std::min(second[i + 1], next == end_of_next.end() ? kNone : next->second);
    end_of_next[windows[i].group] = windows[i].end;
  }
  if (second[0] == kNone) return SeesWindowOnce(profile, usage);
  std::vector<bool> out;
  for (const Block& block : profile.blocks) {
    const auto first = std::partition_point(
        windows.begin(), windows.end(),
        [&](const Usage::Window& window) { return window.end <= block.alloc_at; });
    const uint64_t end = second[size_t(first - windows.begin())];
    out.push_back(end != kNone && end <= block.free_at);
  }
  return out;
}

}  // namespace

BlockTouches::BlockTouches(const Profile& profile) : begin_(profile.blocks.size() + 1, 0) {
  for (const Event& event : profile.events) {
    for (uint32_t block : event.touched) ++begin_[block + 1];
  }
  for (size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  events_.resize(begin_.back());
  std::vector<uint64_t> next(begin_.begin(), begin_.end() - 1);
  for (size_t at = 0; at < profile.events.size(); ++at) {
    for (uint32_t block : profile.events[at].touched) events_[next[block]++] = uint32_t(at);
  }
}

Usage FindUsage(const Profile& profile, const BlockTouches& touches) {
  Usage usage;
  const size_t events = profile.events.size();
  usage.launches_before.assign(events + 1, 0);
  for (size_t at = 0; at < events; ++at) {
    usage.launches_before[at + 1] = usage.launches_before[at] + IsLaunch(profile.events[at]);
  }
  usage.persistent = LongLived(profile, usage);
  for (int round = 0; round < kRounds; ++round) {
    FindUses(profile, usage);
    FindInModel(profile, touches, usage);
    if (!FindNamedWindows(profile, usage)) FindWindows(profile, usage);
    std::vector<bool> persistent = SeesWindowsTwice(profile, usage);
    if (usage.windows.empty() || persistent == usage.persistent) break;
    usage.persistent = std::move(persistent);
  }
  if (NamedFunctions(profile).empty()) WidenWindows(profile, touches, usage);
  return usage;
}

}  // namespace ebt::profile
