// Which slot of the plan a running allocation is: pure data, no driver.
#ifndef EBBTIDE_SRC_REPLAY_MATCHER_H_
#define EBBTIDE_SRC_REPLAY_MATCHER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/plan/plan.h"

namespace ebt::replay {

// Follows the run along the plan: its prologue once, then its step over and over. An allocation
// is recognised by its place in that order, its size and its fingerprint. Where those disagree
// the site decides which later slot it is, if any; the order goes on from there. A wrong answer
// costs a planned place, never correctness. Not thread-safe.
class Matcher {
 public:
  // The plan must outlive the matcher. site: the calling thread's site (callsite::Capture),
  // asked only when order and fingerprint disagree.
  Matcher(const plan::Plan& plan, std::function<uint64_t()> site);

  // The slot of the allocation that happens now, nullptr if the plan does not know it.
  const plan::Slot* Next(uint64_t bytes, uint64_t fingerprint);

  // Whole steps gone through.
  uint64_t steps() const { return steps_; }
  // Where in the step the last known allocation was; nullptr in the prologue.
  const plan::Slot* last() const { return last_; }
  uint64_t matched() const { return matched_; }
  uint64_t missed() const { return missed_; }

 private:
  // Places of a sequence that have this size, in order.
  using Places = absl::flat_hash_map<uint64_t, std::vector<uint32_t>>;

  const plan::Slot* FindInPrologue(uint64_t bytes, uint64_t site);
  const plan::Slot* FindInStep(uint64_t bytes, uint64_t site);
  const plan::Slot* TakePrologue(uint32_t at);
  const plan::Slot* TakeStep(uint32_t at);

  const plan::Plan& plan_;
  const std::function<uint64_t()> site_;
  Places prologue_places_, step_places_;
  bool in_step_ = false;
  uint32_t prologue_next_ = 0, step_next_ = 0;
  const plan::Slot* last_ = nullptr;
  uint64_t steps_ = 0, matched_ = 0, missed_ = 0;
};

}  // namespace ebt::replay

#endif  // EBBTIDE_SRC_REPLAY_MATCHER_H_
