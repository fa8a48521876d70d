#include "src/profile/kinds.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "src/profile/phases.h"
#include "src/profile/step_spans.h"
#include "src/profile/usage.h"

namespace ebt::profile {
namespace {

// Scratch is handed to at least so many launches of a step, and nothing else is handed to as many
// of these as this share.
constexpr uint64_t kLeastUses = 8;
constexpr double kInCommon = 0.5;

class Judgement {
 public:
  explicit Judgement(const Profile& profile)
      : profile_(profile),
        touches_(profile),
        usage_(FindUsage(profile, touches_)),
        cycles_(FindCycles(profile, touches_, usage_)) {
    const auto spans = FindStepSpans(profile, touches_, usage_, cycles_);
    if (!spans.empty()) set_up_end_ = spans.front().begin;
  }

  std::vector<Kind> Kinds() {
    std::vector<Kind> kinds;
    for (const Block& block : profile_.blocks) kinds.push_back(OfBlock(block));
    AskSiblings(kinds);
    for (const Block& block : profile_.blocks) {
      if (kinds[block.id] == Kind::kUnknown && LooksLikeGradient(block)) {
        kinds[block.id] = Kind::kGradient;
      }
    }
    return kinds;
  }

 private:
  Kind OfBlock(const Block& block) const {
    if (block.exported) return Kind::kCommunication;
    return usage_.persistent[block.id] ? OfPersistent(block) : OfPassing(block);
  }

  Kind OfPersistent(const Block& block) const {
    const auto touches = touches_.Of(block.id);
    if (touches.empty()) {
      const bool made_by_pass = !usage_.windows.empty() && !IsMadeBySetUp(block);
      return made_by_pass ? Kind::kWorkspace : Kind::kUnknown;
    }
    if (IsMadeByOptimizer(block)) return Kind::kOptimizerState;
    if (usage_.in_model[block.id] && IsScratch(block)) {
      // Without an optimizer a weight that nobody was seen to fill looks so too.
      return usage_.windows.empty() ? Kind::kUnknown : Kind::kWorkspace;
    }
    // Stale words of other launches make a copy of the parameters look so too: its siblings know.
    if (LooksLikeGradient(block)) return IsMadeBySetUp(block) ? Kind::kUnknown : Kind::kGradient;
    if (IsRefilled(block)) return Kind::kInput;
    if (usage_.in_model[block.id]) return Kind::kParameter;
    return std::any_of(touches.begin(), touches.end(), [&](uint32_t at) { return InWindow(at); })
               ? Kind::kOptimizerState
               : Kind::kUnknown;
  }

  // Persistent, and touched by backward and the optimizer.
  bool LooksLikeGradient(const Block& block) const {
    if (!usage_.persistent[block.id]) return false;
    if (usage_.in_model[block.id]) return IsUsedBackwardOnly(block);
    uint64_t inside = 0, outside = 0;
    for (uint32_t at : touches_.Of(block.id)) {
      if (at < first_window_begin()) continue;
      (InWindow(at) ? inside : outside) += IsLaunch(profile_.events[at]);
    }
    return inside > 0 && outside > inside / 4;
  }

  // What an optimizer makes when it first runs stays its own, whatever stale words of other
  // launches' parameters say later.
  bool IsMadeByOptimizer(const Block& block) const {
    const Cycle& cycle = CycleOf(block.alloc_at);
    if (!cycle.has_window || cycle.passes.empty()) return false;
    const auto touches = touches_.Of(block.id);
    return touches.front() >= cycle.window_begin &&
           std::any_of(touches.begin(), touches.end(),
                       [&](uint32_t at) { return at >= cycle.end && InWindow(at); });
  }

  bool IsMadeBySetUp(const Block& block) const { return block.alloc_at < set_up_end_; }

  // Nobody fills it but with zeros, and much work that has nothing else in common is handed it.
  bool IsScratch(const Block& block) const {
    const auto touches = touches_.Of(block.id);
    const Event& first = profile_.events[touches.front()];
    const bool is_cleared = first.kind == EventKind::kCopy && first.copy == CopyKind::kMemset;
    if (is_cleared ? IsMadeBySetUp(block) : usage_.use[touches.front()] != Usage::Use::kModel) {
      return false;
    }
    uint64_t uses = 0;
    absl::flat_hash_map<uint32_t, uint64_t> together;
    for (uint32_t at : touches) {
      if (usage_.use[at] == Usage::Use::kUpdate && InWindow(at)) return false;
      if (usage_.use[at] != Usage::Use::kModel) continue;
      ++uses;
      for (uint32_t other : profile_.events[at].touched) {
        if (other != block.id && usage_.persistent[other]) ++together[other];
      }
    }
    // Parameters are there before anything is computed.
    if (IsMadeBySetUp(block) && uses < kLeastUses * cycles_.size()) return false;
    return std::all_of(together.begin(), together.end(), [&](const auto& other) {
      return double(other.second) < kInCommon * double(uses);
    });
  }

  // The host fills it again and again.
  bool IsRefilled(const Block& block) const {
    uint64_t fills = 0;
    for (uint32_t at : touches_.Of(block.id)) fills += IsFill(profile_.events[at], block.id);
    return fills > 1;
  }

  static bool IsFill(const Event& event, uint32_t block) {
    return event.kind == EventKind::kCopy && event.copy == CopyKind::kHtoD &&
           !event.touched.empty() && event.touched.front() == block;
  }

  Kind OfPassing(const Block& block) const {
    const auto touches = touches_.Of(block.id);
    if (touches.empty()) return Kind::kUnknown;
    if (IsFill(profile_.events[touches.front()], block.id)) return Kind::kInput;
    if (usage_.windows.empty()) return Kind::kUnknown;
    const Cycle& cycle = CycleOf(touches.front());
    if (cycle.has_window && touches.front() >= cycle.window_begin) return Kind::kTemporary;
    if (cycle.has_window && IsUpdatedWith(block, cycle)) return Kind::kGradient;
    const Pass* pass = PassOf(cycle, touches.front());
    if (pass == nullptr) return Kind::kUnknown;
    const bool forward = touches.front() < pass->turn;
    if (forward) return IsHeldAt(block, pass->turn) ? Kind::kActivation : Kind::kTemporary;
    // A gradient that no optimizer has used, perhaps: its siblings know.
    const bool outlives_pass = block.free_at >= pass->end && IsHeldAt(block, touches.back() + 1);
    return outlives_pass ? Kind::kUnknown : Kind::kTemporary;
  }

  // Alive when the next launch behind `at` has run: what is freed at once was not kept.
  bool IsHeldAt(const Block& block, uint64_t at) const {
    if (block.free_at == kNever) return true;
    const uint64_t free_at = std::min<uint64_t>(block.free_at, profile_.events.size());
    return usage_.launches_before[free_at] > usage_.launches_before[at];
  }

  // Backward adds to it, the optimizer reads it, forward leaves it alone.
  bool IsUsedBackwardOnly(const Block& block) const {
    bool backward = false, window = false;
    for (uint32_t at : touches_.Of(block.id)) {
      const Cycle& cycle = CycleOf(at);
      if (usage_.use[at] == Usage::Use::kUpdate) window |= InWindow(at);
      if (usage_.use[at] != Usage::Use::kModel) continue;
      const Pass* pass = PassOf(cycle, at);
      if (pass != nullptr && at < pass->turn) return false;
      backward |= pass != nullptr;
    }
    return backward && window;
  }

  bool IsUpdatedWith(const Block& block, const Cycle& cycle) const {
    const auto touches = touches_.Of(block.id);
    for (auto at = std::lower_bound(touches.begin(), touches.end(), cycle.window_begin);
         at != touches.end() && *at < cycle.end; ++at) {
      if (usage_.use[*at] == Usage::Use::kUpdate) return true;
    }
    return false;
  }

  const Cycle& CycleOf(uint64_t at) const {
    auto next = std::upper_bound(cycles_.begin(), cycles_.end(), at,
                                 [](uint64_t e, const Cycle& cycle) { return e < cycle.begin; });
    return *(next - 1);
  }

  // The pass that the event lies in or behind; before the first one that one.
  static const Pass* PassOf(const Cycle& cycle, uint64_t at) {
    const Pass* found = nullptr;
    for (const Pass& pass : cycle.passes) {
      if (found == nullptr || pass.begin <= at) found = &pass;
    }
    return found;
  }

  bool InWindow(uint64_t at) const {
    const Cycle& cycle = CycleOf(at);
    return cycle.has_window && at >= cycle.window_begin;
  }
  uint64_t first_window_begin() const {
    return usage_.windows.empty() ? 0 : usage_.windows.front().begin;
  }

  // Blocks that did not show their kind are of the kind of most of their siblings, which the same
  // site made: of the same size if there are any, else of all sizes.
  void AskSiblings(std::vector<Kind>& kinds) const {
    using Votes = std::array<uint64_t, kKinds>;
    absl::flat_hash_map<std::pair<uint64_t, uint64_t>, Votes> of_size;
    absl::flat_hash_map<uint64_t, Votes> of_site;
    for (const Block& block : profile_.blocks) {
      if (block.site == 0 || kinds[block.id] == Kind::kUnknown) continue;
      ++of_size.try_emplace({block.site, block.bytes}, Votes{}).first->second[Index(block, kinds)];
      ++of_site.try_emplace(block.site, Votes{}).first->second[Index(block, kinds)];
    }
    auto most = [](const Votes& votes) {
      return Kind(std::max_element(votes.begin(), votes.end()) - votes.begin());
    };
    std::vector<Kind> answers = kinds;
    for (const Block& block : profile_.blocks) {
      if (kinds[block.id] != Kind::kUnknown) continue;
      if (auto it = of_size.find({block.site, block.bytes}); it != of_size.end()) {
        answers[block.id] = most(it->second);
      } else if (auto site = of_site.find(block.site); site != of_site.end()) {
        answers[block.id] = most(site->second);
      }
    }
    kinds = std::move(answers);
  }
  static size_t Index(const Block& block, const std::vector<Kind>& kinds) {
    return static_cast<size_t>(kinds[block.id]);
  }

  const Profile& profile_;
  const BlockTouches touches_;
  const Usage usage_;
  const std::vector<Cycle> cycles_;
  uint64_t set_up_end_ = kNever;  // event
};

}  // namespace

std::string_view KindName(Kind kind) {
  static constexpr std::string_view kNames[kKinds] = {
      "unknown",   "parameter", "gradient", "optimizer state", "activation",
      "temporary", "workspace", "input",    "communication"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<Kind> FindKinds(const Profile& profile, const std::optional<Steps>&) {
  return Judgement(profile).Kinds();
}

}  // namespace ebt::profile
